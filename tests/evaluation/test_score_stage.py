"""The stages `score` and `compare` on rollouts of the pipeline: what they write, and what they refuse."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest

from oresmith.errors import OresmithError, ParameterError
from oresmith.evaluation.scored import load_scores
from oresmith.param_models import Model
from oresmith.params import load_params
from stages import compare, rollout, score
from tests.evaluation.scripted import Scripted, expert, small_shop
from tests.evaluation.test_rollout_stage import DATE, pools, project
from tests.pipeline.project import Project

__all__ = ["project"]


@pytest.fixture
def played(project: Project) -> Project:
    """Six of seven problems held out, and played by two models: one that errs on every second, one that does not."""
    problems = small_shop()[1]
    pools(problems, [("train", None), *[("heldout", DATE)] * 6], "shop")
    shop, ours = small_shop()
    params(project)
    for errs, name in ((1, "first"), (0, "second")):
        engine = Scripted(expert(ours, shop, errs=errs), context=100_000)
        rollout.run(load_params(), name, lambda settings, name, model, engine=engine: engine)
    return project


def params(made: Project, **namespaces: Any) -> None:
    made.params["models"] = [{"name": name, "from": "base"} for name in ("first", "second")]
    made.write_params(**namespaces)


def points(name: str) -> list[dict[str, str]]:
    with Path(f"plots/{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_models_rollouts_are_scored_from_what_the_pipeline_knows_of_the_problems(played: Project):
    found = score.run(load_params(), "first")
    assert (found.scores.overall.asr.k, found.scores.overall.asr.n) == (3, 6)
    assert found.scores.left_out == {}
    assert load_scores(Path("data/score/first")).table.equals(found.table)
    problems = pl.read_parquet("data/cluster/problems.parquet")
    known = dict(zip(problems["problem"], problems["cluster"], strict=True))
    assert all(known[row["problem"]] == row["cluster"] for row in found.table.iter_rows(named=True))
    assert set(found.table["shop"]) == {"shop"}
    metrics = orjson.loads(Path("metrics/score-first.json").read_bytes())
    assert metrics["asr"] == {"k": 3, "n": 6, "share": 0.5, "low": 0.187616, "high": 0.812384, "method": "wilson"}
    assert "seconds" in orjson.loads(Path("data/observed/score-first.json").read_bytes())


def test_scoring_again_changes_no_byte(played: Project):
    score.run(load_params(), "first")
    before = {path: path.read_bytes() for path in Path("data/score/first").iterdir()}
    score.run(load_params(), "first")
    assert {path: path.read_bytes() for path in Path("data/score/first").iterdir()} == before
    assert {path.name for path in before} == {"rows.parquet", "scores.json", "manifest.json"}


def test_clusters_of_the_pipeline_are_resampled_not_those_of_the_pool_alone(played: Project):
    table = Path("data/cluster/problems.parquet")
    pl.read_parquet(table).with_columns(pl.lit("c").alias("cluster")).write_parquet(table)
    found = score.run(load_params(), "first").scores.overall
    assert (found.clusters, found.asr.method) == (1, "bound")


def test_models_are_compared_and_drawn_together(played: Project):
    for name in ("first", "second"):
        score.run(load_params(), name)
    found = compare.run(load_params())
    assert [(pair.first, pair.second) for pair in found.pairs] == [("first", "second")]
    written = orjson.loads(Path("metrics/compare.json").read_bytes())
    [asr] = [one for one in written["pairs"][0]["differences"] if (one["figure"], one["group"]) == ("asr", "all")]
    assert (asr["n"], asr["difference"], asr["only_second"], asr["test"], asr["forced"]) == (6, 0.5, 3, "mcnemar", [])
    assert [(row["model"], row["category"], row["k"], row["n"]) for row in points("asr")] == [
        ("first", "all", "3", "6"),
        ("first", "product", "3", "6"),
        ("second", "all", "6", "6"),
        ("second", "product", "6", "6"),
    ]
    assert points("asr")[2]["high"] == "1.0"
    assert {(row["figure"], row["k"]) for row in points("pass_k")} == {("pass@k", "1"), ("pass^k", "1")}
    assert [(row["model"], row["failure"], row["k"]) for row in points("failures")] == [("first", "not_found", "3")]


def test_models_that_were_played_differently_are_refused_unless_the_parameter_forces_it(played: Project):
    for name in ("first", "second"):
        score.run(load_params(), name)
    for name in ("manifest.json", "scores.json"):
        path = Path("data/score/second", name)
        text = path.read_bytes().replace(b'"temperature": 0.0', b'"temperature": 0.7')
        path.write_bytes(text)
    with pytest.raises(OresmithError) as refusal:
        compare.run(load_params())
    assert refusal.value.exit_code == 2
    assert refusal.value.got.startswith("sampling: ")
    assert not Path("metrics/compare.json").exists()
    params(played, compare={"forced": True})
    found = compare.run(load_params())
    assert found.pairs[0].forced
    assert json.loads(Path("metrics/compare.json").read_bytes())["pairs"][0]["differences"][0]["forced"]


def test_one_model_gives_an_empty_comparison(played: Project):
    score.run(load_params(), "first")
    del played.params["models"][1:]
    played.write_params()
    assert compare.run(load_params()).pairs == []
    assert points("asr")


def test_what_is_not_there_is_refused_with_the_next_step(played: Project):
    with pytest.raises(OresmithError, match="no readable manifest"):
        compare.run(load_params())
    shutil.rmtree("data/rollout/first")
    with pytest.raises(OresmithError) as refusal:
        score.run(load_params(), "first")
    assert "rollout" in str(refusal.value)
    Path("data/cluster/problems.parquet").unlink()
    with pytest.raises(OresmithError, match="dvc repro cluster"):
        score.run(load_params(), "second")


def test_rollouts_of_problems_that_the_pipeline_does_not_know_are_refused(played: Project):
    table = Path("data/cluster/problems.parquet")
    rows = pl.read_parquet(table)
    rows.head(4).write_parquet(table)
    with pytest.raises(OresmithError, match="no rollout of the problems"):
        score.run(load_params(), "first")


def test_a_threshold_without_a_model_of_titles_is_refused_before_any_work(played: Project):
    with pytest.raises(ParameterError, match=r"score\.title_min"):
        params(played, score={"title_min": 0.7})
        load_params()


def test_models_are_held_against_the_first_and_the_one_before_of_their_levels_and_against_those_they_name():
    models = (
        Model(name="base", stage="base"),
        Model(name="sft", stage="sft/1"),
        Model(name="base-hard", stage="base", levels=("L2", "L3")),
        Model(name="control", stage="control/teacher"),
        Model(name="teacher-hard", stage="teacher", levels=("L2", "L3")),
        Model(name="teacher", stage="teacher", against=("sft", "base")),
    )
    named = [(models[first].name, models[second].name) for first, second in compare.pairs_of(models)]
    assert named == [
        ("base", "sft"),
        ("base", "control"),
        ("sft", "control"),
        ("base-hard", "teacher-hard"),
        ("base", "teacher"),
        ("sft", "teacher"),
        ("control", "teacher"),
    ]


def test_a_model_that_is_compared_with_one_further_down_is_refused(played: Project):
    played.params["models"] = [
        {"name": "first", "from": "base", "against": ["second"]},
        {"name": "second", "from": "base"},
    ]
    played.write_params()
    with pytest.raises(ParameterError, match="stand before it"):
        load_params()
