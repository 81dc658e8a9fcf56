"""Gates: thresholds over stored evidence, applied late and never to a raw trace."""

from oresmith.gates.decide import decide
from oresmith.gates.rows import Rule, apply_rules, row_rules

__all__ = ["Rule", "apply_rules", "decide", "row_rules"]
