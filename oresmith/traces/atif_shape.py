"""Pieces of an ATIF step that reading and writing share, and the checks of a document."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from oresmith.reasons import Reason
from oresmith.records import Message, ToolCall
from oresmith.traces.context import CodecError, shown, wrong_shape
from oresmith.traces.jsontext import loads

VERSIONS = ("ATIF-v1.7", "ATIF-v1.8")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PATH_PARTS = 6


def check_document(document: object) -> dict[str, Any]:
    """Validate a document with the `atif` models, strictly, and by the rule of 1.7 that they leave open.

    Raises:
        CodecError: WRONG_SHAPE with the place in the document; nothing of it but the models' own names is repeated.
    """
    from atif import Trajectory as Model
    from pydantic import ValidationError

    if not isinstance(document, dict):
        raise wrong_shape("the ATIF document", "an object", document)
    if document.get("schema_version") not in VERSIONS:
        got = document.get("schema_version")
        raise CodecError(
            Reason.WRONG_SHAPE,
            "the ATIF version is not one that is read",
            expected=" or ".join(VERSIONS),
            got=shown(got),
        )
    try:
        Model.model_validate(document, strict=True)
    except ValidationError as fault:
        first = fault.errors(include_url=False, include_context=False, include_input=False)[0]
        parts = first["loc"][:_PATH_PARTS]
        place = ".".join(str(part) if isinstance(part, int) else shown(part, _names()) for part in parts)
        raise CodecError(
            Reason.WRONG_SHAPE, f"the ATIF document breaks its model at {place or 'its root'}", got=first["type"]
        ) from None
    for step in document["steps"]:
        if not step.get("tool_calls"):
            _check_unclaimed(step)
    return document


@cache
def _names() -> frozenset[str]:
    """What pydantic may name in a place: fields of the models, and the members of their unions."""
    import atif
    from pydantic import BaseModel

    found = {"str", "float", "list[ContentPart]"}
    for name in atif.__all__:
        member = getattr(atif, name)
        if isinstance(member, type) and issubclass(member, BaseModel):
            found |= {name, *member.model_fields}
    return frozenset(found)


def _check_unclaimed(step: dict[str, Any]) -> None:
    """A result may name a call of its own step only; the models check it only where the step has calls."""
    results = (step.get("observation") or {}).get("results", ())
    if any(result.get("source_call_id") is not None for result in results):
        raise CodecError(
            Reason.WRONG_SHAPE, f"a result in ATIF step {step['step_id']} names a call that the step does not have"
        )


def calls_of(calls: list[ToolCall], *, own_ids: bool) -> list[dict[str, Any]] | None:
    """The `tool_calls` of a step; None where an argument text is no JSON object.

    Args:
        calls: the calls of the assistant message.
        own_ids: write the minted ids and keep the source's in `extra`, because the source's may collide.
    """
    raw: list[dict[str, Any]] = []
    for call in calls:
        try:
            arguments = loads(call.arguments)
        except ValueError:
            return None
        if not isinstance(arguments, dict):
            return None
        name = call.id if own_ids or call.original_id is None else call.original_id
        raw.append({"tool_call_id": name, "function_name": call.name, "arguments": arguments})
        if own_ids:
            raw[-1]["extra"] = {"original_id": call.original_id}
    return raw


def observation_of(ids: list[str], answers: list[Message | None]) -> dict[str, Any] | None:
    """The `observation` that the tool messages of a step give, one result per answered call, in the calls' order."""
    results: list[dict[str, Any]] = []
    for name, answer in zip(ids, answers, strict=True):
        if answer is not None:
            results.append({"source_call_id": name})
            if answer.content is not None:
                results[-1]["content"] = answer.content
    return {"results": results} if results else None


def pair(ids: list[str], results: list[dict[str, Any]]) -> tuple[list[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Results by the place of the call that they answer, and those that answer none.

    Equal ids are answered in order; what is left over belongs to the last call of that id.
    """
    waiting: dict[str, deque[int]] = {}
    last: dict[str, int] = {}
    for place, name in enumerate(ids):
        waiting.setdefault(name, deque()).append(place)
        last[name] = place
    answered: list[list[dict[str, Any]]] = [[] for _ in ids]
    free: list[dict[str, Any]] = []
    for result in results:
        target: str | None = result.get("source_call_id")
        if target is None:
            free.append(result)
        else:
            answered[waiting[target].popleft() if waiting[target] else last[target]].append(result)
    return answered, free


def milliseconds(text: str | None) -> int | None:
    """Milliseconds since the epoch of an ISO 8601 time; one without a zone is taken as UTC."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        return None


def iso_time(ms: int | None) -> str | None:
    """ISO 8601 UTC with milliseconds, or None where no calendar holds the time."""
    if ms is None:
        return None
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return None
