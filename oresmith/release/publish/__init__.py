"""Putting a release on a Hub, taking it off `main` again, and back: every step can be interrupted and repeated."""
