"""What scoring needs of a rollout, read in one pass: what was said and shown, counted, without any text.

Reads any trace file. What only our own rows hold (how an episode ended, tokens, malformed replies) is taken from their
columns, and is unknown elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import orjson

from oresmith.arena.scoring import Said, ScoreError, read_dialogue, recommended_ids
from oresmith.arena.scoring_steps import UNTIMED, step_format
from oresmith.arena.toolschema import check_call
from oresmith.evaluation.workers import in_order
from oresmith.evidence.provenance import SN15_FORMATS
from oresmith.evidence.structure import FIND, RECOMMEND, TERMINATE, VIEW
from oresmith.lines.decoding import BadJsonError, decode
from oresmith.lines.framing import BadLine, read_lines
from oresmith.records import Message, Record, Source, ToolCall, Trajectory
from oresmith.traces import CodecError, Context, dialogue_of
from oresmith.traces import decode as decode_trace

ENDED = ("terminated", "stopped", "malformed", "turns", "length", "context", "error")
"""How our harness ends an episode (`episode`)."""
UNKNOWN = "unknown"
"""Of a trace whose last word is a call, and that says nothing of its end."""
_SHOWN = re.compile(r"""product_id["']\s?:\s?(?:["']([^"'\\\s,]{1,128})["']|(\d{1,32})\b)""")
_IN_WORDS = re.compile(r" = (\d{1,32})$", re.MULTILINE)
"""Where a view that shows products in words, not as JSON, has their ids."""
_QUOTES = ('"', "'")
_BATCH_BYTES = 4 * 2**20
_MOST = 2**53


class Played(Record, frozen=True):
    """One rollout."""

    file: str
    line: int
    name: str | None
    """Our column `problem`."""
    problem_id: str | None
    query: str | None
    sample: int | None
    ended: str
    """Of `ENDED`, or `UNKNOWN`."""
    said: Said | None
    """None where the dialogue cannot be scored, and `fault` says why."""
    fault: str | None
    form: float | None
    """Share of the steps that are well-formed; time stamps count only where the format has them."""
    shown: str
    """Product ids in the results of search and views, as the model was shown them: a comma list, each once."""
    unshown: tuple[str, ...]
    """Ids that were recommended or viewed, and that no earlier result showed."""
    calls: int
    repeats: int
    """Calls that repeat an earlier one, name and arguments."""
    recommends: int
    invalid_calls: int
    """Calls that break the tool schema, or of an unknown tool."""
    tool_errors: int
    """Results that are an error."""
    turns: int
    malformed: int | None
    prompt_tokens: int | None
    completion_tokens: int | None


class Unreadable(Record, frozen=True):
    """A line that is no trace."""

    file: str
    line: int
    reason: str


class _Ours(msgspec.Struct):
    """What is read of a row that our harness wrote; to pass over raw results and tools saves a third of the time."""

    messages: Any
    problem: Any = None
    problem_id: Any = None
    query: Any = None
    sample: Any = None
    finish: Any = None
    malformed: Any = None
    usage: Any = None


_OURS = msgspec.json.Decoder(_Ours)


class _Batch(NamedTuple):
    file: str
    ours: bool
    lines: list[tuple[int, bytes]]
    bad: list[Unreadable]


def read_played(
    files: Sequence[tuple[Path, str]], workers: int = 1, *, ours: bool = False
) -> Iterator[Played | Unreadable]:
    """The rollouts of trace files, in the order of their lines; memory is bounded by the longest line.

    Args:
        files: each with the name that messages give it.
        workers: processes that read.
        ours: the files are known to be what our harness wrote; any other is read as strictly as all traces are.

    Raises:
        OresmithError: a file cannot be opened.
    """
    for found in in_order(_read_batch, _batches(files, ours), workers):
        yield from found


def _batches(files: Sequence[tuple[Path, str]], ours: bool) -> Iterator[_Batch]:
    for path, name in files:
        batch, size = _Batch(name, ours, [], []), 0
        for line in read_lines(path):
            if isinstance(line, BadLine):
                batch.bad.append(Unreadable(file=name, line=line.number, reason=line.reason.value))
                continue
            batch.lines.append((line.number, line.data))
            size += len(line.data)
            if size >= _BATCH_BYTES:
                yield batch
                batch, size = _Batch(name, ours, [], []), 0
        yield batch


def _read_batch(batch: _Batch) -> list[Played | Unreadable]:
    found: list[Played | Unreadable] = list(batch.bad)
    context = Context(source=_source(batch.file, 1, b""), source_name=batch.file, trust_rows=True)
    for number, data in batch.lines:
        try:
            row = _row(data) if batch.ours else decode(data)
            trajectory = decode_trace(row, context, _source(batch.file, number, data))
        except (BadJsonError, CodecError) as error:
            found.append(Unreadable(file=batch.file, line=number, reason=error.reason.value))
        else:
            found.append(played(trajectory))
    return found


def _row(data: bytes) -> Any:
    try:
        return msgspec.structs.asdict(_OURS.decode(data))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return decode(data)  # which knows the fault by name


def _source(file: str, line: int, data: bytes) -> Source:
    return Source(snapshot="", file=file, file_sha256="", line=line, offset=0, length=len(data))


def played(trajectory: Trajectory) -> Played:
    """What scoring needs of a trajectory. Never raises."""
    said, fault, form = _said(trajectory)
    calls = _Calls(trajectory.messages)
    columns: dict[str, Any] = trajectory.extra.get("columns", {})
    usage = columns.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    name = columns.get("problem")
    return Played(
        file=trajectory.source.file,
        line=trajectory.source.line,
        name=name if isinstance(name, str) else None,
        problem_id=trajectory.problem.problem_id,
        query=trajectory.problem.query,
        sample=_count(columns.get("sample")),
        ended=_ended(trajectory, columns.get("finish"), calls),
        said=said,
        fault=fault,
        form=form,
        shown=",".join(calls.shown),
        unshown=tuple(calls.unshown),
        calls=calls.count,
        repeats=calls.count - len(calls.distinct),
        recommends=calls.recommends,
        invalid_calls=calls.invalid,
        tool_errors=calls.errors,
        turns=sum(not step.copied_context for step in trajectory.steps),
        malformed=_count(columns.get("malformed")),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
    )


def shown_to(played: Played) -> list[str]:
    """The ids of `Played.shown`."""
    return played.shown.split(",") if played.shown else []


def shown_ids(content: str) -> list[str]:
    """The product ids in the text of a result, in whatever view: JSON, JSON lines, or Python's own notation."""
    # Without a quote at the pattern's start, which the search for a fixed word does not bear.
    hits = (hit for hit in _SHOWN.finditer(content) if content[hit.start() - 1 : hit.start()] in _QUOTES)
    return [hit[1] or hit[2] for hit in hits]


class _Calls:
    """The calls and results of a conversation, in their order."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.shown: dict[str, None] = {}
        self.unshown: dict[str, None] = {}
        self.distinct: set[tuple[str, bytes]] = set()
        self.count = self.recommends = self.invalid = self.errors = 0
        self.terminated = False
        for message in messages:
            for call in message.tool_calls:
                self._called(call)
            if message.role == "tool" and message.content:
                self._answered(message.name, message.content)

    def _called(self, call: ToolCall) -> None:
        arguments, canonical = _read(call.arguments)
        self.count += 1
        self.distinct.add((call.name, canonical))
        self.invalid += check_call(call.name, arguments).verdict != "valid"
        self.terminated = self.terminated or call.name == TERMINATE
        self.recommends += call.name == RECOMMEND
        if call.name in (RECOMMEND, VIEW):
            ids = recommended_ids(arguments.get("product_ids") if isinstance(arguments, dict) else None)
            self.unshown.update(dict.fromkeys(one for one in ids if one not in self.shown))

    def _answered(self, name: str | None, content: str) -> None:
        if content.startswith("Error:"):
            self.errors += 1
        elif name in (FIND, VIEW):
            self.shown.update(dict.fromkeys(shown_ids(content) or _IN_WORDS.findall(content)))


def _read(arguments: str) -> tuple[Any, bytes]:
    """The value of a call's arguments, and a text that is the same for equal ones."""
    try:
        value = orjson.loads(arguments)
        return value, orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (ValueError, TypeError):
        return None, arguments.encode("utf-8", "surrogatepass")


def _said(trajectory: Trajectory) -> tuple[Said | None, str | None, float | None]:
    dialogue = dialogue_of(trajectory)
    if not dialogue:
        return Said(), None, 0.0
    try:
        said = read_dialogue(dialogue)
    except ScoreError as error:
        return None, error.what, None
    if trajectory.format in SN15_FORMATS:
        return said, None, said.format
    # Only SN15's steps have time stamps by their format; the arena halves what a step without one is worth.
    if all(step.timestamp is None for step in trajectory.steps):
        return said, None, min(said.format / UNTIMED, 1.0)
    return said, None, sum(step_format(step) > 0 for step in dialogue) / len(dialogue)


def _ended(trajectory: Trajectory, finish: object, calls: _Calls) -> str:
    if isinstance(finish, str) and finish in ENDED:
        return finish
    if calls.terminated:
        return "terminated"
    if trajectory.status == "FAILED" or not trajectory.steps:
        return "error"
    last = next((message for message in reversed(trajectory.messages) if message.role != "tool"), None)
    said_its_last = last is not None and last.role == "assistant" and not last.tool_calls
    return "stopped" if said_its_last and trajectory.status != "TIMED_OUT" else UNKNOWN


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < _MOST else None
