import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oresmith.arena.problems import ProblemIndex, gold_ids, load_problems
from oresmith.errors import OresmithError
from oresmith.records import Problem
from tests.arena.real import SHARED, SN15, needs_shared

SUITE: list[dict[str, Any]] = [
    {"problem_id": "p1", "query": "a mug", "category": "Product", "reward": {"product_id": "1", "title": ["Mug"]}},
    {"problem_id": "p2", "query": "two mugs", "category": "Shop", "reward": [{"product_id": "1"}, {"product_id": "2"}]},
    {
        "problem_id": "p3",
        "query": "a cheap mug",
        "category": "Voucher",
        "difficulty": "easy",
        "reward": [{"product_id": "3"}],
        "voucher": {"budget": 5},
        "reward_title_embeddings": {"Mug": [0.5]},
    },
]


def jsonl(path: Path, rows: list[Any]) -> Path:
    text = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.fixture(params=["suite.json", "pretty.json", "problems.jsonl", "problems.jsonl.gz"])
def suite_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / str(request.param)
    if path.suffix != ".json":
        return jsonl(path, SUITE)
    text = msgspec.json.encode(SUITE)
    path.write_bytes(msgspec.json.format(text) if path.stem == "pretty" else text)
    return path


def test_every_form_of_a_suite_gives_the_same_problems_with_categories_folded(suite_file: Path) -> None:
    problems = list(load_problems(suite_file))
    assert [problem.category for problem in problems] == ["product", "shop", "voucher"]
    assert problems[2] == Problem(
        problem_id="p3",
        query="a cheap mug",
        category="voucher",
        difficulty="easy",
        reward=[{"product_id": "3"}],
        voucher={"budget": 5},
    )
    assert [gold_ids(problem) for problem in problems] == [["1"], ["1", "2"], ["3"]]


def test_shoppingbench_rows_get_their_category_from_the_shape_of_reward_and_voucher(tmp_path: Path) -> None:
    rows = [
        {"query": "a", "reward": {"product_id": "1", "title": ["Mug"]}},
        {"query": "b", "reward": [{"product_id": "1"}]},
        {"query": "c", "reward": [{"product_id": "1"}], "voucher": {"budget": 5}},
        {"query": "d", "Knowledge_Attribute": "x", "reward": {"product_id": "1", "title": "Mug", "price": 5}},
        {"query": "e"},
    ]
    found = load_problems(jsonl(tmp_path / "synthesize_x_test.jsonl", rows))
    assert [problem.category for problem in found] == ["product", "shop", "voucher", "web", None]


class TestFind:
    def test_the_id_is_asked_first_and_the_exact_query_where_it_is_none_or_unknown(self, suite_file: Path) -> None:
        index = load_problems(suite_file)
        by_id = index.find("p2", "a mug")
        assert by_id is not None
        assert by_id.problem_id == "p2"
        for unknown in (None, "nothing", 7, ["p2"]):
            by_query = index.find(unknown, "a mug")
            assert by_query is not None
            assert by_query.problem_id == "p1"

    @pytest.mark.parametrize("query", ["A mug", "a mug ", "", None, 5, ["a mug"], {}])
    def test_any_other_query_finds_nothing(self, query: object, suite_file: Path) -> None:
        assert load_problems(suite_file).find(None, query) is None

    def test_a_query_that_two_problems_share_is_not_guessed(self) -> None:
        index = ProblemIndex()
        for number in "12":
            index.add(Problem(problem_id=number, query="a mug", reward={"product_id": number}))
        assert index.find(None, "a mug") is None
        assert index.find("2", "a mug") is not None

    def test_one_problem_under_two_ids_is_found_in_any_order_of_loading(self) -> None:
        twins = [Problem(problem_id=name, query="a mug", reward={"product_id": "1"}) for name in ("b", "a", None)]
        for order in (twins, twins[::-1]):
            index = ProblemIndex()
            for problem in order:
                index.add(problem)
            found = index.find("?", "a mug")
            assert found is not None
            assert found.problem_id == "a"


def test_loading_a_file_twice_adds_nothing(suite_file: Path) -> None:
    assert len(load_problems(suite_file, suite_file)) == len(SUITE)


def test_an_id_with_two_contents_is_refused_naming_file_and_line(tmp_path: Path) -> None:
    changed = SUITE[0] | {"reward": {"product_id": "9"}}
    with pytest.raises(OresmithError, match=r"x\.jsonl:4: .*two different problems"):
        load_problems(jsonl(tmp_path / "x.jsonl", [*SUITE, changed]))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"{", "not a problem"),
        (b'"text"', "not a problem"),
        (b"5", "not a problem"),
        (b"[" * 5000, "not a problem"),
        (b'{"query": "\xff"}', "not a problem"),
        (b'{"reward": {}}', "not a problem"),
        (b'{"query": ""}', "not a problem"),
        (b'{"query": "a", "reward": [1]}', "not a problem"),
        (b'{"query": "a", "category": "Puzzle"}', "unknown category"),
        (b'{"query": "a", "category": "Shop", "reward": {"product_id": "1"}}', "does not fit the category"),
        (b'{"query": "a", "category": "Shop", "reward": []}', "does not fit the category"),
        (b'{"query": "a", "category": "Product", "reward": [{"product_id": "1"}]}', "does not fit the category"),
        (b'{"query": "a", "reward": {"product_id": 1}}', "no gold product"),
        (b'{"query": "a", "category": "Voucher", "reward": [{"product_id": "1"}]}', "no voucher"),
    ],
)
def test_a_bad_row_is_refused_naming_file_and_line(row: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"query": "good"}\n\n' + row + b"\n")
    with pytest.raises(OresmithError, match=rf"bad\.jsonl:3: .*{message}"):
        load_problems(path)


@pytest.mark.parametrize("bad", [b'{"query": 5}', b'{"query": '])
def test_a_bad_element_of_a_suite_is_refused_naming_its_line(bad: bytes, tmp_path: Path) -> None:
    path = tmp_path / "suite.json"
    path.write_bytes(b'[\n{"query": "good"},\n' + bad + b"\n]\n")
    with pytest.raises(OresmithError, match=r"suite\.json:[34]: not a problem"):
        load_problems(path)


def test_a_missing_or_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"\n")
    for name in ("empty.jsonl", "none.jsonl", "none.jsonl.gz", "."):
        with pytest.raises(OresmithError):
            load_problems(tmp_path / name)


@pytest.mark.parametrize("reward", [None, 5, "x", [1, {}], {"product_id": 5}])
def test_a_reward_of_any_shape_has_no_gold_id_that_is_not_a_string(reward: Any) -> None:
    assert gold_ids(Problem(reward=reward)) == []


@needs_shared
def test_the_real_files_load_and_agree() -> None:
    suite = load_problems(SN15 / "problem_suite_v3.json")
    assert len(suite) == 30
    benchmark = [SHARED / "shoppingbench" / f"synthesize_{name}_test.jsonl" for name in ("product", "shop", "voucher")]
    web = SHARED / "shoppingbench" / "synthesize_web_simpleqa_test.jsonl"
    published = load_problems(SN15 / "problems.jsonl.gz")
    assert len(published) == 750
    counts = Counter(problem.category for problem in load_problems(*benchmark, web))
    assert counts == {"product": 250, "shop": 250, "voucher": 250, "web": 150}
    for problem in load_problems(*benchmark):
        twin = published.find(None, problem.query)
        assert twin is not None
        assert (twin.category, twin.reward, twin.voucher) == (problem.category, problem.reward, problem.voucher)
