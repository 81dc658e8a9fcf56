"""Cutting, publishing, verifying and yanking a release."""
