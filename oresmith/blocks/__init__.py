"""Blocks of a data pipeline: readers, writers and rejects that account for every line, and outputs that are atomic."""
