"""Small bundles to publish."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from oresmith.release.manifest import (
    Counterpart,
    Part,
    PartRelease,
    Release,
    content_sha256,
    encode,
    list_files,
    release_sha256,
)
from oresmith.release.publish.target import Patience

CARD = """---
license: other
configs:
- config_name: sft
  data_files:
  - split: train
    path: sft/train-*.parquet
  - split: validation
    path: sft/validation-*.parquet
- config_name: heldout
  data_files:
  - split: pool_1
    path: heldout/pool_1-*.parquet
---
# Things, {version}
"""
HASTY = Patience(timeout=1.0, tries=5, first_wait=0.01, longest_wait=0.05)
"""For Hubs that answer at once, or never."""


def small_bundle(
    folder: Path,
    version: str = "1.0.0",
    *,
    owner: str = "acme",
    rows: int = 3,
    shards: int = 1,
    previous: str | None = None,
) -> Release:
    """A bundle of a few small files; shard 0 is the same in every version."""
    dataset, model = folder / "dataset", folder / "model"
    for shard in range(shards):
        _rows(dataset / f"sft/train-{shard:05d}.parquet", shard, rows)
    _rows(dataset / "sft/validation-00000.parquet", 90, 2)
    _rows(dataset / "heldout/pool_1-00000.parquet", 91, 2)
    _text(dataset / "README.md", CARD.replace("{version}", version))
    _text(dataset / "certificate/certificate.json", json.dumps({"release": version}))
    _text(model / "README.md", f"---\nlicense: apache-2.0\n---\n# Model, {version}\n")
    if not (model / "model.safetensors").exists():
        (model / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}" + version.encode())
    _text(model / "training.json", json.dumps({"version": version}))
    return sealed(folder, version, owner, previous)


def sealed(folder: Path, version: str, owner: str, previous: str | None = None) -> Release:
    """Write the three `release.json` over what lies in the folder."""
    names = {"dataset": f"{owner}/things", "model": f"{owner}/things-model"}
    for kind in names:
        (folder / kind / "release.json").unlink(missing_ok=True)
    files = {kind: list_files(folder / kind) for kind in names}
    hashes = {kind: content_sha256(files[kind]) for kind in names}
    for kind, other in (("dataset", "model"), ("model", "dataset")):
        record = PartRelease(
            kind=kind,  # type: ignore[arg-type]
            version=version,
            repository=names[kind],
            files=files[kind],
            content_sha256=hashes[kind],
            release_sha256=release_sha256(files["dataset"], files["model"]),
            code_tree="0" * 40,
            previous=previous,
            waivers=(),
            gates=(),
            counterpart=Counterpart(
                kind=other,  # type: ignore[arg-type]
                repository=names[other],
                version=version,
                content_sha256=hashes[other],
            ),
        )
        (folder / kind / "release.json").write_bytes(encode(record))
    parts = {kind: Part(repository=names[kind], files=list_files(folder / kind)) for kind in names}
    release = Release(
        version=version,
        dataset=parts["dataset"],
        model=parts["model"],
        content_sha256=release_sha256(parts["dataset"].files, parts["model"].files),
        code_tree="0" * 40,
        previous=previous,
        waivers=(),
        gates=(),
    )
    (folder / "release.json").write_bytes(encode(release))
    return release


def tiny_model(folder: Path) -> None:
    """A model that `transformers` loads, of a few thousand parameters."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    from oresmith.models.tiny import tiny_tokenizer

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_bytes(tiny_tokenizer())
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.fspath(folder / "tokenizer.json"))
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=600,
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def _rows(path: Path, seed: int, count: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    ids = [f"{seed}-{number}" for number in range(count)]
    pq.write_table(pa.table({"id": ids, "n": list(range(count))}), path)


def _text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
