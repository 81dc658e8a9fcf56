"""The server's own request log, which no agent can write: `oresmith.witness/1`.

A JSON line a request, in the order of the server's clock, after a first line that names the schema. It holds hashes and
lengths, not texts: enough to tell that a trace's log is the truth, too little to leak a prompt.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import orjson

from oresmith.errors import OresmithError
from oresmith.lines.framing import BadLine, read_lines
from oresmith.reasons import Reason

SCHEMA = "oresmith.witness/1"
HEAD = b'{"schema":"oresmith.witness/1"}\n'
"""The first line of a file; files may be joined, so it may come again."""
MAX_NAME = 200
"""Characters of a run's or a problem's id in the name of a session."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One request that the server answered. Hashes are the sha256, hex, of canonical JSON (`digest`)."""

    session: str
    """`<run_id>/<problem_id>`."""
    number: int
    """In its session, from 0."""
    method: str
    path: str
    """Below the session's base URL, as in "/search/find_product"."""
    timestamp: int
    """Milliseconds since the epoch at the END."""
    duration_ms: float
    status: int
    request_sha256: str
    """Of `canonical_request`: the parameters, or the body without its `messages`."""
    response_sha256: str
    """Of the body of the response."""
    response_length: int
    """Characters of the body as Python's `json.dumps` writes it: what SN15's older runtime counts."""
    messages_sha256: str | None = None
    """Of the body's `messages`, where it has any: the newer runtime logs them."""
    ids_sha256: str | None = None
    """Of the list of product ids in a page of `find_product`: all that the older runtime keeps of a long one."""


class Witness(Mapping[str, tuple[Entry, ...]]):
    """Entries by session, in the order of the file. Never changes."""

    def __init__(self, sessions: Mapping[str, tuple[Entry, ...]]) -> None:
        self._sessions = sessions

    def __getitem__(self, session: str) -> tuple[Entry, ...]:
        return self._sessions[session]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sessions)

    def __len__(self) -> int:
        return len(self._sessions)

    def __deepcopy__(self, memo: object) -> Witness:
        """Shared, not copied: executors copy a pipeline for each task."""
        return self


def session_name(run_id: str | None, problem_id: str | None) -> str | None:
    """The session of an attempt; None where it has none (an id is missing, odd or too long, or the run's has a "/")."""
    if not run_id or not problem_id or "/" in run_id:
        return None
    known = all(len(one) <= MAX_NAME and one.isprintable() for one in (run_id, problem_id))
    return f"{run_id}/{problem_id}" if known else None


def digest(value: object) -> str:
    """The sha256, hex, of a JSON value whatever the order of its keys; 1 and 1.0 differ; "" for what is no JSON."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # integers over 64 bits, half surrogates, other types: slower, and never the same text
        try:
            text = json.dumps(value, sort_keys=True).encode()
        except (TypeError, ValueError, RecursionError):
            return ""
    return hashlib.sha256(text).hexdigest()


def canonical_request(params: object, json_data: object) -> dict[str, Any]:
    """What is hashed of a request.

    A client's parameters are numbers, lists and None; the server sees texts. So None is left out, a list is its items,
    and everything is text. Of a body, `messages` is left out, because the older runtime does not log it.
    """
    request: dict[str, Any] = {}
    if isinstance(params, Mapping):
        texts = {str(name): _texts(value) for name, value in params.items()}
        params = {name: values for name, values in texts.items() if values}
    if params:
        request["params"] = params
    if isinstance(json_data, Mapping):
        json_data = {name: value for name, value in json_data.items() if name != "messages"}
    if json_data is not None:
        request["json"] = json_data
    return request


def result_ids(path: str, response: object) -> list[Any] | None:
    """The product ids that the runtime notes of a page of `find_product`; None for anything else."""
    if not path.endswith("/find_product") or not isinstance(response, list):
        return None
    return [item["product_id"] for item in response if isinstance(item, dict) and "product_id" in item]


def make_entry(
    session: str,
    number: int,
    method: str,
    path: str,
    *,
    timestamp: int,
    duration_ms: float,
    status: int,
    params: object = None,
    json_data: object = None,
    response: object = None,
) -> Entry:
    """The entry of one request.

    Args:
        session, number: which one it is.
        method, path: of the request, the path below the session's base.
        timestamp, duration_ms: the end, in ms since the epoch, and how long it took.
        status: HTTP status.
        params: of the URL, as the client gave them or as the server read them: both hash alike.
        json_data: the body, with its `messages`.
        response: the body of the answer, any JSON value.
    """
    messages = json_data.get("messages") if isinstance(json_data, Mapping) else None
    ids = result_ids(path, response)
    return Entry(
        session=session,
        number=number,
        method=method,
        path=path,
        timestamp=timestamp,
        duration_ms=duration_ms,
        status=status,
        request_sha256=digest(canonical_request(params, json_data)),
        response_sha256=digest(response),
        response_length=_length(response),
        messages_sha256=None if messages is None else digest(messages),
        ids_sha256=None if ids is None else digest(ids),
    )


class Recorder:
    """The entries of one session as they come: what an in-process run uses in place of the server."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.entries: list[Entry] = []

    def record(self, method: str, path: str, *, timestamp: int, duration_ms: float, status: int, **what: Any) -> Entry:
        """Append one; `what` is `params`, `json_data`, `response` of `make_entry`."""
        entry = make_entry(
            self.session,
            len(self.entries),
            method,
            path,
            timestamp=timestamp,
            duration_ms=duration_ms,
            status=status,
            **what,
        )
        self.entries.append(entry)
        return entry


def entry_line(entry: Entry, messages: object = None) -> bytes:
    """An entry's line, with its line end; `messages` only where the server was asked to log them."""
    line = _encode(entry)
    return line[:-1] + b',"messages":' + orjson.dumps(messages) + b"}\n" if messages is not None else line + b"\n"


def write_witness(path: str | Path, entries: Iterable[Entry]) -> int:
    """Write a whole file at once; returns the number of entries."""
    count = 0
    with Path(path).open("wb") as file:
        file.write(HEAD)
        for entry in entries:
            file.write(entry_line(entry))
            count += 1
    return count


def read_entries(path: str | Path) -> Iterator[Entry]:
    """Yield the entries of a file, plain or packed, in its order; a torn last line, as a kill leaves it, is not one.

    Raises:
        OresmithError: naming file and line, for a file that cannot be opened, has no head line of this schema, or holds
            a line that is no entry.
    """
    headed = False
    for line in read_lines(Path(path)):
        if isinstance(line, BadLine):
            if line.reason is Reason.LINE_TORN or line.reason is Reason.BLANK_LINE:
                continue
            raise _refusal(path, line.number, line.reason.value)
        if line.data == HEAD.rstrip():
            headed = True
            continue
        if not headed:
            raise _refusal(path, line.number, "the first line does not name the schema")
        try:
            yield _decode(line.data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _refusal(path, line.number, str(error)[:200]) from None
    if not headed:
        raise _refusal(path, 1, "nothing")


def load_witness(path: str | Path, only: Collection[str] | None = None) -> Witness:
    """Load a witness file, in one pass; about 700 bytes of memory an entry.

    Args:
        path: the file.
        only: the sessions wanted; None for all.

    Returns:
        Entries by session, as they stand in the file: `confirmed` checks that their numbers are whole.

    Raises:
        OresmithError: as `read_entries`.
    """
    sessions: dict[str, list[Entry]] = {}
    for entry in read_entries(path):
        if only is None or entry.session in only:
            sessions.setdefault(entry.session, []).append(entry)
    return Witness({session: tuple(entries) for session, entries in sessions.items()})


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Entry).decode


def _texts(value: object) -> list[str]:
    """The texts of one parameter in a URL, as `urlencode(.., doseq=True)` makes them."""
    if value is None:
        return []
    return [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]


def _length(value: object) -> int:
    """Characters as Python's `json.dumps` writes it by default; -1 for what it cannot write."""
    try:
        return len(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return -1


def _refusal(path: str | Path, number: int, got: str) -> OresmithError:
    return OresmithError("the witness cannot be read", where=f"{path}:{number}", expected=f"{SCHEMA} lines", got=got)
