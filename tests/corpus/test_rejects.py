"""What is published of a reject: its place, its reasons and our own words; nothing that a trace wrote."""

from __future__ import annotations

import json

import msgspec
import polars as pl
import pytest

from oresmith.corpus.rejects import LONGEST_ID, reject_rows, safe_evidence, safe_id
from oresmith.errors import OresmithError
from oresmith.param_data import Corpus
from oresmith.records import Reject, Source
from tests.worlds import planted_secrets

PLAN = {
    "snapshot": pl.String(),
    "file": pl.String(),
    "line": pl.Int64(),
    "offset": pl.Int64(),
    "trajectory_id": pl.String(),
    "problem_id": pl.String(),
    "stage": pl.String(),
    "reasons": pl.List(pl.String()),
    "rank": pl.Int64(),
    "cluster_rank": pl.Int64(),
    "row_bytes": pl.Int64(),
    "recommends": pl.List(pl.String()),
    "views_since": pl.Int64(),
}


def reject(stage, file, line, reasons, snapshot="one", **more):
    source = Source(snapshot=snapshot, file=file, file_sha256="", line=line, offset=line * 10, length=9)
    return Reject(stage=stage, source=source, reasons=reasons, **more)


def store(path, *rejects):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in rejects))


def plan(*rows):
    return pl.DataFrame([dict.fromkeys(PLAN) | {"snapshot": "one"} | row for row in rows], schema=PLAN)


@pytest.fixture
def data(tmp_path):
    store(tmp_path / "normalize/one/rejects/00000.jsonl", reject("normalize", "a", 2, ["invalid_json"]))
    store(tmp_path / "normalize/one/rejects/00001.jsonl", reject("normalize", "b", 1, ["line_torn"]))
    gate = [reject("gate", "a", line, ["origin_subtask"]) for line in (1, 3, 4)]
    store(tmp_path / "gate/rejects.jsonl", *gate, reject("gate", "x", 1, ["outcome"], snapshot="two"))
    store(tmp_path / "normalize/two/rejects/00000.jsonl")
    return tmp_path


KEPT = [
    {"file": "a", "line": 1, "stage": "gate", "reasons": ["origin_subtask"]},
    {"file": "a", "line": 4, "stage": "gate", "reasons": ["origin_subtask", "heldout_gold"]},
    {"file": "a", "line": 5, "stage": "corpus", "reasons": ["over_problem_cap"], "rank": 51},
    {"snapshot": "two", "file": "x", "line": 1, "stage": "gate", "reasons": ["outcome"]},
]


def test_rejects_of_all_stages_are_merged_in_the_order_of_their_rows(data):
    found = {name: list(rows) for name, rows in reject_rows(data, ["one", "two"], plan(*KEPT), Corpus())}
    assert [(row["file"], row["line"], row["stage"], row["reasons"]) for row in found["one"]] == [
        ("a", 1, "gate", ["origin_subtask"]),
        ("a", 2, "normalize", ["invalid_json"]),
        ("a", 4, "gate", ["origin_subtask", "heldout_gold"]),
        ("a", 5, "corpus", ["over_problem_cap"]),
        ("b", 1, "normalize", ["line_torn"]),
    ]
    assert json.loads(found["one"][3]["evidence"]) == {"rank": 51, "cap": 50}
    assert [row["reason"] for row in found["two"]] == ["outcome"]


def test_a_row_that_the_gate_does_not_know_is_refused(data):
    missing = {"file": "a", "line": 9, "stage": "gate", "reasons": ["outcome"]}
    with pytest.raises(OresmithError, match="a:9"):
        for _, rows in reject_rows(data, ["one", "two"], plan(*KEPT[:2], missing, KEPT[3]), Corpus()):
            list(rows)


def test_rejects_of_a_snapshot_that_is_not_listed_are_refused(data):
    with pytest.raises(OresmithError, match="two"):
        for _, rows in reject_rows(data, ["one"], plan(*KEPT[:3]), Corpus()):
            list(rows)


def test_rejects_out_of_order_are_refused(data):
    store(
        data / "normalize/one/rejects/00000.jsonl",
        reject("normalize", "b", 1, ["invalid_json"]),
        reject("normalize", "a", 2, ["invalid_json"]),
    )
    with pytest.raises(OresmithError, match="order"):
        for _, rows in reject_rows(data, ["one", "two"], plan(*KEPT), Corpus()):
            list(rows)


def test_evidence_keeps_numbers_and_our_words_and_drops_the_words_of_traces():
    quoted = {
        "n_calls": 3,
        "terminated": False,
        "score_rule": 0.5,
        "origin_votes": ["echo:B"],
        "secret_types": ["aws_key"],
        "error_type": "MyKeyError: hunter2",
        "call_faults": ["q: text of a trace"],
        "what": "the key 'hunter2' has the wrong type",
        "got": "'hunter2'",
        "status": "hunter2",
        "agent_version": "hunter2",
    }
    kept = {"n_calls": 3, "terminated": False, "score_rule": 0.5}
    assert safe_evidence(quoted) == kept | {"origin_votes": ["echo:B"], "secret_types": ["aws_key"]}


def test_a_problem_id_is_published_only_where_it_carries_nothing_else():
    assert safe_id("e3ee44b6-b2a7-47d5-9daf-754c518f6372") == "e3ee44b6-b2a7-47d5-9daf-754c518f6372"
    assert safe_id(None) is None
    assert safe_id("p" * (LONGEST_ID + 1)) is None
    secrets = planted_secrets(3)
    assert [name for name, secret in secrets.items() if len(secret) <= LONGEST_ID and safe_id(secret)] == []
