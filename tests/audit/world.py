"""A small release: a few problems of every pool, trajectories of each, and the corpus that the stages would make."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl

from oresmith.audit.make import Settings, audit
from oresmith.corpus.account import Fate
from oresmith.corpus.shards import Layout, SplitFiles
from oresmith.leakage import (
    ClusterParams,
    Fact,
    PoolParams,
    Split,
    Vault,
    assign,
    cluster,
    encode_ledger,
    extend,
    problem_keys,
    trainable,
)
from oresmith.records import Problem
from schemas.corpus import CONFIGS, CORPUS_SCHEMA

SNAPSHOT, FILE, DATE, BENCH = "s1", "a\tb.jsonl", "2026-05-02", "shopbench"
LAYOUT = Layout(1_000_000, 2_000_000)


def _problem(name: str, query: str, gold: str, category: str = "product", **more: Any) -> Problem:
    item = {"product_id": gold, "title": [f"Title {gold}"], **more}
    reward = item if category == "product" else [item]
    return Problem(problem_id=f"id-{name}", query=query, category=category, reward=reward)


SPEC = {"attributes": [{"brand": ["Acme"]}, {"material": ["steel"]}], "service": ["COD"]}
EARLIER = {
    "train": _problem("train", "Find a red lamp with a brass foot", "lamp-1", **SPEC),
    "dev": _problem("dev", "I want a kettle of two litres", "kettle-1"),
    "heldout": _problem("heldout", "Show me a green garden hose", "hose-1"),
}
LATER = {
    "train_too": _problem("train_too", "Please find a shop with two oak chairs", "chair-1", "shop"),
    "same_lamp": _problem("same_lamp", "A lamp for my desk, the brass one", "lamp-1", "shop"),
    "between": Problem(
        problem_id="id-between",
        query="A shop that sells the lamp and the hose",
        category="shop",
        reward=[{"product_id": "lamp-1"}, {"product_id": "hose-1"}],
    ),
    "bench": _problem("bench", "Need a yellow raincoat in size M", "coat-1"),
    "secret": _problem("secret", "Looking for a marble chess set", "chess-1"),
}
BENCHMARK_ONLY = _problem("bench", "need a YELLOW raincoat, in size M!", "coat-1")
WISHES = {"train": "train", "dev": "dev", "heldout": "heldout", "train_too": "train", "bench": f"benchmark:{BENCH}"}
SECRET = b"sixteen bytes and more"


class Attempt(NamedTuple):
    """A row of the snapshot: its problem, what it recommends and views, and its fate in the corpus."""

    problem: str
    recommends: str
    views: tuple[str, ...] = ()
    reason: str = ""
    """Why it is rejected."""
    query: str | None = None
    """The trace's own, where it is not the problem's."""


ATTEMPTS = (
    Attempt("train", "lamp-1"),
    Attempt("train", "lamp-1", ("hose-1", "x")),
    Attempt("train", "wrong", reason="outcome"),
    Attempt("train_too", "chair-1", reason="origin_subtask"),
    Attempt("train_too", "hose-1", reason="heldout_gold"),
    Attempt("same_lamp", "lamp-1"),
    Attempt("dev", "kettle-1"),
    Attempt("heldout", "hose-1"),
    Attempt("between", "hose-1"),
    Attempt("bench", "coat-1"),
    Attempt("bench", "x", reason="outcome"),
    Attempt("secret", "chess-1"),
    Attempt("", "x", reason="invalid_json"),
)


class World(NamedTuple):
    """Where it lies."""

    data: Path
    settings: Settings
    out: Path


def make_world(root: Path, *, allowed: tuple[str, ...] = (), attempts: tuple[Attempt, ...] = ATTEMPTS) -> World:
    """Write `data/` and `releases/` below a folder; nothing is audited yet."""
    data = root / "data"
    problems = EARLIER | LATER
    names = {key: problem_keys(problem).problem for key, problem in problems.items()}
    vault = Vault.load(*write_vault(root))
    clusters, split = _split(root, names, vault)
    assignments = {one.problem: one for one in split.assignments}
    bench = problem_keys(BENCHMARK_ONLY).problem
    rows = [_problem_row(names[key], problem, SNAPSHOT, key == "bench", clusters) for key, problem in problems.items()]
    if bench not in names.values():
        rows.append(_problem_row(bench, BENCHMARK_ONLY, None, True, clusters))
    table(data / "cluster" / "problems.parquet", rows)
    pools = [
        {
            **{name: getattr(one, name) for name in ("problem", "cluster", "pool", "held_out", "new")},
            "joined": list(one.joined),
            "benchmarks": list(one.benchmarks),
            "trainable": trainable(one, allowed),
            "flagged": trainable(one, allowed) and bool(one.benchmarks),
        }
        for one in split.assignments
    ]
    table(data / "split" / "assignments.parquet", pools)
    (data / "split" / "ledger.next.jsonl").write_bytes(encode_ledger(split.lines))
    placed = [
        (number, attempt, names.get(attempt.problem), assignments.get(names.get(attempt.problem, "")))
        for number, attempt in enumerate(attempts, 1)
    ]
    _evidence(data, placed)
    _corpus(data, placed, problems, names, allowed)
    settings = Settings(
        release="0.2.0",
        snapshots=(SNAPSHOT,),
        ledger=root / "releases" / "ledger.jsonl",
        clusters=ClusterParams(),
        allowed=allowed,
        vault=vault,
        parameters={"split": {"allow_benchmark": list(allowed)}},
    )
    return World(data, settings, root / "audit")


def make_release(root: Path, **changes: Any) -> Path:
    """A world, audited and put together as it is released: certificate and corpus in one folder."""
    world = make_world(root, **changes)
    world.out.mkdir()
    audit(world.data, world.out, world.settings)
    (world.data / "corpus").rename(root / "release")
    for path in sorted(world.out.rglob("*")):
        target = root / "release" / path.relative_to(world.out)
        target.mkdir(exist_ok=True) if path.is_dir() else target.write_bytes(path.read_bytes())
    return root / "release"


def write_vault(root: Path) -> tuple[Path, Path]:
    from oresmith.leakage import encode_vault

    root.mkdir(parents=True, exist_ok=True)
    (root / "vault.txt").write_text(encode_vault([(problem_keys(LATER["secret"]), False)], SECRET))
    (root / "vault.key").write_bytes(SECRET)
    return root / "vault.txt", root / "vault.key"


def _split(root: Path, names: dict[str, str], vault: Vault) -> tuple[Any, Split]:
    facts = {names[key]: Fact(category="product", wishes=(wish,)) for key, wish in WISHES.items()}
    facts[problem_keys(BENCHMARK_ONLY).problem] = Fact(wishes=(f"benchmark:{BENCH}",))
    pools = PoolParams(held_out=DATE)
    first = cluster(EARLIER.values())
    before = assign(first, facts, [], "0.1.0", params=pools, vault=vault).lines
    (root / "releases").mkdir(exist_ok=True)
    (root / "releases" / "ledger.jsonl").write_bytes(encode_ledger(before))
    both = extend(first, [*LATER.values(), BENCHMARK_ONLY])
    return both, assign(both, facts, before, "0.2.0", params=pools, vault=vault)


def _problem_row(name: str, problem: Problem, snapshot: str | None, bench: bool, clusters: Any) -> dict[str, Any]:
    reward = None if problem.reward is None else json.dumps(problem.reward)
    own = {"problem": name, "problem_id": problem.problem_id, "query": problem.query, "category": problem.category}
    own |= {"difficulty": None, "reward": reward, "voucher": None, "snapshot": snapshot}
    return own | {"benchmarks": [BENCH] if bench else [], "cluster": dict(clusters.assignments())[name]}


def table(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)


def trajectory_id(number: int) -> str:
    return hashlib.sha256(f"trajectory {number}".encode()).hexdigest()


def _evidence(data: Path, placed: list[Any]) -> None:
    place = [{"snapshot": SNAPSHOT, "file": FILE, "line": number} for number, attempt, *_ in placed if attempt.problem]
    known = [(number, attempt, name) for number, attempt, name, _ in placed if attempt.problem]
    rows = [
        at | {"trajectory_id": trajectory_id(number), "recommended_ids": [attempt.recommends]}
        for at, (number, attempt, _) in zip(place, known, strict=True)
    ]
    table(data / "evidence" / SNAPSHOT / "table" / "00000.parquet", rows)
    ids = [{"trajectory_id": trajectory_id(number), "problem": name} for number, _, name in known]
    table(data / "cluster" / "attempts.parquet", [at | own for at, own in zip(place, ids, strict=True)])


def _corpus(data: Path, placed: list[Any], problems: dict[str, Problem], names: dict[str, str], allowed: Any) -> None:
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    fate = Fate(snapshot=SNAPSHOT, file=FILE, read=len(placed))
    withheld: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    for number, attempt, name, one in placed:
        problem = problems.get(attempt.problem)
        use = "train" if one and trainable(one, allowed) else one.pool if one else "none"
        published = _dialogue(number, attempt, problem, name, one) if one else {}
        if attempt.reason == "origin_subtask" and use == "train":
            rows.setdefault(("subtask", "train"), []).append(published)
            fate.subtask += 1
        elif attempt.reason:
            rows.setdefault(("rejects", "all"), []).append(_reject(number, attempt, problem))
            rejected[attempt.reason] += 1
            if attempt.reason == "outcome" and use == "train":
                rows.setdefault(("kto", "train"), []).append(_view("kto", published, False))
        elif use in ("train", "dev"):
            rows.setdefault(("trajectories", use), []).append(published)
            view = "train" if use == "train" else "validation"
            rows.setdefault(("sft", view), []).append(_view("sft", published, True))
            rows.setdefault(("kto", view), []).append(_view("kto", published, True))
            fate.trajectories += 1
        else:
            withheld[use] += 1
    _problem_configs(rows, placed, problems, names, allowed)
    (data / "corpus").mkdir()
    for (config, split), found in rows.items():
        with SplitFiles(data / "corpus" / config, config, f"{split}-000-{SNAPSHOT}", LAYOUT) as files:
            for row in found:
                files.add(row)
    report = msgspec.structs.replace(fate, withheld=dict(withheld), rejected=dict(rejected))
    (data / "corpus" / "report.json").write_bytes(msgspec.json.encode({"fates": [report]}))
    globs: dict[str, list[dict[str, str]]] = {}
    for config, split in rows:
        globs.setdefault(config, []).append({"split": split, "path": f"{config}/{split}-*.parquet"})
    configs = [{"config_name": config, "data_files": files} for config, files in globs.items()]
    (data / "corpus" / "README.md").write_text(f"---\n{json.dumps({'configs': configs})}\n---\n# A dataset\n")


def _problem_configs(rows: Any, placed: list[Any], problems: Any, names: dict[str, str], allowed: Any) -> None:
    for key, name in names.items():
        one = next((one for _, attempt, found, one in placed if found == name), None)
        if one is None:
            continue
        if trainable(one, allowed):
            rows.setdefault(("grpo", "train"), []).append(_asked("grpo", problems[key], name, one))
        if one.pool == "heldout":
            for config in ("heldout", "heldout_gold"):
                split = f"heldout_{DATE.replace('-', '_')}"
                rows.setdefault((config, split), []).append(_asked(config, problems[key], name, one))


def _dialogue(number: int, attempt: Attempt, problem: Any, name: str, one: Any) -> dict[str, Any]:
    calls = [_call("view_product_information", ",".join(attempt.views))] if attempt.views else []
    calls.append(_call("recommend_product", attempt.recommends))
    query = attempt.query or problem.query
    messages = [{"role": "user", "content": query}, {"role": "assistant", "content": "", "tool_calls": calls}]
    row: dict[str, Any] = dict.fromkeys(CONFIGS["trajectories"])
    row |= {"row_id": trajectory_id(number), "snapshot": SNAPSHOT, "file": FILE, "line": number, "problem": name}
    row |= {"problem_id": problem.problem_id, "cluster": one.cluster, "pool": one.pool, "query": query}
    row |= {"benchmarks": list(one.benchmarks), "benchmark_flag": bool(one.benchmarks), "judge_quality": 0.1 + number}
    row |= {"messages": [json.dumps(message).encode() for message in messages], "tools": b"[]", "origin_votes": []}
    row |= {"original_call_ids": [], "copied_context": [], "no_model": [], "schema": CORPUS_SCHEMA}
    return row | {"viewed_heldout_gold": "hose-1" in attempt.views}


def _call(name: str, ids: str) -> dict[str, Any]:
    return {"id": "call_0", "function": {"name": name, "arguments": json.dumps({"product_ids": ids})}}


def _view(config: str, row: dict[str, Any], label: bool) -> dict[str, Any]:
    own = {"row_id": row["row_id"], "messages": row["messages"], "tools": row["tools"], "label": label}
    own |= {"prompt": row["messages"][:1], "completion": row["messages"][1:]}
    return {name: own[name] for name in CONFIGS[config]}


def _asked(config: str, problem: Problem, name: str, one: Any) -> dict[str, Any]:
    row = dict.fromkeys(CONFIGS[config]) | {"problem": name, "snapshot": SNAPSHOT, "cluster": one.cluster}
    row |= {"problem_id": problem.problem_id, "query": problem.query, "prompt": [], "benchmarks": []}
    more = {"held_out": DATE, "benchmark_flag": bool(one.benchmarks), "reward": json.dumps(problem.reward)}
    return row | {name: value for name, value in more.items() if name in CONFIGS[config]}


def _reject(number: int, attempt: Attempt, problem: Problem | None) -> dict[str, Any]:
    stage = "corpus" if attempt.reason == "heldout_gold" else "gate" if problem else "normalize"
    row = {"stage": stage, "snapshot": SNAPSHOT, "file": FILE, "line": number, "offset": number}
    row |= {"trajectory_id": trajectory_id(number) if problem else None}
    row |= {"problem_id": problem.problem_id if problem else None, "reason": attempt.reason}
    return row | {"reasons": [attempt.reason], "evidence": "{}"}
