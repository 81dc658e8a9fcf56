"""The audit certifies only what it has checked, and tells every match with what is guarded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import polars as pl
import pytest

from oresmith.audit.contamination import Match
from oresmith.audit.make import VERIFIER_FILE, audit
from oresmith.audit.verify import SCHEMA_FILE, verify_folder
from oresmith.errors import AccountingError, OresmithError
from oresmith.leakage import LedgerLine, encode_ledger, problem_keys, read_ledger
from tests.audit.world import (
    ATTEMPTS,
    BENCH,
    DATE,
    EARLIER,
    LATER,
    Attempt,
    World,
    make_release,
    make_world,
    trajectory_id,
)

HELDOUT = f"heldout@{DATE}"


def audited(root: Path, **changes: Any) -> tuple[World, dict[str, Any]]:
    world = make_world(root, **changes)
    world.out.mkdir()
    return world, audit(world.data, world.out, world.settings)


def matches(world: World) -> list[Match]:
    header, *lines = (world.out / "contamination.tsv").read_text().splitlines()
    assert tuple(header.split("\t")) == Match._fields
    return [Match(*line.split("\t")) for line in lines]


def test_the_certificate_has_its_form_and_states_what_it_rests_on(tmp_path: Path) -> None:
    world, certificate = audited(tmp_path)
    jsonschema.validate(certificate, json.loads(SCHEMA_FILE.read_bytes()))
    assert json.loads((world.out / "certificate/certificate.json").read_bytes()) == certificate
    assert certificate["inputs"].keys() == {"corpus/README.md"}
    assert certificate["parameters"] == {"split": {"allow_benchmark": []}}
    assert (world.out / VERIFIER_FILE).read_bytes().startswith(b'"""Checks a released dataset')


def test_an_audit_of_the_same_corpus_gives_the_same_bytes(tmp_path: Path) -> None:
    trees = []
    for name in ("one", "two"):
        world, _ = audited(tmp_path / name)
        trees.append({p.relative_to(world.out): p.read_bytes() for p in world.out.rglob("*") if p.is_file()})
    assert trees[0] == trees[1]


def test_counts_of_rows_problems_and_clusters_stand_side_by_side(tmp_path: Path) -> None:
    _, certificate = audited(tmp_path)
    counts = certificate["counts"]
    assert counts["trajectories"]["train"] == {"rows": 2, "problems": 1, "clusters": 1}
    assert counts["kto"]["train"] == {"rows": 3, "problems": 1, "clusters": 1}
    assert counts["rejects"]["all"] == {"rows": 4, "problems": 0, "clusters": 0}


def test_every_side_is_claimed_apart_by_every_kind_of_key(tmp_path: Path) -> None:
    _, certificate = audited(tmp_path)
    claimed = {(claim["left"], claim["right"], claim["by"]) for claim in certificate["claims"]}
    sides = [("train", HELDOUT), ("train", f"benchmark:{BENCH}"), ("train", "dev"), ("dev", HELDOUT)]
    kinds = ("cluster", "query", "base", "tokens", "gold", "spec")
    assert claimed == {(left, right, kind) for left, right in sides for kind in kinds}
    assert all(claim["right_size"] for claim in certificate["claims"] if claim["by"] != "spec")


class TestContamination:
    def test_problems_are_told_with_kind_value_attempts_and_action(self, tmp_path: Path) -> None:
        world, _ = audited(tmp_path)
        names = {key: problem_keys(problem).problem for key, problem in (EARLIER | LATER).items()}
        told = {(m.guarded, m.id, m.kind, m.attempts, m.action) for m in matches(world) if m.subject == "problem"}
        assert (f"benchmark:{BENCH}", names["bench"], "query", "2", "withheld") in told
        assert (HELDOUT, names["between"], "gold", "1", "quarantined") in told
        assert (HELDOUT, names["heldout"], "query", "1", "withheld") in told
        assert (HELDOUT, names["train"], "chain", "3", "allowed") in told
        assert {m.value for m in matches(world) if m.id == names["between"]} == {"hose-1"}

    def test_the_vault_is_told_without_any_of_its_keys(self, tmp_path: Path) -> None:
        world, _ = audited(tmp_path)
        told = [match for match in matches(world) if match.guarded == "vault"]
        assert {match.kind for match in told} == {"query", "base", "tokens", "gold"}
        assert {(match.value, match.guarded_problem, match.action) for match in told} == {("", "", "quarantined")}

    def test_trajectories_that_give_an_answer_away_are_told(self, tmp_path: Path) -> None:
        world, _ = audited(tmp_path)
        told = {m.id: (m.kind, m.value, m.action) for m in matches(world) if m.subject == "trajectory"}
        assert told == {
            trajectory_id(2): ("gold_viewed", "hose-1", "flagged"),
            trajectory_id(5): ("gold_recommended", "hose-1", "rejected"),
        }

    def test_an_allowed_benchmark_is_flagged_and_not_claimed(self, tmp_path: Path) -> None:
        world, certificate = audited(tmp_path, allowed=(BENCH,))
        assert {match.action for match in matches(world) if match.guarded == f"benchmark:{BENCH}"} == {"flagged"}
        assert certificate["benchmarks"] == {BENCH: {"allowed": True, "problems": 1, "published": 1}}
        assert not any(claim["right"] == f"benchmark:{BENCH}" for claim in certificate["claims"])
        assert verify_folder(world.out, world.data / "corpus", tell=lambda line: None)

    def test_hostile_ids_break_no_line(self, tmp_path: Path) -> None:
        world = make_world(tmp_path)
        path = world.data / "cluster" / "problems.parquet"
        hostile = pl.read_parquet(path).with_columns(pl.lit("a\tb\nc\r\u2028\\=SUM(A1)\u202e").alias("problem_id"))
        hostile.write_parquet(path)
        world.out.mkdir()
        audit(world.data, world.out, world.settings)
        assert {m.problem_id for m in matches(world)} == {"a\\tb\\nc\\r\\u2028\\\\=SUM(A1)\\u202e"}


class TestRefusals:
    def refused(self, world: World, match: str, kind: type[OresmithError] = OresmithError) -> None:
        world.out.mkdir(exist_ok=True)
        with pytest.raises(kind, match=match):
            audit(world.data, world.out, world.settings)

    def relist(self, world: World, change: Callable[[LedgerLine], LedgerLine]) -> None:
        path = world.data / "split" / "ledger.next.jsonl"
        path.write_bytes(encode_ledger([change(line) for line in read_ledger(path)]))

    def test_a_published_row_whose_problem_is_quarantined(self, tmp_path: Path) -> None:
        world = make_world(tmp_path)
        name = problem_keys(LATER["train_too"]).problem
        self.relist(
            world,
            lambda line: (
                msgspec.structs.replace(line, pool="quarantine", joined=("train",))
                if line.problems[0].problem == name
                else line
            ),
        )
        pools = world.data / "split" / "assignments.parquet"
        changed = pl.when(pl.col("problem") == name).then(pl.lit("quarantine")).otherwise("pool").alias("pool")
        pl.read_parquet(pools).with_columns(changed).write_parquet(pools)
        self.refused(world, "no pool that is published")

    def test_assignments_that_contradict_the_ledger(self, tmp_path: Path) -> None:
        world = make_world(tmp_path)
        self.relist(
            world, lambda line: msgspec.structs.replace(line, pool="train") if line.pool != "quarantine" else line
        )
        self.refused(world, "contradict the ledger")

    def test_a_ledger_that_cannot_be_read(self, tmp_path: Path) -> None:
        world = make_world(tmp_path)
        world.settings.ledger.write_bytes(b'{"release": 1}\n')
        self.refused(world, r"ledger\.jsonl:1")

    def test_lines_of_another_release(self, tmp_path: Path) -> None:
        world = make_world(tmp_path)
        self.refused(world._replace(settings=world.settings._replace(release="0.3.0")), "another release")

    def test_rows_that_the_account_does_not_know(self, tmp_path: Path) -> None:
        world = make_world(tmp_path)
        report = world.data / "corpus" / "report.json"
        fates = json.loads(report.read_bytes())
        fates["fates"][0]["rejected"]["outcome"] -= 1
        fates["fates"][0]["withheld"]["heldout"] += 1
        report.write_text(json.dumps(fates))
        self.refused(world, "other rows than its account", AccountingError)
        fates["fates"][0]["read"] += 1
        report.write_text(json.dumps(fates))
        self.refused(world, "vanished", AccountingError)

    def test_a_training_row_that_asks_what_a_held_out_problem_asks_whatever_it_is_filed_under(
        self, tmp_path: Path
    ) -> None:
        misfiled = ATTEMPTS[0]._replace(query="show me a GREEN garden hose")
        self.refused(make_world(tmp_path, attempts=(misfiled, *ATTEMPTS[1:])), "asks what a problem of heldout@")

    def test_a_training_row_that_recommends_a_held_out_gold_product(self, tmp_path: Path) -> None:
        world = make_world(tmp_path, attempts=(ATTEMPTS[0]._replace(recommends="hose-1"), *ATTEMPTS[1:]))
        self.refused(world, "recommends a guarded gold product")
        open_world = world._replace(settings=world.settings._replace(reject_answers=False))
        audit(open_world.data, open_world.out, open_world.settings)
        assert (trajectory_id(1), "allowed") in {(match.id, match.action) for match in matches(open_world)}

    def test_an_undesirable_row_of_kto_that_recommends_a_held_out_gold_product(self, tmp_path: Path) -> None:
        attempts = (*ATTEMPTS[:2], ATTEMPTS[2]._replace(recommends="hose-1"), *ATTEMPTS[3:])
        self.refused(make_world(tmp_path, attempts=attempts), "recommends a guarded gold product")

    def test_two_sides_that_share_a_key(self, tmp_path: Path) -> None:
        world = make_world(tmp_path)
        held = problem_keys(EARLIER["heldout"]).gold

        def share(line: LedgerLine) -> LedgerLine:
            keys = line.problems[0]
            return (
                msgspec.structs.replace(line, problems=(msgspec.structs.replace(keys, gold=held),))
                if (line.pool == "train")
                else line
            )

        self.relist(world, share)
        self.refused(world, "share a problem's gold")

    def test_a_missing_input_names_what_to_run(self, tmp_path: Path) -> None:
        for number, name in enumerate(("cluster/problems.parquet", "evidence", "corpus/report.json")):
            world = make_world(tmp_path / str(number))
            path = world.data / name
            path.rename(tmp_path / f"away-{number}")
            self.refused(world, "dvc repro")


def test_a_trace_filed_under_another_problem_is_counted_where_it_leaks_nothing(tmp_path: Path) -> None:
    misfiled = ATTEMPTS[0]._replace(query="Something else that nobody guards")
    world, certificate = audited(tmp_path, attempts=(misfiled, *ATTEMPTS[1:]))
    assert certificate["misfiled"] == 1
    assert verify_folder(world.out, world.data / "corpus", tell=lambda line: None)


def test_a_corpus_without_any_training_row_is_certified_as_that(tmp_path: Path) -> None:
    attempts = (Attempt("heldout", "hose-1"), Attempt("bench", "coat-1"))
    world, certificate = audited(tmp_path, attempts=attempts)
    assert "trajectories" not in certificate["counts"]
    assert all(claim["left_size"] == 0 for claim in certificate["claims"])
    assert verify_folder(world.out, world.data / "corpus", tell=lambda line: None)


def test_a_corpus_without_any_row_is_certified_too(tmp_path: Path) -> None:
    world, certificate = audited(tmp_path, attempts=(Attempt("bench", "coat-1"),))
    assert certificate["files"] == []
    assert verify_folder(world.out, world.data / "corpus", tell=lambda line: None)


def test_an_audit_of_an_old_release_reads_only_what_it_read_then(tmp_path: Path) -> None:
    world, certificate = audited(tmp_path / "then")
    again = make_world(tmp_path / "later")
    ledger = again.settings.ledger
    added = (again.data / "split" / "ledger.next.jsonl").read_bytes()
    ledger.write_bytes(ledger.read_bytes() + added)
    again.out.mkdir()
    assert audit(again.data, again.out, again.settings) == certificate
    assert (again.out / "certificate/ledger.jsonl").read_bytes() == (
        world.out / "certificate/ledger.jsonl"
    ).read_bytes()


def test_a_cut_ledger_has_the_hash_that_the_certificate_foretold(tmp_path: Path) -> None:
    world, certificate = audited(tmp_path)
    parts = [(world.out / "certificate" / name).read_bytes() for name in ("ledger.jsonl", "ledger.next.jsonl")]
    assert hashlib.sha256(b"".join(parts)).hexdigest() == certificate["ledger"]["sha256"]
    assert certificate["ledger"]["releases"][-1]["sha256"] == certificate["ledger"]["sha256"]


def test_a_release_verifies_wherever_it_is_copied(tmp_path: Path) -> None:
    release = make_release(tmp_path / "world")
    release.rename(tmp_path / "elsewhere")
    told: list[str] = []
    assert verify_folder(tmp_path / "elsewhere", tell=told.append)
    assert [line for line in told if not line.startswith("OK")] == []
