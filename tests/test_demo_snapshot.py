"""The committed demo snapshot is what its maker makes, and each of its lines is what is claimed of it."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import zstandard

from oresmith.arena.catalogue import load_catalogue
from oresmith.arena.problems import load_problems
from oresmith.arena.scoring import ScoreError, score_envelope
from oresmith.param_data import Evidence, Snapshot
from oresmith.params import Params, Run
from oresmith.reasons import ORDER
from tests import worlds
from tests.demo_rows import BARE, HOSTILE, RUNS, demo_rows, demo_world
from tests.make_demo import demo_truth, snapshot_files, write_snapshot

HOME = Path(__file__).resolve().parent.parent / "snapshots" / "demo"
ACCEPTED_AT_LEAST = 12


def unpacked(name: str, content: bytes) -> bytes:
    if name.endswith(".gz"):
        return gzip.decompress(content)
    return zstandard.ZstdDecompressor().decompress(content) if name.endswith(".zst") else content


@cache
def made() -> dict[str, bytes]:
    return snapshot_files()


@cache
def rows() -> list[tuple[str, int, bytes, worlds.Truth]]:
    truth = demo_truth()
    return [
        (file, number, line, truth[file, number])
        for file, content in demo_rows(demo_world()).items()
        for number, (line, _) in enumerate(content, 1)
    ]


def dialogues() -> Iterator[tuple[str, list[Any], worlds.Truth]]:
    """Problem id, steps and truth of every SN15 line that has steps."""
    for file, _, line, truth in rows():
        if truth.family in ("hostile", "other format"):
            continue
        row = json.loads(line)
        steps = row if file == BARE else row["dialogue"] or []
        if steps:
            yield (steps[0]["extra_info"]["problem_id"], steps, truth)


def calls_of(steps: list[Any]) -> list[dict[str, Any]]:
    messages = [step["completion"]["message"] for step in steps]
    return [call for message in messages for call in message.get("tool_call", [])]


def test_the_committed_files_are_what_the_maker_makes() -> None:
    committed = {p.relative_to(HOME).as_posix(): p.read_bytes() for p in HOME.rglob("*") if p.is_file()}
    assert sorted(committed) == sorted(made())
    for name, content in made().items():
        # Compressed bytes depend on the compressor's version; what they hold does not.
        assert unpacked(name, committed[name]) == unpacked(name, content), name


def test_two_runs_write_identical_bytes_and_leave_nothing_stale(tmp_path: Path) -> None:
    write_snapshot(tmp_path)
    (tmp_path / "traces" / "stale.jsonl").write_bytes(b"{}\n")
    write_snapshot(tmp_path)
    assert {p.relative_to(tmp_path).as_posix(): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == made()


def test_the_snapshot_stays_small_and_carries_no_time_of_packing() -> None:
    assert sum(map(len, made().values())) < 600_000
    assert max(map(len, made().values())) < 500_000
    for name, content in made().items():
        if name.endswith(".gz"):
            assert content[4:8] == bytes(4), name


def test_only_the_hostile_file_ends_without_a_line_end() -> None:
    torn = {n for n, c in made().items() if n != "provenance.yaml" and not unpacked(n, c).endswith(b"\n")}
    assert torn == {HOSTILE, BARE}


def test_outcomes_under_the_strict_scorer_are_as_claimed() -> None:
    problems = load_problems(HOME / "problems.jsonl")
    products = load_catalogue(HOME / "catalogue.jsonl")
    seen: Counter[bool | None] = Counter()
    for problem_id, steps, truth in dialogues():
        problem = problems.find(problem_id)
        assert problem is not None
        seen[truth.success] += 1
        if truth.success is None:
            with pytest.raises(ScoreError):
                score_envelope(problem, steps, products)
        else:
            assert score_envelope(problem, steps, products).success is truth.success, truth
    assert min(seen[True], seen[False], seen[None]) > 0


def test_every_problem_can_be_solved_and_every_reason_of_a_gate_is_met() -> None:
    world = demo_world()
    assert {p["category"] for p in world.problems.values()} == {"Product", "Shop", "Voucher"}
    given = {reason for *_, truth in rows() for reason in (*truth.reasons, *truth.one_of)}
    assert given <= set(ORDER)
    products = load_catalogue(HOME / "catalogue.jsonl")
    for problem in load_problems(HOME / "problems.jsonl"):
        raw = world.problems[str(problem.problem_id)]
        for seed in range(3):
            assert score_envelope(problem, worlds.honest(world, raw, seed).steps, products).success
            assert not score_envelope(problem, worlds.honest(world, raw, seed, succeed=False).steps, products).success


def test_enough_rows_are_fit_to_be_accepted_from_several_agents_problems_and_categories() -> None:
    world = demo_world()
    fit = [(file, json.loads(line)) for file, _, line, truth in rows() if truth.success and not truth.reasons]
    assert len(fit) >= ACCEPTED_AT_LEAST
    assert len({file for file, _ in fit} & set(RUNS)) >= 4
    ids = {row["problem_id"] for file, row in fit if file != BARE}
    assert len(ids) >= 6
    assert {world.problems[i]["category"] for i in ids} == {"Product", "Shop", "Voucher"}


def test_no_two_rows_of_one_problem_share_their_calls_but_the_planted_copies() -> None:
    sequences: Counter[tuple[str, str]] = Counter()
    for problem_id, steps, truth in dialogues():
        if truth.success and set(truth.reasons) <= {"duplicate", "duplicate_calls"} and not truth.one_of:
            key = json.dumps([(c["name"], c["parameters"]) for c in calls_of(steps)], sort_keys=True)
            sequences[problem_id, key] += 1
    assert sorted(count for count in sequences.values() if count > 1) == [2, 2]


def test_calls_carry_the_runtimes_ids_and_stand_one_step_early() -> None:
    early = total = 0
    for _, steps, truth in dialogues():
        if truth.family != "honest":
            continue
        for call in calls_of(steps):
            assert call["tool_call_id"] == worlds.tool_call_id(call["name"], call["parameters"])
        stamps = [step["extra_info"]["timestamp"] for step in steps]
        for place, step in enumerate(steps):
            extra = step["extra_info"]
            assert list(extra)[:4] == ["step", "query", "timestamp", "problem_id"]
            for entry in extra.get("proxy_calls", []):
                total += 1
                assert place == 0 or stamps[place] <= entry["timestamp"]
                assert place == len(stamps) - 1 or entry["timestamp"] < stamps[place + 1]
                early += place < len(stamps) - 1 and entry["timestamp"] > stamps[place]
    assert early > total / 2


def test_no_planted_secret_stands_in_the_source_tree() -> None:
    secrets = [*worlds.planted_secrets(1).values(), *worlds.planted_personal(1).values()]
    for path in Path(__file__).parent.glob("*.py"):
        text = path.read_text("utf-8")
        assert not [s for s in secrets if s in text], path.name


def test_prompts_of_honest_agents_grow_and_those_of_puppets_do_not() -> None:
    grown: dict[str, set[bool]] = {"honest": set(), "puppet": set()}
    for _, steps, truth in dialogues():
        logged = [e for s in steps for e in s["extra_info"].get("proxy_calls", [])] if truth.family in grown else []
        usage = [e["response"]["usage"]["prompt_tokens"] for e in logged if "chat" in e["path"] and "response" in e]
        if len(usage) > 2:
            grown[truth.family].add(usage == sorted(usage))
    assert grown == {"honest": {True}, "puppet": {False}}


def test_the_pipeline_finds_out_what_is_true_of_every_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import stages.evidence
    import stages.gate
    import stages.normalize
    import stages.snapshots

    entry = Snapshot(name="demo", path=str(HOME), provenance=str(HOME / "provenance.yaml"))
    params = Params(snapshots=[entry], evidence=Evidence(tokenizer="none"), run=Run(workers=1))
    monkeypatch.chdir(tmp_path)
    stages.snapshots.run(params, entry)
    stages.normalize.run(params, "demo")
    stages.evidence.run(params, "demo")
    stages.gate.run(params)
    found = {
        (row["source"]["file"], row["source"]["line"]): set(row["reasons"])
        for path in (tmp_path / "data").rglob("rejects*")
        for file in ([path] if path.is_file() else sorted(path.iterdir()))
        for row in map(json.loads, unpacked(file.name, file.read_bytes()).splitlines())
    }
    for file, line, _, truth in rows():
        given = found.get((file, line), set())
        assert set(truth.reasons) <= given, (file, line, truth, given)
        assert not truth.one_of or given & set(truth.one_of), (file, line, truth, given)
        if not truth.reasons and not truth.one_of and truth.origins == ("A",):
            assert not given, (file, line, truth, given)
    assert len(rows()) - len(found) >= ACCEPTED_AT_LEAST
