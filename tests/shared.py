"""Where the real inputs lie beside a development checkout; a user's clone has none, and the tests then skip."""

from __future__ import annotations

import importlib.util

import pytest

from oresmith.minilm import PACKAGE
from tests.code_deps import ROOT

SHARED = ROOT.parent / "shared" / "data"
SN15 = SHARED / "sn15"
needs_shared = pytest.mark.skipif(not SN15.is_dir(), reason="the real inputs (../shared/data) are not here")
needs_model = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, (PACKAGE, "sentence_transformers", "torch"))),
    reason="the extra `embed` (sentence embeddings) is not installed",
)
PROBLEMS = SN15 / "problems.jsonl.gz"
CATALOGUE = SN15 / "catalogue.jsonl.gz"
"""Of all real traces."""
REFERENCE = ("reference", "reference_long", "reference_newruntime")
ALL = (*REFERENCE, "miner_b", "probe_failures", "probe_decoy", "probe_puppet")
