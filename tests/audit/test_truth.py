"""The comparison as a whole: every snapshot is judged or named, refusals say where, limits hold the line."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from oresmith.audit import truth_file, truth_misses
from oresmith.audit.truth import Truths, report
from oresmith.audit.truth_file import read_truth
from oresmith.audit.truth_misses import Miss, listed
from oresmith.audit.truth_shown import broken, lines, print_truths
from oresmith.errors import OresmithError
from oresmith.param_data import Snapshot, Truth
from oresmith.params import Params
from stages import truth as stage
from tests.audit.truth_world import Tables, found, line_of, problem, truth

LIMITS = {field.name for field in msgspec.structs.fields(Truth)}


def two_days(root: Path) -> Tables:
    """Two judged days and one snapshot that carries no truth."""
    tables = Tables(root)
    tables.add(
        "day-1",
        [truth(1), truth(2, family="forger", forged=True, origin="B"), truth(3), problem("a"), problem("b")],
        [found(1), found(2, origin="A", provenance_class="agent-written"), found(4)],
        {"a": ("c1", "train"), "b": ("c2", "dev")},
    )
    tables.add(
        "day-2",
        [truth(1, secrets=["openai_key"]), problem("d", "a", "gold"), problem("e", "b", "same_specification")],
        [found(1, secret_types=["openai_key"], accepted=False)],
        {"d": ("c1", "heldout"), "e": ("c3", "train")},
    )
    tables.add("files", None, [found(1)])
    return tables


def test_judged_snapshots_are_merged_and_the_others_named_with_the_reason(tmp_path: Path) -> None:
    got = report(two_days(tmp_path).data)
    assert list(got.snapshots) == ["day-1", "day-2", "files"]
    assert got.snapshots["files"] is None
    assert got.not_judged == {"files": "the snapshot carries no truth"}
    day = got.snapshots["day-1"]
    assert day is not None
    assert (day.rows, day.without_evidence, day.without_truth) == (2, 1, 1)
    figures = got.figures
    assert figures is not None
    assert (figures.origin.precision.k, figures.origin.precision.n) == (2, 3)
    assert (figures.origin.forgers_labelled_a.k, figures.origin.forgers_labelled_a.n) == (1, 1)
    assert (figures.secrets.recall.k, figures.accepted.forged.k, figures.accepted.forged.n) == (1, 1, 2)
    assert (figures.clusters.recall.k, figures.clusters.recall.n) == (1, 1)
    assert figures.clusters.same_specification.recall.k == 0
    assert (figures.leaks.pairs.k, figures.leaks.same_specification.k) == (1, 1)
    assert figures.leaks.by_pools == {"dev/train": 1, "heldout/train": 1}


def test_rows_of_one_side_alone_are_named(tmp_path: Path) -> None:
    misses = report(two_days(tmp_path).data).misses
    assert [miss.where for miss in misses["without_evidence"].misses] == ["day-1 a.jsonl:3"]
    assert [miss.where for miss in misses["without_truth"].misses] == ["day-1 a.jsonl:4"]
    assert "other_problem" not in misses


def test_rows_whose_places_have_moved_are_told_by_their_problem(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    hashed = found(2, problem_id="sha256:" + "0" * 64)
    tables.add("s", [truth(1, problem_id="p9"), truth(2), truth(3, problem_id=None)], [found(1), hashed, found(3)])
    misses = report(tables.data).misses
    assert [miss.where for miss in misses["other_problem"].misses] == ["s a.jsonl:1"]


def test_where_no_snapshot_carries_a_truth_there_are_no_figures_and_no_stage_is_needed(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.add("files", None)
    (tables.data / "gate" / "decisions.parquet").unlink()
    got = report(tables.data)
    assert (got.figures, got.misses) == (None, {})
    assert msgspec.json.decode(msgspec.json.encode(got))["figures"] is None


def test_the_names_given_are_judged_and_no_others(tmp_path: Path) -> None:
    got = report(two_days(tmp_path).data, ["day-2"])
    assert list(got.snapshots) == ["day-2"]


def test_the_order_of_lines_and_rows_changes_nothing(tmp_path: Path) -> None:
    truths = [truth(line, forged=line == 3) for line in range(1, 6)] + [problem("a"), problem("b", "a", "order")]
    rows = [found(line, origin="A" if line % 2 else "unknown") for line in range(1, 6)]
    made = []
    for place, turn in ((tmp_path / "one", 1), (tmp_path / "two", -1)):
        tables = Tables(place)
        tables.add("s", truths[::turn], rows[::turn], {"a": ("c", "train"), "b": ("c", "train")})
        made.append(report(tables.data))
    assert made[0].figures == made[1].figures
    assert {k: v for k, v in made[0].misses.items() if "cluster" not in k} == {
        k: v for k, v in made[1].misses.items() if "cluster" not in k
    }


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", ["truth.jsonl:2", "not a line of the truth"]),
        (b"[]", ["truth.jsonl:2"]),
        (b'{"kind":"other"}', ["truth.jsonl:2", "other"]),
        (b'{"kind":"problem","problem_id":"p","cluster":"p"}', ["truth.jsonl:2", "variant"]),
        (line_of(truth(0)).strip(), ["truth.jsonl:2", "line"]),
        (line_of(truth(2, origin="C")).strip(), ["truth.jsonl:2", "origin"]),
        (line_of(truth(2, secrets=["x" * 300])).strip(), ["truth.jsonl:2", "secrets"]),
        (line_of(truth(2) | {"line": 2**63}).strip(), ["truth.jsonl:2", "line"]),
        (b'{"kind":"trajectory","kind":"problem"}', ["truth.jsonl:2", "duplicate"]),
        (line_of(truth(1, family="other")).strip(), ["two things of one trajectory", "a.jsonl:1"]),
    ],
)
def test_a_truth_that_cannot_be_read_in_one_way_is_refused_by_its_place(
    tmp_path: Path, line: bytes, words: list[str]
) -> None:
    tables = Tables(tmp_path)
    tables.add("s", line_of(truth(1)) + line + b"\n", [found(1)])
    with pytest.raises(OresmithError) as refused:
        report(tables.data)
    for word in words:
        assert word in str(refused.value)


def test_two_things_about_one_problem_are_refused_and_one_thing_twice_is_not(tmp_path: Path) -> None:
    path = tmp_path / "truth.jsonl"
    path.write_bytes(line_of(problem("a")) * 2)
    assert len(read_truth(path).problems) == 1
    path.write_bytes(line_of(problem("a")) + line_of(problem("a", "b", "gold")))
    with pytest.raises(OresmithError, match=r"truth.jsonl:2: the truth says two things of one problem"):
        read_truth(path)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda s: st.lists(s) | st.dictionaries(st.text(), s)
    )
)
def test_no_json_of_any_shape_passes_for_a_truth_or_raises_anything_else(value: Any) -> None:
    with pytest.raises(OresmithError):
        truth_file._entry(json.dumps(value).encode(), "here")


def test_a_truth_of_several_chunks_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth_file, "_CHUNK", 3)
    path = tmp_path / "truth.jsonl"
    path.write_bytes(b"".join(line_of(truth(line, secrets=["a"] * (line % 2))) for line in range(1, 9)))
    rows = read_truth(path).trajectories
    assert rows["line"].to_list() == list(range(1, 9))
    assert rows.schema == pl.Schema(truth_file.FRAME)


def test_an_empty_truth_judges_nothing_and_names_every_row(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.add("s", b"", [found(1)])
    got = report(tables.data)
    assert got.figures is not None and got.figures.origin.precision.share is None
    assert got.misses["without_truth"].count == 1


@pytest.mark.parametrize("gone", ["gate/decisions.parquet", "evidence/s/table/00000.parquet"])
def test_a_stage_that_has_not_run_is_named(tmp_path: Path, gone: str) -> None:
    tables = Tables(tmp_path)
    tables.add("s", [truth(1)], [found(1)])
    (tables.data / gone).unlink()
    with pytest.raises(OresmithError, match=gone.split("/", maxsplit=1)[0]):
        report(tables.data)


def test_a_project_without_snapshots_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(OresmithError, match="no snapshot"):
        report(tmp_path)


def test_all_misses_are_counted_and_the_first_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth_misses, "LISTED", 2)
    got = listed(Miss(where=str(place), what="") for place in range(5))
    assert (got.count, [miss.where for miss in got.misses]) == (5, ["0", "1"])


def shown(truths: Truths) -> str:
    console = Console(file=io.StringIO(), width=200)
    print_truths(truths, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_shows_counts_shares_and_intervals_and_names_what_was_not_judged(tmp_path: Path) -> None:
    text = shown(report(two_days(tmp_path).data))
    assert "snapshot files: not judged, the snapshot carries no truth" in text
    assert "origin A: precision" in text and "2 / 3" in text and "0.6667" in text
    assert "forger_labelled_a: 1" in text and "day-1 a.jsonl:2" in text
    assert "0 / 0" in text


def test_what_a_truth_or_a_file_name_says_cannot_control_the_terminal(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    evil = "\u001b[2J[bold]"
    tables.add(
        "s",
        [truth(1, file=evil, family=evil, secrets=[evil]), problem("a", variant=evil), problem("b", "a", evil)],
        [found(1, file=evil, origin="B", outcome="failure")],
        {"a": ("c", "train"), "b": ("d", "dev")},
    )
    text = shown(report(tables.data))
    assert "\u001b" not in text
    assert "[bold]" in text


def limits(**changes: Any) -> Truth:
    return Truth(**changes)


def test_no_limit_asks_for_nothing(tmp_path: Path) -> None:
    assert broken(report(two_days(tmp_path).data).figures, Truth()) == []
    assert broken(None, Truth()) == []


def test_every_limit_belongs_to_a_figure_and_is_told_when_it_is_broken(tmp_path: Path) -> None:
    figures = report(two_days(tmp_path).data).figures
    assert figures is not None
    named = {name for line in lines(figures) for name in (line.least, line.most) if name}
    assert named == LIMITS
    strict = limits(**{name: 0 if name.endswith(("_count", "_max")) else 1.0 for name in LIMITS})
    told = {text.split(":")[0].removeprefix("truth.") for text in broken(figures, strict)}
    assert told >= {"origin_precision_min", "forgers_labelled_a_count", "leaks_count", "injection_recall_min"}
    assert not told & {"secret_recall_min", "secret_false_positives_max", "forgery_recall_min", "cluster_recall_min"}


def test_a_limit_is_kept_at_its_very_value_and_broken_past_it(tmp_path: Path) -> None:
    figures = report(two_days(tmp_path).data).figures
    assert broken(figures, limits(origin_precision_min=2 / 3, leaks_count=1, forgers_labelled_a_count=1)) == []
    (told,) = broken(figures, limits(origin_precision_min=0.67))
    assert "truth.origin_precision_min" in told and "0.6667 (2 of 3), below 0.67" in told
    (told,) = broken(figures, limits(leaks_count=0))
    assert "1 of 1, above 0" in told


def test_a_figure_without_a_case_keeps_to_no_limit(tmp_path: Path) -> None:
    (told,) = broken(report(two_days(tmp_path).data).figures, limits(injection_recall_min=0.0))
    assert "there is no case of it" in told
    assert broken(None, limits(leaks_count=5)) == ["truth.leaks_count: no snapshot carries a truth"]


def params(**changes: Any) -> Params:
    entries = [Snapshot(name=name, path="p", provenance="p.yaml") for name in ("day-1", "day-2", "files")]
    return Params(snapshots=entries, truth=Truth(**changes))


def test_the_stage_writes_figures_misses_and_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_days(tmp_path)
    monkeypatch.chdir(tmp_path)
    got = stage.run(params())
    metrics = json.loads(Path("metrics/truth.json").read_bytes())
    assert metrics["figures"]["origin"]["precision"]["k"] == 2
    assert metrics["snapshots"]["files"] is None and metrics["not_judged"]["files"]
    assert metrics["misses"]["forger_labelled_a"] == 1
    assert json.loads(Path("data/truth/truth.json").read_bytes()) == metrics
    rows = [json.loads(line) for line in Path("data/truth/misses.jsonl").read_bytes().splitlines()]
    assert len(rows) == sum(one.count for one in got.misses.values())
    leak = {"kind": "leak", "where": "day-1 a", "what": "day-1 a (base) in train | day-2 d (gold) in heldout"}
    assert leak in rows
    assert [row["where"] for row in rows if row["kind"] == "leak_same_specification"] == ["day-1 b"]


def test_the_stage_writes_the_same_bytes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_days(tmp_path)
    monkeypatch.chdir(tmp_path)
    made = []
    for _ in range(2):
        stage.run(params())
        made.append({path.name: path.read_bytes() for path in Path("data/truth").iterdir()})
    assert made[0] == made[1]


def test_the_stage_that_breaks_a_limit_leaves_with_2_and_has_written_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_days(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OresmithError, match="do not keep to the limits") as refused:
        stage.run(params(forgers_labelled_a_count=0, secret_recall_min=1.0, leaks_count=0))
    assert refused.value.exit_code == 2
    assert "truth.forgers_labelled_a_count" in refused.value.got and "truth.leaks_count" in refused.value.got
    assert "secret_recall_min" not in refused.value.got
    assert Path("data/truth/misses.jsonl").is_file() and Path("metrics/truth.json").is_file()


def test_the_stage_without_any_truth_says_null_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Tables(tmp_path).add("files", None)
    monkeypatch.chdir(tmp_path)
    stage.run(Params(snapshots=[Snapshot(name="files", path="p", provenance="p.yaml")]))
    metrics = json.loads(Path("metrics/truth.json").read_bytes())
    assert metrics["figures"] is None
    assert metrics["not_judged"] == {"files": "the snapshot carries no truth"}
