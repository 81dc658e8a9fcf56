"""Signals 2 to 6 and 8: the step pattern, prompt growth, request bodies, bare JSON, prompts, and cross-checks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Any

from oresmith.evidence.origin_facts import (
    CallEcho,
    CheckFacts,
    Growth,
    HeadFacts,
    InferenceFacts,
    PromptFacts,
    ReplyFacts,
)
from oresmith.evidence.origin_log import Inference, Log, Tool, content_text, is_redacted, number
from oresmith.evidence.origin_steps import StepCalls, step_results
from oresmith.evidence.toolcall_text import MAX_TEXT, calls_in_text, canonical
from oresmith.records import Trajectory

CLOCK_SLACK_MS = 2.0
"""Rounding of the logged times: ends are whole milliseconds, durations tenths."""
_NO_PARAMETER = frozenset({"messages", "prompt", "input", "tools", "tool_choice", "functions", "seed", "user"})
_JUDGING = re.compile(r"scor|best|rank|rating|relevan|keyword|constraint|winner|selected|verdict|confidence|candidate")
_ORDER = re.compile(
    r"(?:^|[.!?:\n]\s{0,4})(?:please |now |only |just |you (?:must|should|will) |your task is to )?"
    r"(?:score|rate|rank|parse|extract|classify|narrate|summari[sz]e|rephrase|rewrite|repeat|echo|output exactly)\b",
    re.IGNORECASE,
)
_ID = re.compile(r"(?<!\d)\d{6,20}(?!\d)")
_ORDER_TEXT = 2_000
_RESULT_TEXT = 4_000
_RESULT_IDS = 16
_PROMPTS = 64
"""Prompts of one trajectory that are read; the first ones."""


def head_facts(calls: list[StepCalls], log: Log, found: list[CallEcho], closing: int) -> HeadFacts:
    """Signal 2, I S*: exactly one answered inference call at the head of each step. Survives dropped texts.

    Failed calls and empty replies before the answered one are retries and do not count.
    """
    carried = {call.step for call in found if call.carried}
    tools: dict[int, float] = {}
    for tool in log.tools:
        tools[tool.step] = min(tools.get(tool.step, tool.start), tool.start)
    steps = first = without = several = 0
    for index, own in enumerate(calls):
        if not own.names or index == closing or index in carried or not log.timed[index] or log.unplaced:
            continue
        steps += 1
        answered = [log.inferences[at] for at in log.windows[index] if log.inferences[at].speaks]
        without += not answered
        several += len(answered) > 1
        if len(answered) == 1 and (answered[0].end or 0.0) <= tools.get(index, 1e18) + CLOCK_SLACK_MS:
            first += 1
    return HeadFacts(steps=steps, head_first=first, without=without, several=several)


def growth(log: Log, shown: list[int]) -> list[Growth]:
    """Signal 3: how the prompt grows from one inference call to the next, beside what the steps between recorded.

    Args:
        log: calls without a time or a prompt size are passed over.
        shown: characters of the results of each step.

    Returns:
        One entry for each successive two.
    """
    before = [0]
    for size in shown:
        before.append(before[-1] + size)
    known = [one for one in log.inferences if one.prompt_tokens is not None and one.step >= 0]
    pairs = []
    for one, other in pairwise(known):
        tokens, earlier = other.prompt_tokens or 0, one.prompt_tokens or 0
        between = before[other.step] - before[one.step]
        pairs.append(Growth(tokens=tokens, delta=tokens - earlier, shown=between))
    return pairs


def inference_facts(log: Log) -> InferenceFacts:
    """Signal 4, with the counts of what the log holds."""
    answered = [one for one in log.inferences if one.answered]
    bodies = {
        canonical({key: value for key, value in one.body.items() if key not in _NO_PARAMETER}) for one in answered
    }
    return InferenceFacts(
        logged=len(log.inferences),
        answered=len(answered),
        with_text=sum(one.reply is not None for one in answered),
        others=log.others,
        untimed=log.untimed,
        stale=log.stale,
        unplaced=log.unplaced,
        models=len({canonical(one.body.get("model")) for one in answered}),
        parameter_sets=len(bodies),
    )


def reply_facts(log: Log) -> ReplyFacts:
    """Signal 5: bare JSON replies, and those among them that judge or parse."""
    bare = [one.reply.bare for one in log.inferences if one.reply is not None and one.reply.bare is not None]
    return ReplyFacts(bare_json=len(bare), judging=sum(_judges(value) for value in bare))


def _judges(value: Any) -> bool:
    """Whether a key of the outer object, or of the first object in an outer list, speaks of judging or parsing."""
    if isinstance(value, list):
        value = next((item for item in value[:8] if isinstance(item, dict)), {})
    keys = [str(key)[:64].lower() for key in list(value)[:64]] if isinstance(value, dict) else []
    return any(_JUDGING.search(key) for key in keys)


def prompt_facts(trajectory: Trajectory, log: Log, names: AbstractSet[str]) -> PromptFacts:
    """Signal 6: what the prompts themselves hold. Texts replaced by their length leave it unknown (`readable` 0)."""
    prompts = [(one, _messages(one)) for one in log.inferences if one.answered][: 4 * _PROMPTS]
    logged = [(one, messages) for one, messages in prompts if messages]
    readable = [(one, messages) for one, messages in logged if not _all_redacted(messages)][:_PROMPTS]
    if not readable:
        return PromptFacts(logged=len(logged))
    ids = _ids_before(trajectory)
    tools = expecting = observed = asking = told = calls = 0
    for one, messages in readable:
        text = "\n".join(text for _, text in messages)[: 4 * MAX_TEXT]
        named = sum(name in text for name in names)
        tools += bool(one.body.get("tools")) or named >= min(2, max(len(names), 1))
        wanted = ids[one.step] if 0 <= one.step < len(ids) else frozenset()
        expecting += bool(wanted)
        observed += any(number in text for number in wanted)
        orders = [*[text for role, text in messages if role == "system"][:1], messages[-1][1]]
        asking += any(_orders(order) for order in orders)
        made, known = _told(one, messages, names)
        calls, told = calls + made, told + known
    return PromptFacts(
        logged=len(logged),
        readable=len(readable),
        with_tools=tools,
        expecting=expecting,
        with_observations=observed,
        asking=asking,
        calls=calls,
        told=told,
    )


def _messages(one: Inference) -> list[tuple[str, str]]:
    """Role and text of each message of the request."""
    messages = one.body.get("messages")
    found = []
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, dict):
            role = message.get("role")
            found.append((role if isinstance(role, str) else "", content_text(message.get("content"))))
    return found


def _all_redacted(messages: list[tuple[str, str]]) -> bool:
    return all(not text or is_redacted(text) for _, text in messages)


def _ids_before(trajectory: Trajectory) -> list[frozenset[str]]:
    """Per step: ids in the results of the last step before it that recorded any."""
    found: list[frozenset[str]] = []
    latest: frozenset[str] = frozenset()
    for texts in step_results(trajectory):
        found.append(latest)
        ids = _ID.findall("\n".join(texts)[:_RESULT_TEXT])[:_RESULT_IDS]
        latest = frozenset(ids) or latest
    return [*found, latest]


def _orders(text: str) -> bool:
    """Whether a prompt orders to score, parse, narrate or repeat, in its first or last characters."""
    return bool(_ORDER.search(text[:_ORDER_TEXT]) or _ORDER.search(text[-_ORDER_TEXT:]))


def _told(one: Inference, messages: list[tuple[str, str]], names: AbstractSet[str]) -> tuple[int, int]:
    """Calls of the reply (terminate aside), and how many of them the prompt held outside the assistant's messages."""
    made = [call for call in (one.reply.calls if one.reply is not None else []) if call.name != "terminate"]
    if not made:
        return 0, 0
    texts = [text for role, text in messages if role != "assistant"]
    held = {
        (call.name, canonical(call.arguments))
        for text in [*texts[:1], *texts[1:][-2:]]
        for call in calls_in_text(text, names)
    }
    return len(made), sum((call.name, canonical(call.arguments)) in held for call in made)


def check_facts(trajectory: Trajectory, log: Log) -> CheckFacts:
    """Signal 8: the log's own sums against what the envelope states."""
    answered = any(one.answered for one in log.inferences)
    total = number(trajectory.inference_total)
    durations = [max(number(call.duration_ms) or 0.0, 0.0) for call in trajectory.log or []]
    return CheckFacts(
        total_zero=total == 0 and answered,
        total_without_log=total is not None and total > 0 and not log.inferences and log.stale == 0,
        summed_s=round(sum(durations) / 1000, 6),
        busy_s=round(_busy(_spans(log.inferences, log.tools)) / 1000, 6),
        execution_s=number(trajectory.execution_time),
    )


def _spans(inferences: list[Inference], tools: list[Tool]) -> Iterator[tuple[float, float]]:
    for one in inferences:
        if one.start is not None and one.end is not None:
            yield one.start, one.end
    for tool in tools:
        yield tool.start, tool.end


def _busy(spans: Iterator[tuple[float, float]]) -> float:
    """Length of the union of intervals."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
