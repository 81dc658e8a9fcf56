"""The check that a model is computed right before anything is asked of it, by its own attention on short texts."""

from __future__ import annotations

from typing import Any

import torch

from oresmith.evaluation.engines.packed import PackedModel, Piece, Row, unfit

_LENGTHS = (41, 23)
_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.05}
"""Largest difference of a score, relative to the largest score."""


def probe(model: Any, vocabulary: int) -> tuple[PackedModel, bool]:
    """Replace attention and linear layers of a model, and compare its scores with those before.

    Args:
        model: of transformers, on the CPU, in evaluation mode. It is changed.
        vocabulary: number of its tokens.

    Returns:
        The changed model, and whether a conversation gets the same bits alone and among others.

    Raises:
        OresmithError: its attention cannot be replaced, or gives other scores.
    """
    texts = [[(7919 * place + 31 * length) % vocabulary for place in range(length)] for length in _LENGTHS]
    try:
        with torch.inference_mode():
            expected = [model(input_ids=torch.tensor([text]), use_cache=False).logits[0, -1].float() for text in texts]
        packed = PackedModel(model)
        found = _scores(packed, texts)
        alone, among = _scores(packed, texts[:1]), _scores(packed, texts * 16)
    except (TypeError, ValueError, AttributeError, KeyError, IndexError, NotImplementedError, RuntimeError) as error:
        raise unfit(f"{type(error).__name__}: {error}") from error
    for one, other in zip(expected, found, strict=True):
        difference, largest = float((one - other).abs().max()), float(one.abs().max())
        if not difference <= _TOLERANCE[model.dtype] * max(1.0, largest):
            raise unfit(f"scores differ by {difference:.3g} of {largest:.3g} from those of its own attention")
    return packed, bool((alone[0] == among[0]).all())


def _scores(packed: PackedModel, texts: list[list[int]]) -> Any:
    """Scores after each text, read in three parts as a conversation is; shape (texts, vocabulary)."""
    rows = [Row() for _ in texts]
    for part in (slice(0, 13), slice(13, -1), slice(-1, None)):
        scores = packed.read([Piece(row, text[part]) for row, text in zip(rows, texts, strict=True)])
    return scores
