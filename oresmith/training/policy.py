"""The models that GRPO's rollouts are sampled from: a second copy in this process, or vLLM beside the trainer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from oresmith.errors import OresmithError
from oresmith.evaluation.engines.inprocess import Answer, InProcess
from oresmith.evaluation.engines.model import ids_sha256, prompt_ids
from oresmith.evaluation.records import ChatReply, ChatRequest, Sampling
from oresmith.models.rendering import Chat
from oresmith.param_training import Train


class InProcessPolicy:
    """A copy for inference, which takes the merged weights before each update: packed batches, no dropout.

    On a CPU it computes in float32 whatever `train.dtype` is: in bfloat16 a merged weight would lose most of what a few
    updates change.

    Args:
        start: directory of the model that is trained.
        train: what all steps share.
        batch: episodes at the same time.

    Raises:
        OresmithError: as `InProcess`.
    """

    def __init__(self, start: Path, train: Train, batch: int) -> None:
        cpu = train.device == "cpu"
        self._engine = InProcess(
            start,
            dtype="float32" if cpu else train.dtype,
            threads=train.threads,
            batch=batch,
            device="cpu" if cpu else f"cuda:{os.environ.get('LOCAL_RANK', '0')}",
        )
        self.chat, self.context = self._engine.chat_form, self._engine.context

    def answer(self, requests: Sequence[ChatRequest], sampling: Sampling) -> list[Answer]:
        """One answer a request; a request's seed decides its tokens, whatever else is in the batch."""
        return self._engine.answer(requests, sampling)

    def refresh(self, model: Any) -> None:
        """Take the weights of the model that is trained, adapter merged."""
        with torch.no_grad():
            self._engine.refresh(merged_weights(model))

    def close(self) -> None:
        """Free the copy."""
        self._engine.close()


class VllmPolicy:
    """vLLM in the trainer's process, whose weights TRL brings up to date before each round of rollouts.

    Args:
        llm: vLLM's `LLM`, of the trainer.
        chat: of the model.
        ends: tokens that end a reply.
        context: tokens of prompt and answer together.
        params: makes vLLM's `SamplingParams`; None imports it.
    """

    def __init__(
        self,
        llm: Any,
        chat: Chat,
        ends: Iterable[int],
        context: int,
        params: Callable[..., Any] | None = None,
    ) -> None:
        self._llm, self.chat, self._ends, self.context = llm, chat, sorted(ends), context
        self._params = params or _sampling_params()

    def answer(self, requests: Sequence[ChatRequest], sampling: Sampling) -> list[Answer]:
        """One answer a request, each token with vLLM's own log-probability."""
        prompts = [prompt_ids(request, self.chat) for request in requests]
        chosen = [
            self._params(
                n=1,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                max_tokens=sampling.max_new_tokens,
                seed=request.seed,
                logprobs=0,
                stop_token_ids=self._ends,
                detokenize=False,
            )
            for request in requests
        ]
        given = [{"prompt_token_ids": prompt} for prompt in prompts]
        outputs = self._llm.generate(given, sampling_params=chosen, use_tqdm=False)
        return [self._answer(*one) for one in zip(requests, prompts, outputs, strict=True)]

    def refresh(self, model: Any) -> None:
        """Nothing: TRL has brought the weights by now."""

    def close(self) -> None:
        """Nothing: the trainer owns it."""

    def _answer(self, request: ChatRequest, prompt: list[int], output: Any) -> Answer:
        made = output.outputs[0]
        sampled = list(made.token_ids)
        ended = bool(sampled) and sampled[-1] in self._ends
        if not sampled or (made.finish_reason == "stop") != ended:
            raise OresmithError(
                "vLLM ended a reply without its end token",
                where=request.key[:120],
                expected="the end token among the sampled ones",
                got=f"{made.finish_reason}, {len(sampled)} tokens",
            )
        reply = ChatReply(
            key=request.key,
            text=self.chat.tokenizer.decode(sampled[:-1] if ended else sampled),
            finish="stop" if ended else "length",
            prompt_tokens=len(prompt),
            completion_tokens=len(sampled),
            prompt_sha256=ids_sha256(prompt),
        )
        scores = [float(some[token].logprob) for token, some in zip(sampled, made.logprobs, strict=True)]
        return Answer(reply, prompt, sampled, scores)


def _sampling_params() -> Callable[..., Any]:
    from importlib import import_module

    made: Callable[..., Any] = import_module("vllm").SamplingParams
    return made


def merged_weights(model: Any) -> Iterator[tuple[str, Any]]:
    """The weights that differ, or can differ, from those of the model that training began with.

    Args:
        model: that is trained: a PEFT model with one LoRA adapter, or one whose weights are all trained.

    Yields:
        Name in the bare model, and tensor; a merged one is float32.
    """
    from peft import PeftModel
    from peft.tuners.lora import LoraLayer

    if not isinstance(model, PeftModel):
        yield from model.named_parameters()
        return
    modules: Any = model.get_base_model().named_modules()
    layers: list[tuple[str, Any]] = [(name, module) for name, module in modules if isinstance(module, LoraLayer)]
    for name, layer in layers:
        (adapter,) = layer.active_adapters
        weight = layer.get_base_layer().weight
        yield f"{name}.weight", weight.float() + layer.get_delta_weight(adapter).float()
