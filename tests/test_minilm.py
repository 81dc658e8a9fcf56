"""The packaged model is the known one, runs without a network, and reads a text whole or not at all."""

from __future__ import annotations

import importlib.util
import socket
import sys
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import numpy as np
import pytest

from oresmith import minilm
from oresmith.errors import OresmithError
from oresmith.minilm import Encoder, load_encoder
from tests.shared import needs_model


@pytest.mark.parametrize("missing", [minilm.PACKAGE, "torch", "sentence_transformers"])
def test_a_missing_package_is_refused_by_the_names_of_the_extra_and_of_what_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    for package in ("torch", "sentence_transformers"):
        monkeypatch.setitem(sys.modules, package, None if package == missing else ModuleType(package))
    if missing == minilm.PACKAGE:
        monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    else:
        monkeypatch.setattr(minilm, "model_folder", lambda asked_by: Path())
    with pytest.raises(OresmithError, match=r"oresmith\[embed\]") as refused:
        load_encoder("evidence.title_model")
    assert missing in refused.value.got
    assert refused.value.where == "evidence.title_model"
    assert "set evidence.title_model to none" in refused.value.todo
    assert refused.value.exit_code == 2


def test_other_weights_than_the_known_ones_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other")
    with pytest.raises(OresmithError, match="not the known ones"):
        minilm.check_files(tmp_path, "cluster.embedding")


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    patch = pytest.MonkeyPatch()
    with patch.context() as offline:
        offline.setattr(socket.socket, "connect", _no_network)
        return load_encoder("a test")


def _no_network(*_: object) -> NoReturn:
    raise AssertionError("the model asked the network for something")


@needs_model
def test_the_packaged_model_holds_no_pickle_and_no_code() -> None:
    kinds = {path.suffix for path in minilm.model_folder("a test").rglob("*") if path.is_file()}
    assert kinds <= {".safetensors", ".json", ".txt", ".md", ""}


@needs_model
def test_the_model_gives_unit_vectors_that_no_neighbour_changes(encoder: Encoder) -> None:
    texts = ["a red steel hammer over 30 pesos", "kettle", "show me men's t-shirts in size large " * 5]
    once = [encoder(text) for text in texts]
    for text, vector in reversed(list(zip(texts, once, strict=True))):
        again = encoder(text)
        assert vector is not None and again is not None
        assert (vector.dtype, vector.shape) == (np.dtype(np.float32), (384,))
        assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-5)
        assert vector.tobytes() == again.tobytes()


@needs_model
def test_the_model_reads_a_text_whole_or_not_at_all(encoder: Encoder) -> None:
    assert encoder("hammer " * 254) is not None
    assert encoder("hammer " * 255) is None
    assert encoder("h" * (minilm.MAX_CHARS + 1)) is None
