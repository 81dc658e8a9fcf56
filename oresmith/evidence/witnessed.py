"""Whether a trajectory's call log is what the server itself saw.

The log is compared with the session's entries in everything that the log kept: one entry a call, inside the time that
the call took for the client. A call that the client repeated until it was answered, as SN15's does, is one call of the
log and several requests; only requests that were refused may be taken together so, and they told the agent nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oresmith.arena.witness import Entry, canonical_request, digest, session_name
from oresmith.evidence.origin_log import number
from oresmith.records import ProxyCall, Trajectory

CLOCK_SLACK_MS = 2_000
"""By so much a client may see a call begin earlier or end later than the server does."""
KEPT_CHARACTERS = 2_000
"""The older runtime drops a response only if its JSON is longer than this."""
_TICK_MS = 2
"""Time stamps are whole milliseconds, so that spans are known to about two."""


def confirmed(trajectory: Trajectory, witness: Mapping[str, Sequence[Entry]]) -> bool:
    """Whether the log equals the entries of the session `<run_id>/<problem_id>`, one to one.

    Args:
        trajectory: any trajectory; its log may hold values of any JSON type.
        witness: the server's entries by session (`oresmith.arena.witness.load_witness`).

    Returns:
        False as well where there is no log, no such session, or a time stamp is missing. Never raises.
    """
    session = session_name(trajectory.provenance.run_id, trajectory.problem.problem_id)
    entries = list(witness.get(session, ())) if session else []
    log = trajectory.log
    if not isinstance(log, list) or not log or not entries or trajectory.log_malformed or not _whole(entries):
        return False
    if len(log) > len(entries):
        return False
    ordered = sorted(log, key=lambda call: number(call.timestamp) or 0.0)  # stable; one without a time is never taken
    forms: set[str] = set()
    return all(_take(call, entries, forms) for call in ordered) and not entries and len(forms) <= 1


def _whole(entries: Sequence[Entry]) -> bool:
    """The entries are numbered from 0 without a gap, and the clock never goes back."""
    return all(
        entry.number == index and (index == 0 or entry.timestamp >= entries[index - 1].timestamp)
        for index, entry in enumerate(entries)
    )


def _take(call: ProxyCall, entries: list[Entry], forms: set[str]) -> bool:
    """Remove from `entries` the requests that make up one call; False if they are not there.

    They lie inside the call's own span, so that only calls that a client made at the same time can stand in another
    order. What the call tells of the runtime that logged it is added to `forms`: one runtime wrote the whole log.
    """
    end, duration = number(call.timestamp), number(call.duration_ms)
    if end is None or duration is None or duration < 0:
        return False
    begin, seen = end - duration, _Seen(call)
    taken: list[Entry] = []
    place = 0
    while place < len(entries) and entries[place].timestamp <= end + _TICK_MS:
        entry = entries[place]
        if _start(entry) < begin - _TICK_MS or not seen.asks(entry):
            place += 1
        elif _refused(entry):
            taken.append(entries.pop(place))
        elif seen.answered and seen.tells(entry):
            taken.append(entries.pop(place))
            break
        else:
            place += 1
    if not taken or _refused(taken[-1]) is seen.answered or not seen.ends(taken[-1]):
        return False
    forms |= seen.forms(taken[-1])
    return _start(taken[0]) - begin <= CLOCK_SLACK_MS and end - taken[-1].timestamp <= CLOCK_SLACK_MS


def _start(entry: Entry) -> float:
    return entry.timestamp - entry.duration_ms


def _refused(entry: Entry) -> bool:
    return not 200 <= entry.status < 300


class _Seen:
    """One call of the log, hashed as the server hashes."""

    def __init__(self, call: ProxyCall) -> None:
        self.call = call
        self.request = digest(canonical_request(call.params, call.json_data))
        body = call.json_data
        kept = isinstance(body, Mapping) and body.get("messages") is not None
        self.messages = digest(body["messages"]) if kept else None
        self.response = digest(call.response)
        self.ids = None if call.result_product_ids is None else digest(call.result_product_ids)
        self.answered = call.status_code is not None and 200 <= call.status_code < 300

    def asks(self, entry: Entry) -> bool:
        """The entry is this request."""
        same = (self.call.method, self.call.path, self.request) == (entry.method, entry.path, entry.request_sha256)
        return same and self.request != "" and self.messages in (None, entry.messages_sha256)

    def ends(self, entry: Entry) -> bool:
        """The entry can be the last request of this call: a failed call has no status, or that of its last request."""
        if self.answered:
            return True
        if self.call.status_code is None:
            return self.call.response is None and self.call.response_truncated is None
        return self.call.status_code == entry.status and self.tells(entry)

    def tells(self, entry: Entry) -> bool:
        """The entry is this answer, in everything that the log kept of it."""
        call = self.call
        if call.status_code != entry.status or call.response_length not in (None, entry.response_length):
            return False
        if self.ids not in (None, entry.ids_sha256):
            return False
        if call.response_truncated is not True:
            return self.response == entry.response_sha256 != ""
        kept_ids = self.ids is not None or entry.ids_sha256 is None
        return call.response is None and kept_ids and (call.response_length or 0) > KEPT_CHARACTERS

    def forms(self, entry: Entry) -> set[str]:
        """What only the newer runtime ("full") or only the older one ("short") would have logged so of this entry."""
        forms = set()
        if entry.messages_sha256 is not None:
            forms.add("short" if self.messages is None else "full")
        if self.answered and entry.response_length > KEPT_CHARACTERS:
            forms.add("short" if self.call.response_truncated is True else "full")
        return forms
