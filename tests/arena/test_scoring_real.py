"""The scorer against what ORO's own scorer said."""

from typing import Any

import msgspec
import pytest

from oresmith.arena.catalogue import Catalogue, Product, load_catalogue
from oresmith.arena.problems import ProblemIndex, gold_ids, load_problems
from oresmith.arena.scoring import SCORER, ScoreError, score, score_envelope
from oresmith.records import Problem
from tests.arena.real import SN15, needs_shared, rows

pytestmark = needs_shared


def test_every_vector_gets_the_score_the_success_or_the_error_that_oros_scorer_gives() -> None:
    wrong = []
    seen = 0
    for vector in rows(SN15 / "scorer_vectors.jsonl.gz"):
        seen += 1
        problem = msgspec.convert(vector["problem"], Problem)
        products = {document["product_id"]: msgspec.convert(document, Product) for document in vector["products"]}
        outcome: tuple[Any, bool, bool]
        try:
            got = score(problem, vector["dialogue"], products)
            outcome = (got.score, got.success, False)
            assert got.scorer == SCORER
        except ScoreError:
            outcome = (None, False, True)
        expect = vector["expect"]
        if outcome != (expect["score"], expect["success"], expect["raises"] is not None):
            wrong.append((vector["id"], expect, outcome))
    assert seen > 2000
    assert wrong == []


@pytest.fixture(scope="module")
def problems() -> ProblemIndex:
    return load_problems(SN15 / "problems.jsonl.gz")


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue(SN15 / "catalogue.jsonl.gz")


SOURCES = ("reference", "reference_long", "reference_newruntime", "miner_b")
PROBES = ("probe_failures", "probe_decoy", "probe_puppet")


@pytest.mark.parametrize("name", [*SOURCES, *PROBES])
def test_the_scores_beside_the_traces_are_reproduced(name: str, problems: ProblemIndex, catalogue: Catalogue) -> None:
    traces = list(rows(SN15 / f"traces_{name}.jsonl.gz"))
    scores = list(rows(SN15 / f"scores_{name}.jsonl.gz"))
    assert len(traces) == len(scores) > 0
    for trace, expected in zip(traces, scores, strict=True):
        problem = problems.find(trace["problem_id"], expected["query"])
        assert problem is not None
        outcome: tuple[Any, bool]
        try:
            got = score_envelope(problem, trace["dialogue"], catalogue)
            outcome = (got.score, got.success)
        except ScoreError:
            outcome = (None, False)
        assert outcome == (expected["score"], expected["is_problem_successful"]), trace["problem_id"]


def test_the_catalogue_holds_every_gold_product(problems: ProblemIndex, catalogue: Catalogue) -> None:
    assert catalogue.missing(gold for problem in problems for gold in gold_ids(problem)) == []
