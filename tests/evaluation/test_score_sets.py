"""Which rollouts count: missing ones fail, foreign ones are refused, hostile ones neither stop it nor are repeated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from oresmith.arena.catalogue import Catalogue, Product
from oresmith.arena.search import index_of
from oresmith.blocks.atomic import stage_output
from oresmith.errors import OresmithError
from oresmith.evaluation.failures import CLASSES
from oresmith.evaluation.played import played
from oresmith.evaluation.problems import Case
from oresmith.evaluation.records import ROLLOUT_SCHEMA
from oresmith.evaluation.scored import publish_scores, score_folder
from oresmith.evaluation.scores import Shelf, load_products, score_attempts
from oresmith.evaluation.shown import metrics, print_scores
from oresmith.evaluation.suite import Attempts
from oresmith.evaluation.writing import ROLLOUTS
from oresmith.traces import Context, decode
from schemas.check import check_table
from schemas.scores import ARROW, ScoresTable
from tests.evaluation.scripted import Scripted, expert, run, small_shop
from tests.evaluation.talks import (
    CATALOGUE,
    DONE,
    PROBLEMS,
    RIGHT,
    SECRET,
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
from tests.traces.build import JSON, PROPERTY, SOURCE


def test_a_problem_without_a_rollout_fails_and_is_listed(tmp_path: Path):
    found = scored(tmp_path, [RIGHT], problems=["product", "shop", "voucher"])
    assert (found.scores.overall.asr.k, found.scores.overall.asr.n) == (1, 3)
    assert [place.problem_id for place in found.scores.missing] == ["shop", "voucher"]
    assert found.scores.overall.failures["missing"].k == 2
    assert found.scores.overall.means["rule"].value == pytest.approx(1 / 3, abs=1e-6)
    assert found.scores.overall.means["format"].value == pytest.approx(1 / 3, abs=1e-6)
    assert found.scores.overall.means["turns"].n == 1


def test_a_sample_that_is_missing_from_our_own_rollouts_fails_and_is_listed(tmp_path: Path, shop: tuple[Path, Path]):
    target = play(tmp_path / "r", samples=2, temperature=1.0)
    cut = rewrite(target, tmp_path / "cut", lambda lines: lines[:5] + lines[6:])
    found = score_folder(cut, *shop).scores
    assert (found.overall.asr.k, found.overall.asr.n) == (13, 14)
    row = json.loads(lines_of(target / ROLLOUTS)[5])
    assert [(place.problem_id, place.sample) for place in found.missing] == [(row["problem_id"], row["sample"])]
    gone = rewrite(target, tmp_path / "gone", lambda lines: lines[2:])
    assert len(score_folder(gone, *shop).scores.missing) == 2


def rewrite(target: Path, copy: Path, change: Any, params: dict[str, Any] | None = None) -> Path:
    """Our own rollouts with other lines, under their own configuration or another."""
    if params is None:
        params = json.loads((target / "manifest.json").read_bytes())["params"]
    with stage_output(copy, copy.name, schema=ROLLOUT_SCHEMA, params=params) as staged:
        data = b"".join(line + b"\n" for line in change(lines_of(target / ROLLOUTS)))
        (staged.path / ROLLOUTS).write_bytes(zstandard.ZstdCompressor().compress(data))
    return copy


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [*lines, lines[0]], "the samples are not those"),
        (lambda lines: [line.replace(b'"sample":1,', b'"sample":9,') for line in lines], "the samples are not those"),
        (lambda lines: [lines[0].replace(b"I want", b"I wish"), *lines[1:]], "another_query"),
        (lambda lines: [*lines, b"{"], "invalid_json"),
        (lambda lines: [lines[0].replace(b'"problem":"p-', b'"problem":"q-'), *lines[1:]], "no_such_problem"),
    ],
)
def test_our_own_rollouts_that_are_not_what_their_manifest_says_are_refused(
    change: Any, words: str, tmp_path: Path, shop: tuple[Path, Path]
):
    target = play(tmp_path / "r", samples=2, temperature=1.0)
    with pytest.raises(OresmithError) as refusal:
        score_folder(rewrite(target, tmp_path / "other", change), *shop)
    assert words in str(refusal.value)


def test_rollouts_with_another_hash_than_their_manifests_are_refused(tmp_path: Path, shop: tuple[Path, Path]):
    target = play(tmp_path / "r")
    data = bytearray((target / ROLLOUTS).read_bytes())
    data[len(data) // 2] ^= 1
    (target / ROLLOUTS).write_bytes(data)
    with pytest.raises(OresmithError, match="not what their manifest says"):
        score_folder(target, *shop)


@pytest.mark.parametrize(
    "params", [{}, {"model": {"name": 1}}, {"model": {"name": "m"}, "problems": {}, "samples": 10**9}]
)
def test_a_configuration_that_is_none_is_refused(params: dict[str, Any], tmp_path: Path, shop: tuple[Path, Path]):
    target = rewrite(play(tmp_path / "r"), tmp_path / "odd", lambda lines: lines, params)
    with pytest.raises(OresmithError, match="no configuration of rollouts"):
        score_folder(target, *shop)


def test_an_index_serves_as_well_as_the_documents_that_it_was_made_of(tmp_path: Path, shop: tuple[Path, Path]):
    target = play(tmp_path / "r", errs=1, samples=2, temperature=1.0)
    index_of(small_shop()[0].documents(), tmp_path / "index").close()
    assert score_folder(target, shop[0], tmp_path / "index").table.equals(score_folder(target, *shop).table)
    odd = "x" * 10_000, "1,2", "", " ", "\ud800", "*"
    assert load_products(tmp_path / "index", odd) == {}


def test_rollouts_of_other_problems_are_refused(tmp_path: Path, shop: tuple[Path, Path]):
    searcher, problems = small_shop()
    target = run(Scripted(expert(problems, searcher)), tmp_path / "r", problems[:3]).target
    # The rollouts themselves say that only three of the seven were to be played.
    assert score_folder(target, *shop).scores.overall.problems == 3
    few = tmp_path / "few.jsonl"
    few.write_bytes(b"".join(msgspec.json.encode(problem) + b"\n" for problem in problems[1:]))
    with pytest.raises(OresmithError, match="no rollout of the problems"):
        score_folder(target, few, shop[1])
    with pytest.raises(OresmithError, match="no trace is an attempt"):
        scored(tmp_path, [RIGHT], problems=["shop"])


def test_lines_of_a_strangers_file_that_are_no_rollouts_are_counted(tmp_path: Path):
    rollouts, problems, catalogue = store(tmp_path, [RIGHT, talk("shop", recommend("1"))], ["product"])
    rollouts.write_bytes(rollouts.read_bytes() + b"{}\n[1\n")
    found = score_folder(rollouts, problems, catalogue).scores
    assert found.overall.asr.n == 1
    assert found.unused == {"invalid_json": 1, "no_such_problem": 1, "unknown_format": 1}


def test_a_catalogue_without_a_gold_product_is_refused(tmp_path: Path):
    rollouts, problems, catalogue = store(tmp_path, [RIGHT])
    catalogue.write_bytes(b"\n".join(catalogue.read_bytes().splitlines()[1:]))
    with pytest.raises(OresmithError, match="lacks gold products"):
        score_folder(rollouts, problems, catalogue)


def test_nothing_that_a_model_said_is_repeated(tmp_path: Path):
    named = talk("product", find(1), view(1), recommend(f"{SECRET},1"), DONE, finish=SECRET, sample=SECRET)
    odd = talk("shop", ("find_product", {SECRET: SECRET}, SECRET), SECRET, recommend([SECRET]), (SECRET, {}, SECRET))
    made = scored(tmp_path, [named, odd, talk("gold", find(8), recommend("8"))], ["product", "shop", "gold", "voucher"])
    publish_scores(made, tmp_path / "s", lock="test")
    texts = [path.read_bytes() for path in (tmp_path / "s").iterdir() if path.suffix == ".json"]
    texts += [str(made.table.rows()).encode(), msgspec.json.encode(metrics(made.scores))]
    assert made.scores.examples
    assert not any(SECRET.encode() in text for text in texts)


def test_an_id_that_could_carry_anything_stands_as_its_hash(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    hostile = "\x1b[31m<script>\n" + "x" * 300
    rollouts, problems, catalogue = store(tmp_path, [WRONG])
    for path in (rollouts, problems):
        path.write_bytes(
            path.read_bytes().replace(b'"problem_id":"product"', b'"problem_id":' + msgspec.json.encode(hostile))
        )
    made = score_folder(rollouts, problems, catalogue)
    assert made.table["problem_id"][0].startswith("sha256:")
    assert made.table["problem"][0].startswith("sha256:")
    print_scores(made.scores)
    assert not {"\x1b", "<script>"} & set(capsys.readouterr().out)


CALL = st.fixed_dictionaries(
    {"name": st.sampled_from(["find_product", "view_product_information", "recommend_product", "terminate", "x"])},
    optional={"arguments": JSON | st.text(max_size=20) | st.just('{"product_ids": "1,77"}'), "id": JSON},
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["assistant", "tool", "user"])},
    optional={
        "content": st.text(max_size=20) | st.just('{"product_id": "1"}'),
        "reasoning_content": JSON,
        "tool_calls": st.lists(CALL, max_size=3),
        "name": JSON,
        "tool_call_id": JSON,
    },
)
COLUMNS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("problem", "sample", "finish", "malformed", "usage", "query", "problem_id"), JSON)
)


@PROPERTY
@given(st.lists(MESSAGE, max_size=6), COLUMNS)
def test_no_row_that_can_be_read_stops_the_scoring(messages: list[Any], columns: dict[str, Any]):
    row = {"messages": messages, "problem_id": "product"} | columns
    context = Context(source=SOURCE, source_name="x", trust_rows=True)
    try:
        trajectory = decode(row, context)
    except OresmithError:
        return
    found = played(trajectory)
    assert (found.said is None) == (found.fault is not None)
    assert found.turns <= len(messages)
    case = Case("product", PROBLEMS["product"], "")
    shelf = Shelf(Catalogue({one["product_id"]: msgspec.convert(one, Product) for one in CATALOGUE}))
    [row] = score_attempts([Attempts(case, "k", "c", [found])], shelf)
    assert row.keys() == set(ARROW.names)
    assert (row["failure"] is None) == row["success"]
    assert row["failure"] in (None, *CLASSES)


@pytest.mark.parametrize(
    "change",
    [
        {"failure": "gave_up"},
        {"success": False},
        {"rule": 0.5},
        {"one shop": 0.0},
        {"price": 1.5},
        {"calls": -1},
        {"error": "why"},
        {"key": "short"},
        {"sample": -1},
    ],
)
def test_rows_that_contradict_themselves_are_refused(change: dict[str, Any], tmp_path: Path):
    table = scored(tmp_path, [RIGHT]).table
    check_table(table, ScoresTable, "rows")
    broken = pl.DataFrame([table.to_dicts()[0] | change], schema=table.schema)
    with pytest.raises(OresmithError, match="breaks its contract"):
        check_table(broken, ScoresTable, "rows")
    with pytest.raises(OresmithError, match="breaks its contract"):
        check_table(pl.concat([table, table]), ScoresTable, "rows")
