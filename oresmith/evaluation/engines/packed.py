"""Many conversations in one forward pass without padding, and with keys and values kept from turn to turn.

The tokens of all conversations stand one after the other in a single sequence. Linear layers see them together, which
is what makes a batch cheap; attention takes each conversation alone, with its own keys and values. So nothing is
padded, no mask has to be guessed from a padding token (which can be the end token, too), and what a conversation gets
depends on nothing beside it, as long as the matrix products of the machine do not (`linear`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import scaled_dot_product_attention as attend
from transformers import AttentionInterface

from oresmith.errors import OresmithError
from oresmith.evaluation.engines.linear import PackedLinear, pack

NAME = "oresmith_packed"
ALIKE = 2
"""Least tokens of a pass, the missing ones being filler, so that packed layers compute each row alike .."""
ALIKE_UNPACKED = 16
""".. and others do: MKL in float32 on one thread, as far as was seen."""
PIECE = 1024
"""Most tokens of a conversation in one pass. Cuts depend on the conversation alone."""
PASS = 2048
"""Tokens of a pass while prompts are read; it bounds memory."""
_STEP = 64
"""Room for keys and values grows by multiples of so many tokens, or by a quarter."""
_UNKNOWN = ("softcap", "s_aux", "position_bias")
"""What some models ask of attention beyond what is computed here."""


class Row:
    """What a model has read of one conversation."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        """Tokens whose keys and values are held."""
        self._held: dict[int, tuple[Any, Any]] = {}
        """Layer -> keys and values, each of shape (heads, room, head size)."""

    def put(self, layer: int, keys: Any, values: Any) -> tuple[Any, Any]:
        """Add keys and values, shape (heads, tokens, head size), after the tokens held; returns all, as views."""
        start = len(self.ids)
        end = start + keys.shape[1]
        held = self._held.get(layer)
        if held is None or held[0].shape[1] < end:
            held = self._held[layer] = _grown(held, start, end, keys), _grown(held, start, end, values, 1)
        held[0][:, start:end] = keys
        held[1][:, start:end] = values
        return held[0][:, :end], held[1][:, :end]

    def cut(self, tokens: int) -> None:
        """Forget all but the first tokens."""
        del self.ids[tokens:]

    def copy(self) -> Row:
        """Another conversation with the same beginning."""
        other, read = Row(), len(self.ids)
        other.ids = list(self.ids)
        other._held = {
            layer: (_grown(held, read, read + 4 * _STEP, held[0]), _grown(held, read, read + 4 * _STEP, held[1], 1))
            for layer, held in self._held.items()
        }
        return other


def common(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two conversations begin with alike."""
    if left[: len(right)] == right[: len(left)]:
        return min(len(left), len(right))
    return next(place for place, (one, other) in enumerate(zip(left, right, strict=False)) if one != other)


class Piece(NamedTuple):
    """Tokens that a conversation is fed in one pass."""

    row: Row
    ids: Sequence[int]


class _Pass:
    """What all layers of a pass share."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self._masks: dict[tuple[int, int, int | None], Any] = {}

    def mask(self, new: int, read: int, window: int | None, like: Any) -> Any:
        """What each of the newest tokens may look at, as summands of shape (new, read) of the kind of `like`."""
        key = new, read, window
        if key not in self._masks:
            places = torch.arange(read, device=like.device)
            seen, at = places[None], places[read - new :, None]
            hidden = seen > at if window is None else (seen > at) | (seen <= at - window)
            self._masks[key] = like.new_zeros(new, read).masked_fill_(hidden, float("-inf"))
        return self._masks[key]


class PackedModel:
    """A causal language model of transformers whose attention and linear layers are replaced by ours.

    Args:
        model: with keyword `logits_to_keep`, as all current ones have. It is changed.

    Raises:
        OresmithError: its attention cannot be replaced.
    """

    def __init__(self, model: Any) -> None:
        AttentionInterface.register(NAME, _attention)
        try:
            model.set_attn_implementation(NAME)
        except (ValueError, KeyError, ImportError) as error:
            raise unfit(str(error)) from error
        self.model = model
        self._least = ALIKE if pack(model) else ALIKE_UNPACKED

    def read(self, wanted: Sequence[Piece]) -> Any:
        """Feed each conversation its new tokens, at least one, in as many passes as they need.

        Returns:
            Scores after the last token of each: float32, shape (conversations, vocabulary).
        """
        found: list[Any] = [None] * len(wanted)
        passes: list[list[tuple[int, Piece, bool]]] = []
        room = 0
        for place, (row, ids) in enumerate(wanted):
            for start in range(0, len(ids), PIECE):
                piece = Piece(row, ids[start : start + PIECE])
                if len(piece.ids) > room or start:
                    passes.append([])
                    room = PASS
                passes[-1].append((place, piece, start + PIECE >= len(ids)))
                room -= len(piece.ids)
        for group in passes:
            scores = self.step([piece for _, piece, _ in group])
            for (place, _, last), score in zip(group, scores, strict=True):
                if last:
                    found[place] = score
        return torch.stack(found)

    def refresh(self, weights: Iterable[tuple[str, Any]]) -> None:
        """Take other weights, by the names that the model had them under; rows read before are worth nothing then.

        Raises:
            OresmithError: the model has no such weight, or one of another shape.
        """
        with torch.no_grad():
            for name, tensor in weights:
                self._set(name, tensor)
        head, inputs = self.model.get_output_embeddings(), self.model.get_input_embeddings()
        if isinstance(head, PackedLinear) and self.model.config.get_text_config().tie_word_embeddings:
            head.refresh("weight", inputs.weight.detach())

    def _set(self, name: str, tensor: Any) -> None:
        place, _, kind = name.rpartition(".")
        try:
            module = self.model.get_submodule(place)
            if isinstance(module, PackedLinear):
                module.refresh(kind, tensor)
            else:
                module.get_parameter(kind).copy_(tensor)
        except (AttributeError, RuntimeError, ValueError) as error:
            raise OresmithError("the weights are of another model", where=name[:120], got=str(error)[:200]) from error

    def step(self, pieces: Sequence[Piece]) -> Any:
        """One pass. Each conversation comes once; it is fed its piece, and gets scores as in `read`."""
        ids = [token for piece in pieces for token in piece.ids]
        places = [len(row.ids) + place for row, tokens in pieces for place in range(len(tokens))]
        ends, end = [], 0
        for piece in pieces:
            end += len(piece.ids)
            ends.append(end - 1)
        filler, device = [0] * max(0, self._least - len(ids)), self.model.device
        with torch.inference_mode():
            scores = self.model(
                input_ids=torch.tensor([ids + filler], device=device),
                position_ids=torch.tensor([places + filler], device=device),
                use_cache=False,
                logits_to_keep=torch.tensor(ends + [0] * max(0, self._least - len(ends)), device=device),
                packed=_Pass(pieces),
            ).logits[0, : len(pieces)]
        for row, tokens in pieces:
            row.ids += tokens
        return scores.float()


def unfit(why: str) -> OresmithError:
    """The refusal of a model whose attention is not the one computed here."""
    return OresmithError(
        "the engine transformers cannot run a model of this architecture",
        where="rollout.engine",
        got=why[:200],
        todo="set rollout.engine to vllm, or serve the model and set it to openai",
    )


def _attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    *,
    packed: _Pass,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **others: Any,
) -> tuple[Any, None]:
    """Attention of the conversations in a pass, each alone: what transformers calls in every layer.

    Args:
        module: the layer's attention; its `layer_idx` names the layer.
        query: shape (1, heads, tokens, head size).
        key: shape (1, heads of keys, tokens, head size); so is `value`.
        value: see `key`.
        attention_mask: never needed.
        packed: the pass; what is behind its tokens is filler, whose result is 0.
        scaling: of the products.
        sliding_window: tokens that one can look back, itself included.
        others: what other attentions need.
    """
    asked = [name for name in _UNKNOWN if others.get(name) is not None]
    if asked:
        raise unfit(f"attention with {', '.join(asked)}")
    result = query.new_zeros(1, query.shape[2], query.shape[1], value.shape[3])
    begin = 0
    for row, ids in packed.pieces:
        end = begin + len(ids)
        keys, values = row.put(module.layer_idx, key[0, :, begin:end], value[0, :, begin:end])
        result[0, begin:end] = _one(
            query[:, :, begin:end], keys[None], values[None], scaling, window=sliding_window, whole=packed
        )
        begin = end
    return result, None


def _one(query: Any, keys: Any, values: Any, scaling: float | None, *, window: int | None, whole: _Pass) -> Any:
    """Attention of one conversation's newest tokens to all of it, shape (tokens, heads, head size)."""
    new, read = query.shape[2], keys.shape[2]
    if new == 1:
        if window is not None:
            keys, values = keys[:, :, -window:], values[:, :, -window:]
        # All heads that share keys become the queries of one head, which spares repeating the keys.
        grouped = query.reshape(1, keys.shape[1], -1, query.shape[3])
        return attend(grouped, keys, values, scale=scaling).reshape(1, query.shape[1], -1)
    if new == read and (window is None or read <= window):
        found = attend(query, keys, values, scale=scaling, is_causal=True, enable_gqa=True)
    else:
        mask = whole.mask(new, read, window, query)
        found = attend(query, keys, values, attn_mask=mask, scale=scaling, enable_gqa=True)
    return found[0].transpose(0, 1)


def _grown(held: tuple[Any, Any] | None, read: int, needed: int, like: Any, part: int = 0) -> Any:
    """Room for more tokens, of the kind of `like`, with what was held."""
    room = -(-max(needed, read * 5 // 4) // _STEP) * _STEP
    grown = like.new_empty(like.shape[0], room, like.shape[2])
    if held is not None:
        grown[:, :read] = held[part][:, :read]
    return grown
