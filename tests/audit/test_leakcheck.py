"""`oresmith leakage check` on anybody's files: what it finds, what it says, and how it leaves."""

from __future__ import annotations

import ast
import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.errors import OresmithError
from oresmith.leakcheck import LeakReport, check_leaks
from tests import planter
from tests.audit.real import SHARED, needs_shared
from tests.planter import FREE, KEYED, TRACED, plant, recall

ROOT = Path(__file__).parents[2]
LAMP = {"query": "Show me a red lamp", "reward": {"product_id": "lamp", "title": ["Lamp"]}}
BED = {"query": "a bed of oak for two", "reward": {"product_id": "bed", "title": ["Bed"]}}


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def trace(query: str, recommends: Any = "x", views: str = "", **columns: Any) -> dict[str, Any]:
    calls = [("view_product_information", views), ("recommend_product", recommends)]
    functions = [{"name": name, "arguments": json.dumps({"product_ids": ids})} for name, ids in calls]
    calls = [{"id": str(at), "type": "function", "function": one} for at, one in enumerate(functions)]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "{}"} for call in calls]
    spoken = [{"role": "user", "content": query}, {"role": "assistant", "content": None, "tool_calls": calls}]
    return {"messages": [*spoken, *results], "tools": [], **columns}


def kinds(report: LeakReport) -> set[tuple[str, str, str]]:
    return {(leak.kind, leak.train_id, leak.heldout_id) for leak in report.leaks}


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    code = "import sys; from oresmith.cli import main; sys.argv[0] = 'oresmith'; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "leakage", "check", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


class TestRowIds:
    def test_a_declared_id_names_the_row_else_its_file_and_line(self, tmp_path: Path) -> None:
        train = lines(tmp_path / "t.jsonl", LAMP | {"problem_id": "p-1"}, LAMP, LAMP | {"problem_id": 17})
        held = lines(tmp_path / "h.jsonl", BED, LAMP)
        assert kinds(check_leaks([train], [held])) == {
            (kind, train_id, "h.jsonl:2") for kind in ("query", "gold") for train_id in ("p-1", "t.jsonl:2", "17")
        }

    def test_a_trace_goes_by_its_own_id_then_its_problems_then_its_place(self, tmp_path: Path) -> None:
        rows = [trace(LAMP["query"], trajectory_id="a", problem_id="p"), trace(LAMP["query"], problem_id="p")]
        train = lines(tmp_path / "t.jsonl", *rows, trace(LAMP["query"]))
        held = lines(tmp_path / "h.jsonl", LAMP)
        report = check_leaks([train], [held])
        assert {leak.train_id for leak in report.leaks} == {"a", "p", "t.jsonl:3"}

    def test_problems_of_one_json_list_go_by_the_line_on_which_they_begin(self, tmp_path: Path) -> None:
        held = lines(tmp_path / "h.jsonl", LAMP, BED)
        (tmp_path / "suite.json").write_text(json.dumps([BED, LAMP], indent=2))
        (tmp_path / "flat.json").write_text(json.dumps([BED, LAMP]))
        text = (tmp_path / "suite.json").read_text().splitlines()
        expected = {f"suite.json:{number}" for number, line in enumerate(text, 1) if line == "  {"}
        assert {leak.train_id for leak in check_leaks([tmp_path / "suite.json"], [held]).leaks} == expected
        flat = check_leaks([tmp_path / "flat.json"], [held])
        assert {leak.train_id for leak in flat.leaks} == {"flat.json:1[0]", "flat.json:1[1]"}

    def test_files_of_a_directory_are_told_apart(self, tmp_path: Path) -> None:
        (tmp_path / "d" / "e").mkdir(parents=True)
        lines(tmp_path / "d" / "a.jsonl", LAMP)
        lines(tmp_path / "d" / "e" / "a.jsonl", LAMP)
        report = check_leaks([tmp_path / "d"], [lines(tmp_path / "h.jsonl", LAMP)])
        assert {leak.train_id for leak in report.leaks} == {"a.jsonl:1", "e/a.jsonl:1"}


class TestWhatIsFound:
    def test_traces_and_problems_may_be_mixed_and_compressed(self, tmp_path: Path) -> None:
        train = tmp_path / "t.jsonl.gz"
        train.write_bytes(gzip.compress(f"{json.dumps(trace('RED lamp, show me a'))}\n{json.dumps(BED)}\n".encode()))
        held = lines(tmp_path / "h.jsonl", trace(BED["query"]), LAMP)
        assert kinds(check_leaks([train], [held])) == {
            ("tokens", "t.jsonl.gz:1", "h.jsonl:2"),
            ("query", "t.jsonl.gz:2", "h.jsonl:1"),
        }

    def test_an_answer_is_a_leak_and_a_view_of_it_is_told_apart(self, tmp_path: Path) -> None:
        rows = [trace("one", "x, lamp"), trace("two", views="lamp,y"), trace("three", ["lamp"]), trace("four", "lampe")]
        report = check_leaks([lines(tmp_path / "t.jsonl", *rows)], [lines(tmp_path / "h.jsonl", LAMP)])
        assert kinds(report) == {("gold_recommended", f"t.jsonl:{line}", "h.jsonl:1") for line in (1, 3)}
        assert [(leak.kind, leak.train_id, leak.value) for leak in report.viewed] == [
            ("gold_viewed", "t.jsonl:2", "lamp")
        ]
        assert report.counts == {"gold_recommended": 2}

    def test_a_cluster_is_told_with_its_rows_of_both_sides(self, tmp_path: Path) -> None:
        bridge = {"query": "a shop with both", "reward": [{"product_id": "lamp"}, {"product_id": "bed"}]}
        train = lines(tmp_path / "t.jsonl", BED, bridge, {"query": "unrelated", "reward": {"product_id": "u"}})
        report = check_leaks([train], [lines(tmp_path / "h.jsonl", LAMP, LAMP)])
        assert kinds(report) == {("chain", "t.jsonl:1", "h.jsonl:1"), ("gold", "t.jsonl:2", "h.jsonl:1")}
        (cluster,) = report.clusters
        assert (cluster.train, cluster.heldout) == (["t.jsonl:1", "t.jsonl:2"], ["h.jsonl:1", "h.jsonl:2"])
        assert cluster.problems == 3

    def test_the_order_of_the_rows_does_not_matter(self, tmp_path: Path) -> None:
        rows = [LAMP | {"problem_id": "a"}, BED | {"problem_id": "b"}, trace(LAMP["query"], "bed", problem_id="c")]
        held = [BED | {"problem_id": "x"}, LAMP | {"problem_id": "y"}, LAMP | {"problem_id": "z"}]
        reports = [
            check_leaks([lines(tmp_path / "t.jsonl", *rows[::step])], [lines(tmp_path / "h.jsonl", *held[::step])])
            for step in (1, -1)
        ]
        assert reports[0] == reports[1]

    def test_rows_without_a_problem_are_counted_and_leak_nothing(self, tmp_path: Path) -> None:
        crashed = {"problem_id": "p", "status": "FAILED", "dialogue": None, "error": None}
        train = lines(tmp_path / "t.jsonl", crashed, crashed, BED)
        report = check_leaks([train], [lines(tmp_path / "h.jsonl", crashed, LAMP)])
        assert report.leaks == []
        assert (report.read["train"].rows, report.read["train"].unknown, report.read["train"].problems) == (3, 2, 1)

    def test_lines_that_are_no_rows_are_counted_by_reason(self, tmp_path: Path) -> None:
        train = tmp_path / "t.jsonl"
        train.write_text(f'{json.dumps(LAMP)}\n\n{{"a": 1}}\nnonsense\n[1]\n{json.dumps(BED)}')
        report = check_leaks([train], [lines(tmp_path / "h.jsonl", LAMP)])
        assert report.read["train"].unreadable == {"blank_line": 1, "invalid_json": 1, "unknown_format": 2}
        assert {leak.train_id for leak in report.leaks} == {"t.jsonl:1"}


@pytest.mark.parametrize(
    "content", ["", "\n\n", "nonsense\n", '{"a": 1}\n', '{"query": ""}\n', '{"query": null, "reward": {}}\n']
)
@pytest.mark.parametrize("side", [0, 1])
def test_a_side_that_states_no_problem_is_refused(tmp_path: Path, content: str, side: int) -> None:
    paths = [lines(tmp_path / "a.jsonl", LAMP), lines(tmp_path / "b.jsonl", BED)]
    paths[side].write_text(content)
    with pytest.raises(OresmithError, match="nothing can be checked"):
        check_leaks(paths[:1], paths[1:])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["query", "reward", "product_id", "messages", "x"]), inner, max_size=4)
    ),
    max_leaves=10,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(json_values, max_size=4), st.binary(max_size=20))
def test_no_file_makes_the_check_raise_anything_but_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], tail: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp()
    train = lines(folder / "hostile.jsonl", LAMP, *rows)
    train.write_bytes(train.read_bytes() + tail)
    report = check_leaks([train], [lines(folder / "held.jsonl", LAMP)])
    assert "hostile.jsonl:1" in {leak.train_id for leak in report.leaks}


class TestRecall:
    """Measured with leaks that another piece of code plants."""

    def test_the_planter_knows_nothing_of_the_keys(self) -> None:
        tree = ast.parse(Path(planter.__file__).read_text())
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not [name for name in imported if name.startswith("oresmith")]

    @pytest.mark.parametrize("traces", [False, True])
    def test_every_kind_that_a_key_covers_is_found(
        self, tmp_path: Path, traces: bool, record_property: Callable[[str, object], None]
    ) -> None:
        from benchmarks.leak_recall import measured, synthetic

        found, report = measured(synthetic(0, 120), tmp_path, traces=traces)
        for kind in set(found) - set(FREE):
            assert found[kind][0] == found[kind][1] > 0, kind
        for kind in FREE:
            record_property(f"recall of {kind}", f"{found[kind][0]}/{found[kind][1]}")
            assert found[kind][1] > 0
        assert [leak for leak in report.leaks if not leak.train_id.startswith("planted-")] == []

    @needs_shared
    def test_every_kind_that_a_key_covers_is_found_on_the_public_problems(self, tmp_path: Path) -> None:
        from benchmarks.leak_recall import measured, real

        for traces in (False, True):
            found, _ = measured(real(), tmp_path, traces=traces)
            assert {kind: hits == total for kind, (hits, total) in found.items() if kind not in FREE} == dict.fromkeys(
                set(TRACED if traces else KEYED) - set(FREE), True
            )

    def test_a_check_that_misses_something_would_show(self, tmp_path: Path) -> None:
        planted = plant([LAMP], [], tmp_path / "out.jsonl", KEYED)
        assert recall(planted, {row.row_id for row in planted if row.kind != "gold"})["gold"] == (0, 1)


class TestTheCommand:
    def test_a_leak_gives_exit_code_one_and_the_promised_json(self, tmp_path: Path) -> None:
        train, held = lines(tmp_path / "t.jsonl", LAMP, BED), lines(tmp_path / "h.jsonl", LAMP)
        done = command("--train", train, "--heldout", held, "--json")
        assert done.returncode == 1
        told = json.loads(done.stdout)
        assert {"leaks", "counts", "clusters"} <= told.keys()
        assert {frozenset(leak) for leak in told["leaks"]} == {frozenset({"kind", "train_id", "heldout_id", "value"})}
        assert told["counts"] == {"gold": 1, "query": 1}

    def test_no_leak_gives_exit_code_zero(self, tmp_path: Path) -> None:
        done = command("--train", lines(tmp_path / "t.jsonl", BED), "--heldout", lines(tmp_path / "h.jsonl", LAMP))
        assert (done.returncode, done.stderr) == (0, "")
        assert "0 training rows leak" in done.stdout

    def test_a_benchmark_is_held_out_as_well(self, tmp_path: Path) -> None:
        train, held = lines(tmp_path / "t.jsonl", BED), lines(tmp_path / "h.jsonl", LAMP)
        done = command("--train", train, "--heldout", held, "--benchmark", lines(tmp_path / "b.jsonl", BED))
        assert done.returncode == 1
        assert "b.jsonl:1" in done.stdout

    @pytest.mark.parametrize("given", ["nowhere.jsonl", "readme.txt"])
    def test_what_cannot_be_checked_is_a_refusal(self, tmp_path: Path, given: str) -> None:
        (tmp_path / "readme.txt").write_text("hello\n")
        done = command("--train", tmp_path / given, "--heldout", lines(tmp_path / "h.jsonl", LAMP))
        assert done.returncode == 2
        assert given in done.stderr
        assert "Traceback" not in done.stderr

    def test_hostile_ids_reach_no_terminal(self, tmp_path: Path) -> None:
        train = lines(tmp_path / "t.jsonl", LAMP | {"problem_id": "\x1b[2J[red]x\u202e"})
        done = command("--train", train, "--heldout", lines(tmp_path / "h.jsonl", LAMP))
        assert "\x1b" not in done.stdout
        assert "[red]x" in done.stdout

    def test_it_needs_the_light_core_only(self, tmp_path: Path) -> None:
        train, held = lines(tmp_path / "t.jsonl", LAMP), lines(tmp_path / "h.jsonl", LAMP)
        heavy = ["datatrove", "torch", "transformers", "great_expectations", "datasets", "dvc", "datasketch"]
        code = (
            "import sys; from pathlib import Path; from oresmith.leakcheck import check_leaks; "
            f"check_leaks([Path({str(train)!r})], [Path({str(held)!r})]); import oresmith.audit.verify; "
            f"print([name for name in {heavy} if name in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.strip() == "[]"


@needs_shared
class TestTheRealInputs:
    TESTS = tuple(SHARED / "shoppingbench" / f"synthesize_{kind}_test.jsonl" for kind in ("product", "shop", "voucher"))

    def test_every_problem_of_the_arena_is_a_public_test_problem(self) -> None:
        report = check_leaks([SHARED / "sn15" / "problems.jsonl.gz"], self.TESTS)
        assert len({leak.train_id for leak in report.leaks}) == report.read["train"].rows == 750
        assert report.counts["query"] == 750
        assert sum(cluster.problems == 2 for cluster in report.clusters) == 13
        assert len(report.clusters) == 737

    def test_every_problem_of_suite_v3_is_flagged(self) -> None:
        report = check_leaks([SHARED / "sn15" / "problem_suite_v3.json"], self.TESTS)
        assert len({leak.train_id for leak in report.leaks if leak.kind == "query"}) == 30
        assert report.read["train"].rows == 30

    @pytest.mark.parametrize(
        ("file", "rows", "unknown", "problems"),
        [
            ("reference", 298, 12, 286),
            ("miner_b", 60, 0, 60),
            ("reference_newruntime", 30, 1, 29),
            ("probe_puppet", 30, 0, 30),
        ],
    )
    def test_every_trace_with_a_dialogue_is_on_a_public_test_problem(
        self, file: str, rows: int, unknown: int, problems: int
    ) -> None:
        report = check_leaks([SHARED / "sn15" / f"traces_{file}.jsonl.gz"], self.TESTS)
        read = report.read["train"]
        assert (read.rows, read.unknown, read.problems, read.unreadable) == (rows, unknown, problems, {})
        assert report.counts["query"] == problems

    def test_a_guard_on_queries_alone_would_miss_the_shared_products(self) -> None:
        missed = 0
        for place, path in enumerate(self.TESTS):
            report = check_leaks(
                [path], [other for at, other in enumerate(self.TESTS) if at > place] or [self.TESTS[0]]
            )
            if place < 2:
                assert set(report.counts) <= {"gold", "spec"}
                missed += len(report.clusters)
        assert missed == 13
