"""Where the real inputs lie beside a development checkout; a user's clone has none, and the tests then skip."""

from __future__ import annotations

import pytest

from tests.code_deps import ROOT

SHARED = ROOT.parent / "shared" / "data"
SN15 = SHARED / "sn15"
needs_shared = pytest.mark.skipif(not SN15.is_dir(), reason="the real inputs (../shared/data) are not here")
PROBLEMS = SN15 / "problems.jsonl.gz"
CATALOGUE = SN15 / "catalogue.jsonl.gz"
"""Of all real traces."""
REFERENCE = ("reference", "reference_long", "reference_newruntime")
ALL = (*REFERENCE, "miner_b", "probe_failures", "probe_decoy", "probe_puppet")
