"""ShoppingBench's own rollout files: a list of steps a line, as `src/agent/run_rollout.py` writes them (2f4d132).

A step differs from one of SN15 in three places: `prompt` holds the system prompt and the history as it was sent,
results stand in `message.obs` as `{"tool_call_id", "results"}` beside the calls, and `completion.content` is the
model's raw reply. A result belongs to the first call of its id that has none yet; where ids are left out (its
`run_multi_vote.py` removes them) results and calls pair by position.

The history repeats the earlier steps, so a prompt is kept (`Step.extra["step"]["prompt"]`) only where it is not what
`history` renders; the same holds for a reply that its message already says in full.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any, TypeGuard

from oresmith.records import Format, Source, Trajectory
from oresmith.traces.context import Context, cannot_carry
from oresmith.traces.identity import seal
from oresmith.traces.sn15_encode import check_messages, dialogue_of, rendered
from oresmith.traces.sn15_reader import DialogueReader
from oresmith.traces.text import text_of

HISTORY = "# Dialogue Records History\n"
_ROLES = ("think", "tool_call", "obs", "response")


def decode_rollout(row: list[Any], ctx: Context, source: Source) -> Trajectory:
    """One line of a rollout file. It declares no problem id, status or agent: only queries tell problems apart."""
    reader = DialogueReader([_with_results(step) for step in row], None, None, system=_system(row))
    t = reader.read(Format.SHOPPINGBENCH, ctx, source)
    t.log = None
    if t.raw_dialogue is None:
        _keep_prompts_and_replies(t, row)
    else:
        t.raw_dialogue = row
    return seal(t, ctx.source_name)


def encode_rollout(t: Trajectory) -> list[Any]:
    """A line of a rollout file; prompts are rendered where they were not kept.

    Raises:
        CodecError: where a message has no place in a list of steps, or a call log or a status would be lost.
    """
    if t.format is Format.SHOPPINGBENCH and t.raw_dialogue is not None:
        return list(t.raw_dialogue)
    if t.format is not Format.SHOPPINGBENCH and (t.log or t.status is not None or t.raw_dialogue is not None):
        raise cannot_carry(Format.SHOPPINGBENCH, "it has a status or a call log")
    check_messages(t, Format.SHOPPINGBENCH)
    history = [] if t.problem.query is None else [f"<user>{t.problem.query}</user>"]
    steps = []
    for step, raw in zip(t.steps, dialogue_of(t) or [], strict=True):
        message = _rollout_message(raw["completion"]["message"])
        raw["completion"]["message"] = message
        prompt: dict[str, Any] = {}
        if "prompt" not in raw and "step.prompt" not in step.extra.get("absent", ()):
            prompt["prompt"] = _prompt(t, HISTORY + "\n\n".join(history))
        steps.append(prompt | raw)
        history += _as_text(message)
    return steps


def _system(row: list[Any]) -> str | None:
    """The system prompt that the first step was sent, or None where there is none or it is empty."""
    prompt = row[0].get("prompt") if row and isinstance(row[0], dict) else None
    first = prompt[0] if isinstance(prompt, list) and prompt else None
    return text_of(first.get("content")) or None if isinstance(first, dict) and first.get("role") == "system" else None


def _with_results(step: Any) -> Any:
    """The step as SN15 writes it: results in their calls. `obs` stays where the calls do not say all of it."""
    if not isinstance(step, dict):
        return step
    step = {key: value for key, value in step.items() if key != "prompt"}
    completion = step.get("completion")
    message = completion.get("message") if isinstance(completion, dict) else None
    if not isinstance(message, dict) or not isinstance(completion, dict):
        return step
    calls, obs = message.get("tool_call"), message.get("obs")
    if not _objects(calls) or not _objects(obs):
        return step
    calls = _paired(calls, obs)
    said = bool(obs) and _observations(calls) == obs
    kept = {key: value for key, value in message.items() if key != "obs" or not said}
    return step | {"completion": completion | {"message": kept | {"tool_call": calls}}}


def _objects(value: object) -> TypeGuard[list[dict[str, Any]]]:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _paired(calls: list[dict[str, Any]], obs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    waiting: dict[str | None, deque[dict[str, Any]]] = {}
    for seen in obs:
        name = seen.get("tool_call_id")
        if "results" in seen and (name is None or isinstance(name, str)):
            waiting.setdefault(name, deque()).append(seen)
    paired = []
    for call in calls:
        name = call.get("tool_call_id")
        found = waiting.get(name) if name is None or isinstance(name, str) else None
        paired.append(call | {"result": found.popleft()["results"]} if found else call)
    return paired


def _observations(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`obs` as the rollout script writes it for calls that hold their results."""
    return [
        {key: call[key] for key in ("tool_call_id",) if key in call} | {"results": call["result"]}
        for call in calls
        if "result" in call
    ]


def _rollout_message(message: dict[str, Any]) -> dict[str, Any]:
    """A message with results in its calls -> one with `obs`, keys in the rollout script's order."""
    calls = message.get("tool_call")
    if not isinstance(calls, list):
        return message
    moved = dict(message)
    moved["tool_call"] = [{key: value for key, value in call.items() if key != "result"} for call in calls]
    obs = _observations(calls)
    if obs:
        moved.setdefault("obs", obs)
    return {key: moved[key] for key in (*_ROLES, *moved) if key in moved}


def _keep_prompts_and_replies(t: Trajectory, row: list[Any]) -> None:
    """Note in each step the prompt and the reply that cannot be rendered from the record."""
    history = [] if t.problem.query is None else [f"<user>{t.problem.query}</user>"]
    size = len(HISTORY) + sum(map(len, history))
    for step, raw, mine in zip(t.steps, row, dialogue_of(t) or [], strict=True):
        message = mine["completion"]["message"]
        content = raw["completion"].get("content")
        if content != rendered(message):
            step.extra.setdefault("completion", {})["content"] = content
        if "prompt" not in raw:
            step.extra.setdefault("absent", []).append("step.prompt")
        elif not _renders(raw["prompt"], t, history, size):
            step.extra.setdefault("step", {})["prompt"] = raw["prompt"]
        for part in _as_text(_rollout_message(message)):
            size += len(part) + (2 if history else 0)
            history.append(part)


def _renders(prompt: Any, t: Trajectory, history: list[str], size: int) -> bool:
    """Whether a prompt is what `_prompt` gives. The size first: joining the history at each step would be quadratic."""
    user = prompt[-1].get("content") if isinstance(prompt, list) and prompt and isinstance(prompt[-1], dict) else None
    if not isinstance(user, str) or len(user) != size:
        return False
    return bool(prompt == _prompt(t, HISTORY + "\n\n".join(history)))


def _prompt(t: Trajectory, user: str) -> list[dict[str, Any]]:
    system = t.messages[0].content if t.messages and t.messages[0].role == "system" else ""
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def _as_text(message: dict[str, Any]) -> list[str]:
    """The line that the rollout script adds to the history for a step: none where its message is empty."""
    parts = []
    for role in _ROLES:
        value = message.get(role)
        if value:
            text = value if isinstance(value, str) else _ujson(value)
            parts.append(f"<{role}>{text}</{role}>")
    return ["\n".join(parts)] if parts else []


def _ujson(value: Any) -> str:
    """JSON as ujson writes it by default: compact, ASCII, with `/` escaped."""
    return json.dumps(value, separators=(",", ":")).replace("/", "\\/")
