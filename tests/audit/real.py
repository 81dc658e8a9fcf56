"""The real inputs, where a checkout has them beside it."""

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the real inputs in ../shared/data are not here")
