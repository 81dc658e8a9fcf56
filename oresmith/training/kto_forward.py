"""A cheaper forward for the log-probabilities of KTO's rows, with the same values and gradients.

KTO runs each microbatch four times: policy and start model, on the rows and on the mismatched ones. Most rows begin
with the same system prompt and tools, about half of a row: such a beginning is run once a microbatch here, and its rows
attend to its keys and values. The head of the vocabulary is run on supervised positions only, which TRL does on GPUs
but not on CPUs. On a CPU rows go one by one, so that nothing is computed for padding, and what the gradient needs of a
row is computed again when its turn comes: the memory is that of one row, however many are in a microbatch. TRL's loss
stays as it is, because only the forward that it calls is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

_PLAIN = ("llama", "qwen2", "qwen3", "smollm3")
"""Types of models whose logits are the head of the last hidden state and nothing else."""
_UNCHANGED = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier", "output_multiplier")
_TAKEN = {"input_ids", "attention_mask", "use_cache", "return_dict"}
LEAST = 64
"""Tokens in common from which a beginning is shared."""
_FIELDS = ("log_probs", "entropy", "mean_logits")
_TILE = 32_768
"""Of the vocabulary, of which logits are in memory at the same time, as in TRL."""


def share_beginnings(model: Any, temperature: float = 1.0) -> bool:
    """Replace the forward that `trl.trainer.utils.add_fused_lm_head` gave a model; other calls stay as they are.

    Args:
        model: the causal language model itself, without PEFT's wrapper.
        temperature: that logits are divided by.

    Returns:
        Whether it was replaced: not for models whose logits are scaled, or whose attention slides.
    """
    config = model.config
    scaled = any(getattr(config, name, None) is not None for name in _UNCHANGED)
    kinds = getattr(config, "layer_types", None) or ["full_attention"]
    if config.model_type not in _PLAIN or scaled or set(kinds) != {"full_attention"}:
        return False
    stock = model.forward

    def forward(self: Any, *args: Any, fused_lm_head: bool = False, labels: Any = None, **kwargs: Any) -> Any:
        asked = {name for name, value in kwargs.items() if value is not None}  # PEFT names all that there is
        if not fused_lm_head or labels is None or args or asked - _TAKEN:
            return stock(*args, fused_lm_head=fused_lm_head, labels=labels, **kwargs)
        return _scored(self, kwargs["input_ids"], kwargs["attention_mask"], labels, temperature)

    model.forward = MethodType(forward, model)
    return True


def one_by_one(ids: Any) -> bool:
    """Whether rows go one by one and are computed again for the gradient: on a CPU, which gains nothing by a batch."""
    return bool(ids.device.type == "cpu")


def common_beginning(ids: Any, labels: Any) -> int:
    """Tokens that all rows begin with, none of them supervised.

    Args:
        ids: [rows, tokens].
        labels: as `ids`, -100 on what is not supervised.
    """
    same = int((ids == ids[:1]).all(0).long().cumprod(0).sum())
    return min(same, int((labels != -100).long().argmax(1).min()))


def _scored(model: Any, ids: Any, seen: Any, labels: Any, temperature: float) -> Any:
    """TRL's output for rows padded on the right: per-token fields of [rows, tokens - 1], 0 where a label is -100."""
    import torch
    from trl.trainer.utils import FusedCausalLMOutput

    order: list[int] = []
    parts: list[list[Any]] = []
    for places in _alike(ids):
        shared = common_beginning(ids[places], labels[places]) if len(places) > 1 else 0
        shared = shared if shared >= LEAST else 0
        begun = _kept(_beginning, ids[places[:1], :shared], model) if shared else ()
        for part in [[place] for place in places] if one_by_one(ids) else [places]:
            longest = int(seen[part].sum(1).max())
            cut = [one[part, :longest] for one in (ids, seen, labels)]
            found = _kept(_rest, *cut, model, (temperature, shared), *begun)
            mask = labels[part, 1:] != -100
            parts.append([one.new_zeros(mask.shape).masked_scatter(mask, one) for one in found])
            order += part
    back = sorted(range(len(order)), key=order.__getitem__)
    fields = {name: torch.cat([part[place] for part in parts])[back] for place, name in enumerate(_FIELDS)}
    return FusedCausalLMOutput(**fields, label_mask=labels[:, 1:] != -100)


def _alike(ids: Any) -> Iterator[list[int]]:
    """Places of rows that begin alike."""
    found: dict[tuple[int, ...], list[int]] = {}
    for place, row in enumerate(ids[:, :LEAST].tolist()):
        found.setdefault(tuple(row), []).append(place)
    yield from found.values()


def _kept(work: Callable[..., Any], *inputs: Any) -> Any:
    """Do the work; on a CPU it is done again for the gradient, so that nothing of it stays in memory until then."""
    import torch
    from torch.utils.checkpoint import checkpoint

    if not torch.is_grad_enabled() or not one_by_one(inputs[0]):
        return work(*inputs)
    return checkpoint(work, *inputs, use_reentrant=False, preserve_rng_state=False)


def _beginning(ids: Any, model: Any) -> tuple[Any, ...]:
    """Of one row's beginning: the last hidden state, then keys and values of each layer."""
    from transformers import DynamicCache

    cache = DynamicCache()
    states = model.base_model(input_ids=ids, cache=cache, use_cache=True).last_hidden_state
    return states[:, -1:], *(part for layer in cache.layers for part in (layer.keys, layer.values))


def _rest(ids: Any, seen: Any, labels: Any, model: Any, how: tuple[float, int], *begun: Any) -> tuple[Any, ...]:
    """`_FIELDS` of the supervised tokens of rows, in one line, from what was kept of their beginning; `how` is the
    temperature, and the tokens of that beginning."""
    import torch
    from transformers import DynamicCache
    from trl.kernels import ChunkedLogProbFunction

    (temperature, shared), (rows, length) = how, ids.shape
    options: dict[str, Any] = {"use_cache": False}
    if shared:
        layers = [one.expand(rows, -1, -1, -1) for one in begun[1:]]
        cache = DynamicCache(list(zip(layers[::2], layers[1::2], strict=True)))
        places = torch.arange(shared, length, device=ids.device).expand(rows, -1)
        options = {"use_cache": True, "cache": cache, "position_ids": places}
    states = model.base_model(input_ids=ids[:, shared:], attention_mask=seen, **options).last_hidden_state
    # The token behind the beginning is predicted from the beginning's last state.
    states = torch.cat([begun[0].expand(rows, -1, -1), states], 1)[:, :-1] if shared else states[:, :-1]
    targets = labels[:, max(shared, 1) :]
    mask = targets != -100
    head = model.get_output_embeddings()
    found = ChunkedLogProbFunction.apply(
        states[mask], head.weight, head.bias, targets[mask], temperature, _TILE, None, 1.0, _FIELDS
    )
    return found[0], found[1], found[3]
