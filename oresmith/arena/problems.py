"""The problems of ShoppingBench, from the three forms they are handed around in, and how a trace finds its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec

from oresmith.arena.textio import DOCUMENT_BYTES, decode_row, read_lines, read_whole, told
from oresmith.errors import OresmithError
from oresmith.lines.decoding import BadJsonError
from oresmith.records import Problem

CATEGORIES = ("product", "shop", "voucher", "web")
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Row(msgspec.Struct):
    """A problem as any of the three forms writes it; what else they hold (titles, embeddings) is passed over."""

    query: _Text
    problem_id: _Text | None = None
    category: _Text | None = None
    difficulty: str | None = None
    reward: dict[str, Any] | list[dict[str, Any]] | None = None
    voucher: dict[str, Any] | None = None


class ProblemIndex:
    """Problems by id and by query. Iterates over all of them, in the order in which they were added."""

    def __init__(self) -> None:
        self._by_id: dict[str, Problem] = {}
        self._by_query: dict[str, list[Problem]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_query.values()))

    def __iter__(self) -> Iterator[Problem]:
        for problems in self._by_query.values():
            yield from problems

    def add(self, problem: Problem, where: str = "") -> None:
        """Add a problem; one that is there already (same id, same content) is not added again.

        Errors: OresmithError, naming `where`, when the id belongs to a problem of different content.
        """
        known = self._by_id.get(problem.problem_id) if problem.problem_id is not None else None
        if known is not None and _content(known) != _content(problem):
            raise OresmithError(
                "a problem id stands for two different problems",
                where=where,
                got=str(problem.problem_id)[:80],
                todo="load only one of the two suites",
            )
        same_query = self._by_query.setdefault(problem.query or "", [])
        if known is None and problem not in same_query:
            same_query.append(problem)
            if problem.problem_id is not None:
                self._by_id[problem.problem_id] = problem

    def find(self, problem_id: object, query: object = None) -> Problem | None:
        """Return the problem with this id or, where the id is None or unknown, with exactly this query.

        Values that are not strings find nothing. A query that different problems share finds nothing either: which
        one was meant would be a guess. Where it is one problem under several ids, the least id is returned.
        """
        if isinstance(problem_id, str) and problem_id in self._by_id:
            return self._by_id[problem_id]
        found = self._by_query.get(query, []) if isinstance(query, str) else []
        if not found or any(_content(other) != _content(found[0]) for other in found):
            return None
        return min(found, key=lambda problem: (problem.problem_id is None, problem.problem_id or ""))


def load_problems(*paths: str | Path) -> ProblemIndex:
    """Read problems from ORO's suite JSON (one list), suite-form JSONL, or ShoppingBench's `synthesize_*` JSONL.

    Files may be plain, gzip or zstd. Categories are folded to lower case; ShoppingBench states none: a voucher
    makes `voucher`, a list of rewards `shop`, a reward that is a whole product document `web`, another `product`.

    Errors: OresmithError naming file and line for JSON that cannot be read or could be read in two ways, a problem
    without a query, an unknown category, a reward or voucher that does not fit the category, an id with two contents,
    and a file without problems.
    """
    index = ProblemIndex()
    for path in map(Path, paths):
        number = 0
        for number, text in _rows(path):
            where = f"{path}:{number}"
            index.add(_problem(text, where), where)
        if number == 0:
            raise OresmithError("holds no problem", where=str(path))
    return index


def gold_ids(problem: Problem) -> list[str]:
    """Return the gold product ids of a problem, in the order of its rewards; [] where it states none."""
    rewards = problem.reward if isinstance(problem.reward, list) else [problem.reward]
    ids = [reward.get("product_id") for reward in rewards if isinstance(reward, dict)]
    return [gold for gold in ids if isinstance(gold, str)]


def _rows(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield `(line, JSON text)` for each problem: an element of a JSON list, or a line."""
    lines = read_lines(path, DOCUMENT_BYTES)
    for number, line in lines:
        if line.startswith(b"["):
            yield from _elements(path)
        else:
            yield number, line
            yield from lines
        return


def _elements(path: Path) -> Iterator[tuple[int, bytes]]:
    data = read_whole(path)
    try:
        elements = msgspec.json.decode(data, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        at = re.search(r"\(byte (\d+)\)", str(error))
        line = data.count(b"\n", 0, int(at[1]) if at else len(data)) + 1
        raise _bad(f"{path}:{line}", _strict_fault(data) or error) from error
    number, place = 1, 0
    for element in map(bytes, elements):
        start = data.index(element, place)
        number += data.count(b"\n", place, start)
        yield number, element
        number += element.count(b"\n")
        place = start + len(element)


def _strict_fault(data: bytes) -> BadJsonError | None:
    """What the strict decoder says of bytes that the quick one refused: it knows the faults by name."""
    try:
        decode_row(data)
    except BadJsonError as error:
        return error
    return None


def _problem(text: bytes, where: str) -> Problem:
    try:
        row = msgspec.convert(decode_row(text), _Row)
    except (BadJsonError, msgspec.ValidationError) as error:
        raise _bad(where, error) from error
    category = row.category.lower() if row.category is not None else _category(row)
    if category is not None and category not in CATEGORIES:
        raise OresmithError("unknown category", where=where, expected=", ".join(CATEGORIES), got=category[:80])
    _check_reward(row, category, where)
    return Problem(
        problem_id=row.problem_id,
        query=row.query,
        category=category,
        difficulty=row.difficulty,
        reward=row.reward,
        voucher=row.voucher,
    )


def _category(row: _Row) -> str | None:
    if row.voucher is not None:
        return "voucher"
    if isinstance(row.reward, list):
        return "shop"
    if row.reward is None:
        return None
    # A reward lists the accepted titles; a product document has the one it is sold under.
    return "web" if isinstance(row.reward.get("title"), str) else "product"


def _check_reward(row: _Row, category: str | None, where: str) -> None:
    if row.reward is None:
        return
    several = category in ("shop", "voucher")
    if several is not isinstance(row.reward, list) or not row.reward:
        expected = f"{category}: {'a list of one object or more' if several else 'one object'}"
        raise OresmithError("the reward does not fit the category", where=where, expected=expected)
    rewards = row.reward if isinstance(row.reward, list) else [row.reward]
    if not all(isinstance(reward.get("product_id"), str) for reward in rewards):
        raise OresmithError("a reward has no gold product", where=where, expected="a string `product_id`")
    if category == "voucher" and row.voucher is None:
        raise OresmithError("a voucher problem has no voucher", where=where, expected="an object `voucher`")


def _content(problem: Problem) -> tuple[object, ...]:
    return problem.category, problem.query, problem.reward, problem.voucher


def _bad(where: str, error: Exception) -> OresmithError:
    return OresmithError(
        "not a problem",
        where=where,
        expected="a JSON object with `query`, `reward` and, for suites, `problem_id` and `category`",
        got=told(error),
    )
