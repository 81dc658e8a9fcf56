"""A play of one agent run, record by record, for the tests of origin; and the promises of the play itself."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from oresmith.evidence.origin import Origin, OriginRule, judge_origin, origin_evidence
from oresmith.evidence.origin_facts import OriginEvidence
from oresmith.records import Format, Message, ProxyCall, Source, Step, ToolCall, Trajectory

START = 1_777_593_600_000
SOURCE = Source(snapshot="s", file="f", file_sha256="", line=1, offset=0, length=0)
Call = tuple[str, dict[str, Any]]
RESULT = json.dumps([{"product_id": str(1000000 + n), "title": "a plain product title " * 4} for n in range(10)])
FIND: Call = ("find_product", {"q": "red kettle", "page": 1})
VIEW: Call = ("view_product_information", {"product_ids": "1000000,1000001"})
RECOMMEND: Call = ("recommend_product", {"product_ids": "1000000"})
TERMINATE: Call = ("terminate", {"status": "success"})
CLOSING = ("recommend_product", "terminate")
PLAN: list[list[Call]] = [[FIND], [("find_product", {"q": "kettle"})], [VIEW], [RECOMMEND, TERMINATE]]


def tagged(calls: list[Call], think: str = "I weigh it.") -> str:
    """The reply that makes these calls, as SN15's reference agent asks for it."""
    commands = [{"name": name, "parameters": arguments} for name, arguments in calls]
    return f"<think>{think}</think>\n<tool_call>{json.dumps(commands)}</tool_call>"


class Play:
    """One run. Calls take time; a step is stamped when it is complete; the log keeps the order of the ends."""

    def __init__(self) -> None:
        self.now = float(START)
        self.messages: list[Message] = [Message(role="user", content="a red kettle")]
        self.steps: list[Step] = []
        self.log: list[ProxyCall] = []

    def infer(
        self,
        reply: str | None,
        tokens: int | None,
        *,
        native: list[Call] | None = None,
        body: dict[str, Any] | None = None,
        finished: int = 30,
    ) -> None:
        """One answered inference call; `tokens` None leaves its usage null."""
        message: dict[str, Any] = {"role": "assistant", "content": reply}
        if native is not None:
            calls = [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in native]
            message["tool_calls"] = [{"id": "x", "type": "function", "function": call} for call in calls]
        usage = None if tokens is None else {"prompt_tokens": tokens, "completion_tokens": finished}
        self._inference(200, {"choices": [{"message": message}], "usage": usage}, body)

    def drop(self) -> None:
        """An answered call whose reply the log dropped for its length."""
        self._inference(200, None, None)
        self.log[-1] = msgspec.structs.replace(self.log[-1], response_truncated=True, response_length=2600)

    def fail(self, status: int | None = 500) -> None:
        """A failed call: no response."""
        self._inference(status, None, None)

    def _inference(self, status: int | None, response: Any, body: dict[str, Any] | None) -> None:
        self.now += 400.0
        self.log.append(
            ProxyCall(
                kind="summary",
                method="POST",
                path="/inference/chat/completions",
                timestamp=self.now,
                duration_ms=390.0,
                status_code=status,
                json_data={"model": "m", "temperature": 0.0} if body is None else body,
                response=response,
            )
        )

    def search(self, ms: float = 30.0) -> None:
        """One call that is not inference."""
        self.now += ms + 1
        self.log.append(ProxyCall(kind="summary", path="/search/find_product", timestamp=self.now, duration_ms=ms))

    def step(self, calls: list[Call], result: str = RESULT, think: str = "I weigh it.") -> None:
        """A step, written after its calls; results of recommend and terminate are short."""
        place = len(self.messages)
        made = [
            ToolCall(id=f"call_{place}_{n}", name=name, arguments=json.dumps(arguments))
            for n, (name, arguments) in enumerate(calls)
        ]
        self.messages.append(Message(role="assistant", reasoning_content=think, tool_calls=made))
        for call in made:
            text = "done" if call.name in CLOSING else result
            self.messages.append(Message(role="tool", content=text, tool_call_id=call.id, name=call.name))
        self.now += 1
        self.steps.append(Step(message=place, number=len(self.steps) + 1, timestamp=int(self.now)))
        self.now += 1

    def trajectory(self, format: Format = Format.SN15_ENVELOPE, **changes: Any) -> Trajectory:
        made = Trajectory(trajectory_id="", identity="", content="", source=SOURCE, format=format)
        made.messages, made.steps, made.log = self.messages, self.steps, self.log
        made.status, made.execution_time = "SUCCESS", (self.now - START) / 1000 + 0.5
        made.inference_total = sum(entry.path == "/inference/chat/completions" for entry in self.log)
        for name, value in changes.items():
            setattr(made, name, value)
        return made


def agentic(plan: list[list[Call]] | None = None, tokens: list[int] | None = None) -> Play:
    """An honest ReAct run: a reply a step, its calls, results that the next prompt holds."""
    plan = PLAN if plan is None else plan
    play, size = Play(), 900
    for number, calls in enumerate(plan):
        play.infer(tagged(calls), tokens[number] if tokens else size)
        for name, _ in calls:
            if name not in CLOSING:
                play.search()
        play.step(calls)
        size += 60 + sum(10 if name in CLOSING else len(RESULT) // 4 for name, _ in calls)
    return play


def judged(play: Play, rule: OriginRule | None = None, **changes: Any) -> tuple[OriginEvidence, Origin]:
    evidence = origin_evidence(play.trajectory(**changes))
    return evidence, judge_origin(evidence, rule)


def test_the_honest_play_is_agentic_by_every_signal_that_an_old_log_can_show() -> None:
    evidence, origin = judged(agentic())
    assert origin.label == "A"
    assert origin.votes[:6] == ["echo:A", "head:A", "growth:A", "size:none", "bodies:A", "replies:A"]
    assert origin.votes[6:] == ["prompts:none", "dispatch:none"]
    assert evidence.full_text
    assert evidence.steps == ["model_emitted"] * 4
    assert evidence.recommend == "model_emitted"
    assert evidence.provenance.kind == "runtime-written"
