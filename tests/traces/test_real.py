"""The codecs on traces that real programs wrote."""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from oresmith.arena.catalogue import Product, load_catalogue
from oresmith.arena.problems import load_problems
from oresmith.arena.scoring import ScoreError, score
from oresmith.records import Format, Problem, Trajectory
from oresmith.traces import decode, dialogue_of, encode, to_openai
from tests.traces.build import CTX, envelope
from tests.traces.real import SN15, TRACES, needs_shared, rows

pytestmark = needs_shared


def outcome(problem: Problem, dialogue: Any, products: Any) -> Any:
    try:
        return score(problem, dialogue, products)
    except ScoreError as fault:
        return str(fault)


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_every_real_trace_comes_back_exactly(path: Path) -> None:
    for row in rows(path.name):
        t = decode(row, CTX)
        assert encode(t, Format.SN15_ENVELOPE) == row
        assert decode(encode(t, Format.SN15_ENVELOPE), CTX) == t
        assert msgspec.json.decode(msgspec.json.encode(t), type=Trajectory) == t
        assert not t.log_malformed
        if row["dialogue"]:
            bare = decode(row["dialogue"], CTX)
            assert (bare.format, bare.messages) == (Format.SN15_STEPS, t.messages)


def test_no_real_trace_is_lost_whatever_its_status() -> None:
    raw = [(path.name, row) for path in TRACES for row in rows(path.name)]
    read = [decode(row, CTX) for _, row in raw]
    assert len(read) > 500
    assert Counter(t.status for t in read) == Counter(row["status"] for _, row in raw)
    assert Counter(len(t.steps) for t in read) == Counter(len(row["dialogue"] or []) for _, row in raw)
    newer = [bool(row["dialogue"]) and "newruntime" in name for name, row in raw]
    assert [t.system_prompt == "logged" for t in read] == newer


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_every_real_trace_keeps_its_messages_in_the_published_row(path: Path) -> None:
    for row in rows(path.name):
        t = decode(row, CTX)
        assert decode(orjson.loads(orjson.dumps(to_openai(t))), CTX).messages == t.messages


def test_a_rebuilt_dialogue_scores_as_the_logged_one_does() -> None:
    seen = 0
    for vector in rows("scorer_vectors.jsonl.gz"):
        problem = msgspec.convert(vector["problem"], Problem)
        products = {document["product_id"]: msgspec.convert(document, Product) for document in vector["products"]}
        raw = envelope(*vector["dialogue"])
        rebuilt = dialogue_of(decode(raw, CTX)) or []
        assert outcome(problem, rebuilt, products) == outcome(problem, vector["dialogue"], products)
        seen += 1
    assert seen > 2000


def test_a_real_trace_scores_the_same_rebuilt_and_through_the_published_row() -> None:
    problems, catalogue = load_problems(SN15 / "problems.jsonl.gz"), load_catalogue(SN15 / "catalogue.jsonl.gz")
    for path in TRACES:
        for row in rows(path.name):
            t = decode(row, CTX)
            problem = problems.find(t.problem.problem_id, t.problem.query)
            if not row["dialogue"] or problem is None:
                continue
            logged = outcome(problem, row["dialogue"], catalogue)
            assert outcome(problem, dialogue_of(t), catalogue) == logged
            if t.raw_dialogue is None:
                published = outcome(problem, dialogue_of(decode(to_openai(t), CTX)), catalogue)
                assert published.success == logged.success
