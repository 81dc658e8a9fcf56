"""The model and the steps of gpu_smoke.py, in plain torch: what they compute is written out, whatever TRL is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple

RANK, ALPHA = 16, 32
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class Sizes(NamedTuple):
    """How large everything is."""

    shape: dict[str, Any]
    row: int
    """Tokens of a training row."""
    long_row: int
    """Of the longest, alone in its batch."""
    rows: int
    """Of a microbatch."""
    new_tokens: int
    """Of a rollout."""
    rollouts: int
    steps: int
    """That are timed, after one that is not."""


FULL = Sizes(
    {
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151_936,
        "max_position_embeddings": 40_960,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
    },
    row=2048, long_row=14_336, rows=4, new_tokens=128, rollouts=64, steps=3,
)  # fmt: skip
TINY = Sizes(
    FULL.shape
    | {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": 256,
        "max_position_embeddings": 256,
    },
    row=32, long_row=64, rows=4, new_tokens=8, rollouts=4, steps=1,
)  # fmt: skip


def build_model(sizes: Sizes, device: str, dtype: Any) -> tuple[Any, str]:
    """A model of the shape with random weights, made on the device: (model, class)."""
    import torch
    import transformers

    kind = "Qwen3" if hasattr(transformers, "Qwen3ForCausalLM") else "Llama"
    config = getattr(transformers, f"{kind}Config")(**sizes.shape, attn_implementation="sdpa", pad_token_id=0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = getattr(transformers, f"{kind}ForCausalLM")(config)
    finally:
        torch.set_default_dtype(before)
    return model, f"{kind}ForCausalLM"


class Lora:
    """Adapters on all linear layers: peft's where it is found, else the same arithmetic."""

    def __init__(self, model: Any) -> None:
        import torch

        self.model: Any = model
        self.by = "peft" if find_spec("peft") else "own"
        if self.by == "peft":
            from peft import LoraConfig, get_peft_model

            config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=list(TARGETS), task_type="CAUSAL_LM")
            self.model = get_peft_model(model, config)
        else:
            model.requires_grad_(False)
            self._off = [False]
            for module in [one for name, one in model.named_modules() if name.endswith(TARGETS)]:
                _adapt(module, self._off)
        for parameter in self.trained():
            parameter.data = parameter.data.to(torch.float32)
        self.optimiser = torch.optim.AdamW(self.trained(), lr=1e-4)

    def trained(self) -> list[Any]:
        """The parameters of the adapters."""
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    @contextmanager
    def reference(self) -> Iterator[None]:
        """While open, the model is the one without adapters."""
        if self.by == "peft":
            with self.model.disable_adapter():
                yield
            return
        self._off[0] = True
        try:
            yield
        finally:
            self._off[0] = False


def _adapt(linear: Any, off: list[bool]) -> None:
    """Add a low-rank matrix to a linear layer."""
    import torch

    where = {"device": linear.weight.device, "dtype": torch.float32}
    down = torch.nn.Parameter(torch.randn(RANK, linear.in_features, **where) / RANK)
    up = torch.nn.Parameter(torch.zeros(linear.out_features, RANK, **where))
    linear.lora_down, linear.lora_up = down, up
    plain = linear.forward

    def forward(x: Any) -> Any:
        if off[0]:
            return plain(x)
        added = torch.nn.functional.linear(torch.nn.functional.linear(x.float(), down), up) * (ALPHA / RANK)
        return plain(x) + added.to(x.dtype)

    linear.forward = forward


def logps(model: Any, ids: Any, mask: Any) -> tuple[Any, Any]:
    """(log-probabilities of the marked tokens, row of each): the head runs at marked positions only.

    Args:
        model: a causal model.
        ids: int64 [rows, tokens].
        mask: bool [rows, tokens], never at the first token.
    """
    import torch

    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    hidden = inner.model(input_ids=ids).last_hidden_state[:, :-1]
    marked = mask[:, 1:]
    logits = inner.lm_head(hidden[marked]).float()
    chosen = torch.log_softmax(logits, -1).gather(1, ids[:, 1:][marked][:, None])[:, 0]
    return chosen, marked.nonzero()[:, 0]


def _of_rows(values: Any, rows: Any, count: int) -> Any:
    import torch

    return torch.zeros(count, device=values.device).index_add(0, rows, values)


class Smoke:
    """The parts, each one call that returns how many tokens it went over."""

    def __init__(self, sizes: Sizes, device: str, dtype: Any) -> None:
        import torch

        torch.manual_seed(1)
        self.sizes, self.device = sizes, device
        model, self.kind = build_model(sizes, device, dtype)
        self.parameters = sum(parameter.numel() for parameter in model.parameters())
        self.base = model
        self.lora = Lora(model)
        self.model = self.lora.model
        # The second is what earlier versions of transformers call it.
        checkpointing = ("activation_checkpointing_enable", "gradient_checkpointing_enable")
        getattr(model, next(name for name in checkpointing if hasattr(model, name)))()
        model.enable_input_require_grads()
        model.config.use_cache = False

    def sft(self) -> int:
        """One update on a microbatch; a quarter of the tokens is supervised."""
        return self._supervised(self.sizes.rows, self.sizes.row)

    def sft_long(self) -> int:
        """One update on one row of the recipe's longest length."""
        return self._supervised(1, self.sizes.long_row)

    def kto(self) -> int:
        """One update of KTO: policy, reference, and the mismatched pair under both, as TRL computes it."""
        import torch

        count = self.sizes.rows
        ids, mask = self._rows(count, self.sizes.row)
        with torch.no_grad():
            with self.lora.reference():
                reference = _of_rows(*logps(self.model, ids, mask), count)
                pairs = _of_rows(*logps(self.model, ids.roll(1, 0), mask), count)
            mismatched = _of_rows(*logps(self.model, ids.roll(1, 0), mask), count)
            kl = (mismatched - pairs).mean().clamp(min=0)
        margin = _of_rows(*logps(self.model.train(), ids, mask), count) - reference
        sign = torch.tensor([1.0, -1.0] * count, device=self.device)[:count]
        self._update((1 - torch.sigmoid(0.1 * sign * (margin - kl))).mean())
        return count * self.sizes.row

    def rollouts(self) -> int:
        """Sample rollouts in one batch, in eval mode, from prompts of half a row."""
        return int(self._sample(self.sizes.rollouts, self.sizes.row // 2).shape[0] * self.sizes.new_tokens)

    def grpo(self) -> int:
        """One update of Dr. GRPO: sample groups, reward, and the loss divided by a constant length."""
        import torch

        count, prompt = self.sizes.rows, self.sizes.row // 2
        ids = self._sample(count, prompt)
        mask = torch.zeros_like(ids, dtype=torch.bool)
        mask[:, prompt:] = True
        reward = (ids[:, prompt:] % 2).float().mean(1)
        advantage = reward - reward.mean()
        chosen, rows = logps(self.model.train(), ids, mask)
        ratio = torch.exp(chosen - chosen.detach())
        self._update(-(ratio * advantage[rows]).sum() / (count * self.sizes.new_tokens))
        return int(ids.numel())

    def _supervised(self, count: int, length: int) -> int:
        ids, mask = self._rows(count, length)
        chosen, _ = logps(self.model.train(), ids, mask)
        self._update(-chosen.mean())
        return count * length

    def _rows(self, count: int, length: int) -> tuple[Any, Any]:
        import torch

        ids = torch.randint(1, self.sizes.shape["vocab_size"], (count, length), device=self.device)
        mask = torch.zeros_like(ids, dtype=torch.bool)
        mask[:, -(length // 4) :] = True
        return ids, mask

    def _sample(self, count: int, prompt: int) -> Any:
        import torch

        self.model.eval()
        ids, _ = self._rows(count, prompt)
        options = {"max_new_tokens": self.sizes.new_tokens, "min_new_tokens": self.sizes.new_tokens}
        self.base.config.use_cache = True
        with torch.no_grad():
            attention = torch.ones_like(ids)
            found = self.model.generate(input_ids=ids, attention_mask=attention, do_sample=True, **options)
        self.base.config.use_cache = False
        if any(module.training for module in self.model.modules()):
            raise AssertionError("the policy was in training mode while it was sampled")
        return found

    def _update(self, loss: Any) -> None:
        """One step of the optimiser; the adapters must move by finite numbers."""
        import torch

        trained = self.lora.trained()
        before = [parameter.detach().clone() for parameter in trained]
        self.lora.optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0, error_if_nonfinite=True)
        self.lora.optimiser.step()
        if not any(bool((old != new).any()) for old, new in zip(before, trained, strict=True)):
            raise AssertionError("the update changed nothing")
