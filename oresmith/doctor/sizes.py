"""How large a model is, from its config: what memory, time and disk are computed from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from oresmith.errors import OresmithError
from oresmith.models.hub import PREFIX, parse_hub
from oresmith.param_models import Base
from oresmith.stage import DATA

QWEN3_4B: dict[str, Any] = {
    "model_type": "qwen3",
    "hidden_size": 2560,
    "intermediate_size": 9728,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151_936,
    "max_position_embeddings": 40_960,
    "tie_word_embeddings": True,
}
"""As in the config.json of Qwen/Qwen3-4B."""
KNOWN = {"Qwen/Qwen3-4B": QWEN3_4B}
"""Configs of models of the Hub that need not be fetched for an estimate."""


class ModelSize(msgspec.Struct, frozen=True):
    """Shape of a decoder."""

    source: str
    hidden: int
    feed_forward: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int
    tied: bool

    @property
    def block(self) -> int:
        """Numbers in the matrices of one layer, norms left out."""
        attention = (
            self.hidden * self.head_dim * (self.heads + 2 * self.kv_heads) + self.heads * self.head_dim * self.hidden
        )
        return attention + 3 * self.hidden * self.feed_forward

    @property
    def parameters(self) -> int:
        """Numbers in all."""
        return self.layers * self.block + self.vocabulary * self.hidden * (1 if self.tied else 2)

    def lora(self, rank: int) -> int:
        """Numbers in LoRA matrices on all linear layers."""
        query, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        pairs = [(self.hidden, query), (self.hidden, keys), (self.hidden, keys), (query, self.hidden)]
        pairs += [(self.hidden, self.feed_forward)] * 2 + [(self.feed_forward, self.hidden)]
        return self.layers * rank * sum(first + second for first, second in pairs)


def size_of(config: dict[str, Any], source: str) -> ModelSize:
    """The shape that a config.json states.

    Raises:
        OresmithError: a number is missing or none.
    """
    try:
        heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
        return ModelSize(
            source=source,
            hidden=hidden,
            feed_forward=int(config["intermediate_size"]),
            layers=int(config["num_hidden_layers"]),
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or hidden // heads),
            vocabulary=int(config["vocab_size"]),
            context=int(config.get("max_position_embeddings") or 0),
            tied=bool(config.get("tie_word_embeddings", False)),
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise OresmithError(
            "the model's config does not state its shape", where=source, got=str(error)[:100]
        ) from error


def base_size(base: Base, data: Path = DATA) -> ModelSize | None:
    """The shape of the base model, from wherever it can be read without a network; None where that is nowhere.

    Raises:
        OresmithError: a config that is none.
    """
    from oresmith.models import embedded, tiny

    if base.model == "embedded":
        return size_of(embedded.CONFIG, base.model)
    if base.model == "tiny":
        return size_of(tiny.tiny_config({"<|im_end|>": 0, "<|endoftext|>": 0}), base.model)
    if base.model.startswith(PREFIX):
        pinned = parse_hub(base.model)
        found = cached(base)
        if found is not None:
            return size_of(_read(found / "config.json"), base.model)
        known = KNOWN.get(pinned.repository)
        return size_of(known, base.model) if known else None
    path = Path(base.model) / "config.json"
    return size_of(_read(path), str(path)) if path.is_file() else None


def cached(base: Base) -> Path | None:
    """The directory of a pinned model in the local cache; None where it is not there. The network is not asked."""
    from oresmith.models.hub import fetch_hub

    try:
        return fetch_hub(parse_hub(base.model), download=False)
    except OresmithError:
        return None


def _read(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise OresmithError("the model's config cannot be read", where=str(path), got=str(error)[:200]) from error
    if not isinstance(config, dict):
        raise OresmithError("the model's config is no JSON object", where=str(path))
    return config
