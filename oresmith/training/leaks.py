"""The leak check of every step's training text.

No query of a guarded problem may stand in it, whole or in eight words that only its cluster has, nor may a guarded gold
product be recommended. What tools answered is exempt: a catalogue holds the products of all problems. Guarded is all
that nothing may be trained on: held out by any date, quarantined, of benchmarks that are not allowed, of the vault.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from oresmith.audit.products import RECOMMEND, touched
from oresmith.errors import OresmithError
from oresmith.leakage.spec import gold_id
from oresmith.models.checks import RenderingReport
from oresmith.records import Record
from oresmith.training.guarded import Guarded, load_guarded
from oresmith.training.phrases import BASE, QUERY, WORDS
from oresmith.training.rowset import RowSet

LEAKS_SCHEMA = "oresmith.training-leaks/1"
GOLD, PROBLEM = "gold", "problem"
RULES: dict[str, str] = {
    PROBLEM: "The row is about a problem that may not be trained on.",
    QUERY: "The text holds the query of a guarded problem.",
    BASE: "The text holds the query of a guarded problem without its voucher text.",
    WORDS: "The text holds eight words of a guarded query that no other cluster's query has.",
    GOLD: "A gold product of a guarded problem is recommended.",
}
"""Kind of leak -> what it means."""
_TOLD = 3
_WORD = re.compile(r"[\w-]+")
Messages = Sequence[Mapping[str, Any]]


class TextLeak(Record, frozen=True):
    """One leak. No text of any problem stands in it."""

    row_id: str
    kind: str
    """Of `RULES`."""
    place: str
    """Where in the row, as in "message 3"."""
    problem: str
    """Name of the guarded problem."""


class LeakReport(Record, frozen=True):
    """What was compared with what; published in training.json."""

    conversations: int
    texts: int
    """Compared, results of tools aside."""
    letters: int
    recommended: int
    """Products, by conversation."""
    viewed: dict[str, int]
    """Conversations that view a guarded gold product without recommending it, by guarded place: no leak, but told."""
    guarded: dict[str, int]
    """Problems by pool or benchmark; `ledger` are those that only the ledger still knows."""
    guarded_sha256: str
    """Over their names, sorted, a line each."""
    queries: int
    """Distinct texts of guarded queries, with and without voucher text."""
    runs: int
    """Of eight words, that only one cluster has."""
    golds: int
    shared: dict[str, int]
    """`queries` and `runs` that recognise nothing, because queries of other clusters hold them too."""
    rules: dict[str, str] = msgspec.field(default_factory=lambda: RULES)
    leaks: list[TextLeak] = msgspec.field(default_factory=list)
    schema: str = LEAKS_SCHEMA


def check_training_text(rows: RowSet | Iterable[tuple[str, Messages]], data: Path | Guarded) -> LeakReport:
    """Refuse training text with a leak.

    Args:
        rows: of a step, or pairs of row id and messages.
        data: the pipeline's directory (reads cluster/, split/ and audit/), or what was loaded from it.

    Returns:
        The account, without leaks.

    Raises:
        OresmithError: a leak, telling how many and the first ones; a row without its conversation; no tables.
    """
    report = find_text_leaks(rows, data)
    if report.leaks:
        counts = Counter(leak.kind for leak in report.leaks)
        first = "; ".join(
            f"{leak.row_id[:80]}, {leak.place}: {leak.kind} of {leak.problem[:12]}" for leak in report.leaks[:_TOLD]
        )
        raise OresmithError(
            "training text holds what is held out, so nothing is trained",
            where=first,
            expected="no leak",
            got=", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())),
            todo="leave these rows out, or find how they came into the corpus",
        )
    return report


def find_text_leaks(rows: RowSet | Iterable[tuple[str, Messages]], data: Path | Guarded) -> LeakReport:
    """The account of `check_training_text`, with all leaks. Raises OresmithError as it does, save for leaks."""
    guarded = data if isinstance(data, Guarded) else load_guarded(data)
    check = _Check(guarded)
    if isinstance(rows, RowSet):
        for row in rows.rows:
            if row.row_id not in rows.talks:
                raise OresmithError("a row has no conversation, so it cannot be checked", where=row.row_id[:200])
        for talk in rows.talks.values():
            if talk.problem and not guarded.may_train(talk.problem):
                check.note(talk.row_id, PROBLEM, "row", talk.problem)
            check.see(talk.row_id, talk.messages, talk.tools)
    else:
        for row_id, messages in rows:
            check.see(row_id, messages)
    return check.report()


def without_leaks(rows: RowSet, data: Path | Guarded) -> RowSet:
    """The rows whose conversations have no leak; the others are counted in `left_out` as `leak_<kind>`, once each.

    For what models say by themselves; rows of the corpus that leak are a fault, and not to be passed over.
    """
    found: dict[str, str] = {}
    for leak in find_text_leaks(rows, data).leaks:
        found.setdefault(leak.row_id, leak.kind)
    left_out = Counter(rows.left_out)
    left_out.update(f"leak_{kind}" for kind in found.values())
    kept = [row for row in rows.rows if row.row_id not in found]
    report = RenderingReport(
        conversations=rows.report.conversations - len(found),
        rows=rows.report.rows - (len(rows.rows) - len(kept)),
        kept=len(kept),
        rejected=rows.report.rejected,
        tokens=sum(len(row.ids) for row in kept),
        supervised=sum(sum(row.mask) for row in kept),
        longest=rows.report.longest,
        rejects=rows.report.rejects,
    )
    return RowSet(
        rows=kept,
        report=report,
        talks={row_id: talk for row_id, talk in rows.talks.items() if row_id not in found},
        left_out=dict(sorted(left_out.items())),
        keeps_prefixes=rows.keeps_prefixes,
    )


class _Check:
    """Collects what is found, row by row."""

    def __init__(self, guarded: Guarded) -> None:
        self._guarded = guarded
        self._leaks: dict[TextLeak, None] = {}
        self._conversations = self._texts = self._letters = self._recommended = 0
        self._viewed: Counter[str] = Counter()

    def note(self, row_id: str, kind: str, place: str, problem: str) -> None:
        self._leaks[TextLeak(row_id=row_id, kind=kind, place=place, problem=problem)] = None

    def see(self, row_id: str, messages: Messages, tools: Sequence[Any] = ()) -> None:
        """Look at one conversation."""
        self._conversations += 1
        for place, text in _texts(messages, tools):
            self._texts += 1
            self._letters += len(text)
            for kind, problem in self._guarded.find(text):
                self.note(row_id, kind, place, problem)
        self._products(row_id, messages)

    def _products(self, row_id: str, messages: Messages) -> None:
        viewed: set[str] = set()
        recommended: set[str] = set()
        for place, message in enumerate(messages):
            if message.get("role") != "assistant":
                continue
            found = touched(_calls(message))
            viewed |= found.viewed
            recommended |= found.recommended
            # A call that could not be read stands in the content as it was written.
            targets = found.recommended | _written(message.get("content"))
            for problem in sorted({self._guarded.gold(product) for product in targets} - {""}):
                self.note(row_id, GOLD, f"message {place}", problem)
        self._recommended += len(recommended)
        self._viewed.update({self._guarded.place_of_gold(product) for product in sorted(viewed - recommended)} - {""})

    def report(self) -> LeakReport:
        guarded = self._guarded
        return LeakReport(
            conversations=self._conversations,
            texts=self._texts,
            letters=self._letters,
            recommended=self._recommended,
            viewed=dict(sorted(self._viewed.items())),
            guarded=guarded.counts,
            guarded_sha256=hashlib.sha256("".join(f"{name}\n" for name in guarded.names).encode()).hexdigest(),
            queries=guarded.phrases.queries,
            runs=guarded.phrases.runs,
            golds=guarded.golds,
            shared={"queries": guarded.phrases.queries_shared, "runs": guarded.phrases.runs_shared},
            leaks=list(self._leaks),
        )


class _Text(NamedTuple):
    place: str
    text: str


def _texts(messages: Messages, tools: Sequence[Any]) -> Iterator[_Text]:
    """All text of a conversation but what tools answered: content, thinking, names and arguments, one by one."""
    for place, message in enumerate(messages):
        if message.get("role") == "tool":
            continue
        for text in _strings([message.get("content"), message.get("reasoning_content")]):
            yield _Text(f"message {place}", text)
        for name, arguments in _calls(message):
            yield _Text(f"message {place}", name)
            for text in _strings(_decoded(arguments)):
                yield _Text(f"message {place}", text)
    for text in _strings(list(tools)):
        yield _Text("tools", text)


def _calls(message: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(name, arguments as JSON text) of the calls of a message."""
    for call in message.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping):
            arguments = function.get("arguments")
            text = arguments if isinstance(arguments, str) else _encoded(arguments)
            yield str(function.get("name")), text


def _written(content: Any) -> frozenset[str]:
    """What can be an id in a text that speaks of recommending by the tool's name."""
    if not isinstance(content, str) or RECOMMEND not in content:
        return frozenset()
    return frozenset(map(gold_id, _WORD.findall(content))) - {""}


def _strings(value: Any) -> Iterator[str]:
    """All texts of a JSON value, keys included, in order."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            if item:
                yield item
        elif isinstance(item, Mapping):
            waiting += [part for pair in reversed(list(item.items())) for part in reversed(pair)]
        elif isinstance(item, list | tuple):
            waiting += reversed(item)


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text


def _encoded(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return ""
