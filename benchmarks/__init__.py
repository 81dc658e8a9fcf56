"""Measurements of cost: `python -m benchmarks.run` (or `make bench`)."""
