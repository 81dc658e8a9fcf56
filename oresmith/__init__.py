"""Oresmith: from an agent arena's raw traces to releases that survive an audit."""

__version__ = "0.1.0"
