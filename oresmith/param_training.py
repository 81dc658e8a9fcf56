"""The namespaces of the training steps; `oresmith.params` gathers them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from oresmith.param_types import Namespace, Positive, Share, Stage

Seed = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Rate = Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]
STEPS = ("rejection", "teacher", "kto", "grpo")
"""The steps after SFT, in their order."""


class Train(Namespace, frozen=True):
    """What all steps share."""

    method: Literal["lora", "full"] = "lora"
    rank: Positive = 16
    """Of the LoRA matrices, on all linear layers."""
    alpha: Positive = 32
    dropout: Annotated[float, msgspec.Meta(ge=0.0, lt=1.0)] = 0.0
    """Of LoRA; never active while a policy is sampled."""
    device: Literal["cpu", "cuda"] = "cpu"
    dtype: Literal["float32", "bfloat16"] = "float32"
    """That the model is computed in; LoRA weights are float32 always."""
    save_dtype: Literal["float32", "bfloat16"] = "bfloat16"
    """Of the merged model's weights."""
    threads: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 2
    """Of the process on a CPU. The last bits of a sum, and so an adapter's hash, can change with it."""
    packing: Literal["prefix", "none"] = "prefix"
    """prefix: rows of a microbatch that begin alike share one copy of that beginning; the gradients are the same."""
    activation_checkpointing: bool = False
    max_tokens: Positive = 14336
    """Longest row; longer ones are counted rejects, never cut."""
    min_rows: Positive = 8
    """Fewer rows are refused: a step on them would say nothing."""
    checkpoint_steps: Positive = 20
    """Optimiser steps between checkpoints: the most that a kill costs."""
    view: Literal["compare/1", "compact/1", "raw/1"] = "compare/1"
    """How results of tools are shown in training rows (schemas/views); evaluate with the same."""
    prompt: Literal["shopper-1", "shopper-brief-1"] = "shopper-1"
    """System prompt of rows whose trace logs none; evaluate with the same."""
    logged_prompts: Literal["keep", "replace"] = "keep"
    """What becomes of a system prompt that a trace logs: `replace` shows every row with ours, as it is evaluated."""


class Fit(Namespace, frozen=True):
    """How weights are fitted: the part of a step's namespace that all steps have."""

    learning_rate: Rate = 5e-4
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    warmup: Share = 0.1
    """Share of the updates over which the rate rises."""
    batch: Positive = 4
    """Rows of one update."""
    microbatch: Positive = 4
    """Rows in memory at the same time; divides `batch`, and changes the last bits only, but in KTO also the mismatched
    pairs that the KL is estimated on."""
    epochs: Annotated[float, msgspec.Meta(gt=0.0, le=1000.0)] = 1.0
    max_steps: Positive | None = None
    """Updates, whatever `epochs` says."""


class Sft(Fit, frozen=True, rename={"start": "from"}):
    """Step 1: supervised fine-tuning on the corpus."""

    start: Stage = "base"
    seeds: Annotated[tuple[Seed, ...], msgspec.Meta(min_length=1, max_length=16)] = (1,)
    """One model each: data/sft/SEED."""
    max_rows: Positive | None = None
    """A subset by hash that takes many problems before many rows of one; null takes all."""


class Sampled(Fit, frozen=True):
    """How rollouts for training are sampled."""

    problems: Positive | None = None
    """Most problems of the train pool, a subset by hash; null takes all."""
    samples: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 8
    temperature: Annotated[float, msgspec.Meta(gt=0.0, le=2.0)] = 0.9
    top_p: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.95


class Rejection(Sampled, frozen=True, rename={"start": "from"}):
    """Step 2: SFT again on the model's own strict successes beside the corpus."""

    enabled: bool = False
    policy: Stage = "sft/1"
    """The model that plays."""
    start: Stage = "base"
    """The model that is trained."""
    seed: Seed = 1
    keep_per_problem: Positive = 2
    keep_per_cluster: Positive = 4
    request_words: Share = 1.0
    """Least share of the words of a deciding search that the request holds: a lucky end of another is not kept."""
    mix: Share = 0.5
    """Share of rollouts among the rows; the rest is corpus."""


class Teacher(Fit, frozen=True, rename={"start": "from"}):
    """Step 3: SFT on a teacher's strict successes."""

    enabled: bool = True
    start: Stage = "sft/1"
    seed: Seed = 1
    teacher: Literal["expert", "openai"] = "expert"
    """The embedded world's expert policy, or a model behind an OpenAI-compatible endpoint."""
    style: Literal["terse", "expert"] = "terse"
    """Of the embedded policy. `expert` decides by whole results, so that most of it is dropped where a view cuts."""
    url: Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s\x00]+\Z", max_length=1024)] | None = None
    served_model: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] | None = None
    key_env: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}\Z")] | None = None
    problems: Positive | None = None
    """Most problems of the train pool, a subset by hash; null takes all."""
    samples: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    temperature: Annotated[float, msgspec.Meta(ge=0.0, le=2.0)] = 0.0
    """Of an endpoint; several samples of one problem need one above 0."""
    max_new_tokens: Positive | None = None
    """Of one turn of an endpoint, which may think at length; null takes rollout.max_new_tokens."""
    request_words: Share = 1.0
    """As in `rejection`."""
    oversample: dict[str, Annotated[int, msgspec.Meta(ge=1, le=20)]] = msgspec.field(default_factory=dict)
    """Category -> how often its rows are seen; 1 where none is named."""


class Kto(Fit, frozen=True, rename={"start": "from"}):
    """Step 4: Kahneman-Tversky optimisation on desirable and undesirable trajectories."""

    enabled: bool = False
    start: Stage = "sft/1"
    seed: Seed = 1
    rows: Literal["corpus", "rejection"] = "corpus"
    """The corpus's `kto` config, or the rollouts that step 2 sampled."""
    max_rows: Positive | None = None
    beta: Annotated[float, msgspec.Meta(gt=0.0, le=10.0)] = 0.1
    max_kl: Annotated[float, msgspec.Meta(gt=0.0)] = 20.0
    """The stage stops where the logged KL passes it."""


class Grpo(Fit, frozen=True, rename={"start": "from"}):
    """Step 5: Dr. GRPO in the arena. `batch` counts rollouts of one update: prompts times generations. `steps` counts
    the updates, and `epochs` says nothing."""

    enabled: bool = False
    start: Stage = "sft/1"
    seed: Seed = 1
    problems: Positive | None = None
    steps: Positive = 30
    generations: Annotated[int, msgspec.Meta(ge=2, le=64)] = 4
    temperature: Annotated[float, msgspec.Meta(gt=0.0, le=2.0)] = 1.0
    max_completion: Positive = 2048
    """Tokens of one rollout after its first prompt, tool results included."""
    max_new_tokens: Positive = 256
    """Of one turn."""
    max_turns: Positive = 8
    outcome_weight: Annotated[float, msgspec.Meta(ge=0.0, le=10.0)] = 1.0
    agreement_weight: Annotated[float, msgspec.Meta(ge=0.0, le=10.0)] = 0.5
    """Of the steps that agree with a teacher's trajectory of the same problem."""
    name_weight: Share = 0.5
    """Of a step's agreement, for the tool's name; the rest is for its arguments."""
    beta: Annotated[float, msgspec.Meta(ge=0.0, le=10.0)] = 0.0
    max_kl: Annotated[float, msgspec.Meta(gt=0.0)] = 1.0
    """Nats a token between policy and start model; beyond it the stage stops."""
    max_clipped: Share = 0.2
    """Share of rollouts that a limit may cut; beyond it the stage stops."""
    flat_steps: Positive = 5
    """Updates in a row without any variance of rewards after which the stage stops."""
    rollouts: Literal["inprocess", "vllm"] = "inprocess"
    """The engine of the rollouts: a second copy in the trainer's process, or vLLM beside it on the same GPU."""
    vllm_memory: Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)] = 0.3
    """Share of a GPU's memory that vLLM takes."""


class Controls(Namespace, frozen=True):
    """Which steps get a control: the model before the step, trained on the earlier data for as many updates."""

    steps: tuple[Literal["rejection", "teacher", "kto", "grpo"], ...] = ()
