"""Fixtures of the tests of evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaluation.talks import shop_files


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Problems and catalogue of the scripted shop as files."""
    return shop_files(tmp_path_factory.mktemp("shop"))
