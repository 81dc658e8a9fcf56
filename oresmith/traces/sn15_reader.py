"""Reads one SN15 dialogue into messages, steps and the flattened log; see `sn15` for what goes where."""

from __future__ import annotations

from typing import Any

from msgspec import ValidationError, convert
from msgspec.structs import force_setattr

from oresmith.records import Format, Message, Problem, ProxyCall, Source, Step, ToolCall, Trajectory
from oresmith.traces.context import Context
from oresmith.traces.jsontext import dumps
from oresmith.traces.sn15_shape import (
    CALL_KEYS,
    LOG_KEYS,
    info_of,
    infos,
    log_entry_of,
    note_difference,
    small_float,
    small_int,
)


class DialogueReader:
    """Reads one dialogue, step by step, into messages, steps and the flattened log."""

    def __init__(
        self,
        dialogue: list[Any],
        problem_id: object,
        execution_time: object,
        *,
        system: str | None = None,
        tools: list[Any] | None = None,
    ) -> None:
        query = next((info["query"] for info in infos(dialogue) if isinstance(info.get("query"), str)), None)
        self.dialogue = dialogue
        self.problem = Problem(problem_id=problem_id if isinstance(problem_id, str) else None, query=query)
        self.execution_time = small_float(execution_time)
        self.system = system
        self.tools = tools
        self.messages: list[Message] = []
        self.steps: list[Step] = []
        self.log: list[ProxyCall] = []
        self.log_malformed = False
        self.malformed = False
        self.calls = 0

    def read(self, format: Format, ctx: Context, source: Source) -> Trajectory:
        """The trajectory without its hashes: the caller adds what its format knows besides and seals it."""
        if self.system is not None:
            self.messages.append(Message(role="system", content=self.system))
        if self.problem.query is not None:
            self.messages.append(Message(role="user", content=self.problem.query))
        for raw in self.dialogue:
            self._step(raw)
        return Trajectory(
            trajectory_id="",
            identity="",
            content="",
            source=source,
            format=format,
            provenance=ctx.provenance,
            problem=self.problem,
            messages=self.messages,
            tools=self.tools,
            system_prompt="none_logged" if self.system is None else "logged",
            steps=self.steps,
            log=self.log,
            log_malformed=self.log_malformed,
            execution_time=self.execution_time,
            licence=ctx.licence,
            raw_dialogue=self.dialogue if self.malformed else None,
        )

    def _step(self, raw: object) -> None:
        if not isinstance(raw, dict):
            self.malformed = True
            self.steps.append(Step(message=-1, malformed="the step is not an object"))
            return
        extra: dict[str, Any] = {}
        completion, info = raw.get("completion"), raw.get("extra_info")
        message = completion.get("message") if isinstance(completion, dict) else None
        place, malformed = -1, None
        if isinstance(completion, dict) and isinstance(message, dict):
            place = len(self.messages)
            malformed = self._message(message, extra)
            if len(completion) != 3 or completion.get("reasoning_content") != "" or "content" not in completion:
                _note_completion(extra, completion)
        else:
            malformed = "the step has no message object"
        if len(raw) != 2 or not isinstance(info, dict):
            _note_step(extra, raw)
        number = timestamp = None
        log_first = False
        if isinstance(info, dict):
            number, timestamp = small_int(info.get("step")), small_int(info.get("timestamp"))
            log_first = self._info(info, number, timestamp, extra)
        if malformed:
            self.malformed = True
        self.steps.append(
            Step(
                message=place,
                number=number,
                timestamp=timestamp,
                malformed=malformed,
                log_first=log_first,
                extra=extra,
            )
        )

    def _message(self, message: dict[str, Any], extra: dict[str, Any]) -> str | None:
        """Append the assistant message and the tool messages; return why the message is malformed, or None."""
        think, response, raw_calls = message.get("think"), message.get("response"), message.get("tool_call")
        malformed = None
        if (think is not None) + (response is not None) + (raw_calls is not None) != len(message):
            malformed = _odd_message(message, extra)
        if think is not None and not isinstance(think, str):
            malformed, think = "`think` is not a string", None
        if response is not None and not isinstance(response, str):
            malformed, response = "`response` is not a string", None
        calls: list[ToolCall] = []
        results: list[Message] = []
        if raw_calls:
            if isinstance(raw_calls, list):
                for place, raw in enumerate(raw_calls):
                    malformed = self._call(raw, place, calls, results, extra) or malformed
            else:
                malformed = "`tool_call` is not a list"
        elif raw_calls is not None:
            malformed = _odd_calls(raw_calls, extra) or malformed
        self.messages.append(Message(role="assistant", content=response, reasoning_content=think, tool_calls=calls))
        self.messages += results
        return malformed

    def _call(
        self, raw: object, place: int, calls: list[ToolCall], results: list[Message], extra: dict[str, Any]
    ) -> str | None:
        if not isinstance(raw, dict):
            return "a tool call is not an object"
        name, parameters, original = raw.get("name"), raw.get("parameters"), raw.get("tool_call_id")
        if not isinstance(name, str) or not isinstance(parameters, dict):
            return "a tool call lacks its name or its parameters"
        call_id = f"call_{self.calls}"
        self.calls += 1
        if not isinstance(original, str):
            original = None
        calls.append(ToolCall(id=call_id, name=name, arguments=dumps(parameters), original_id=original))
        known = 3 if original is not None else 2
        if "result" in raw:
            known += 1
            results.append(
                Message(role="tool", content=_result(raw["result"], place, extra), tool_call_id=call_id, name=name)
            )
        if known != len(raw):
            rest = {key: value for key, value in raw.items() if key not in CALL_KEYS}
            if "tool_call_id" in raw and original is None:
                rest["tool_call_id"] = raw["tool_call_id"]
            extra.setdefault("calls", {})[str(place)] = rest
        return None

    def _info(self, info: dict[str, Any], number: int | None, timestamp: int | None, extra: dict[str, Any]) -> bool:
        """Take the log over and note what differs from the default; return whether the log stands before the id.

        `default` counts the keys that the encoder writes by itself, `known` those of them that stand here as written:
        only where the counts differ are the objects compared.
        """
        index, problem = len(self.steps), self.problem
        logged = info.get("proxy_calls")
        known = (number is not None) + (timestamp is not None)
        default = known
        if problem.query is not None:
            default += 1
            known += info.get("query") == problem.query
        if problem.problem_id is not None:
            default += 1
            known += info.get("problem_id") == problem.problem_id
        if index == 0 and self.execution_time is not None:
            default += 1
            seconds = info.get("execution_time")
            known += type(seconds) is float and seconds == self.execution_time
        taken = bool(logged) and self._log(logged, index, extra)
        if known != default or known + taken != len(info):
            emitted = info_of(problem, self.execution_time, Step(message=-1, number=number, timestamp=timestamp), index)
            rest = {key: value for key, value in info.items() if key != "proxy_calls"} if taken else info
            note_difference(extra, "extra_info", emitted, rest)
        return taken and _log_first(info)

    def _log(self, logged: Any, index: int, extra: dict[str, Any]) -> bool:
        """Append a step's log entries; False where it is no list, which then stays raw in `extra`."""
        if not isinstance(logged, list):
            self.log_malformed = True
            return False
        for place, raw in enumerate(logged):
            try:
                entry = convert(raw, ProxyCall)
                plain = LOG_KEYS.issuperset(raw) and all(raw.values())
            except (ValidationError, OverflowError):
                self.log_malformed, plain = True, False
                entry = _lenient_entry(raw)
            force_setattr(
                entry, "step", index
            )  # not shared yet; a copy of each entry to set it costs more than reading
            if not plain:
                _note_entry(extra, place, entry, raw)
            self.log.append(entry)
        return True


def _result(result: object, place: int, extra: dict[str, Any]) -> str:
    """The text of a tool's result; notes where the text alone does not tell a string from JSON."""
    if isinstance(result, str):
        if result[:1] in ("[", "{"):
            extra.setdefault("results", {})[str(place)] = "str"
        return result
    if not isinstance(result, list | dict):
        extra.setdefault("results", {})[str(place)] = "json"
    return dumps(result)


def _odd_message(message: dict[str, Any], extra: dict[str, Any]) -> str | None:
    rest = {key: value for key, value in message.items() if key not in ("think", "response", "tool_call")}
    if rest:
        extra["message"] = rest
    for key in ("think", "response", "tool_call"):
        if key in message and message[key] is None:
            return f"`{key}` is null"
    if not isinstance(rest.get("user", ""), str):
        return "`user` is not a string"
    obs = rest.get("obs", [])
    if not isinstance(obs, list) or not all(isinstance(seen, dict) for seen in obs):
        return "`obs` is not a list of objects"
    return None


def _odd_calls(raw_calls: object, extra: dict[str, Any]) -> str | None:
    """An empty value of `tool_call`: only the empty list is of the format's shape."""
    if isinstance(raw_calls, list):
        extra.setdefault("message", {})["tool_call"] = []
        return None
    return "`tool_call` is not a list"


def _note_completion(extra: dict[str, Any], completion: dict[str, Any]) -> None:
    raw = {key: value for key, value in completion.items() if key not in ("content", "message")}
    note_difference(extra, "completion", {"reasoning_content": ""}, raw)


def _note_step(extra: dict[str, Any], raw: dict[str, Any]) -> None:
    emitted: dict[str, Any] = {"extra_info": None}
    kept = {key: value for key, value in raw.items() if key != "completion"}
    if isinstance(raw.get("extra_info"), dict):
        kept["extra_info"] = None
    elif "extra_info" in kept and kept["extra_info"] is None:
        emitted["extra_info"] = {}
    note_difference(extra, "step", emitted, kept)


def _log_first(info: dict[str, Any]) -> bool:
    if "problem_id" not in info or next(reversed(info)) == "proxy_calls":
        return False
    return next(key for key in info if key in ("problem_id", "proxy_calls")) == "proxy_calls"


def _lenient_entry(raw: object) -> ProxyCall:
    """As many fields of a malformed log entry as have the right type."""
    taken: dict[str, Any] = {}
    for key, value in raw.items() if isinstance(raw, dict) else ():
        if key in LOG_KEYS:
            try:
                taken[key] = getattr(convert({key: value}, ProxyCall), key)
            except (ValidationError, OverflowError):
                continue
    return ProxyCall(**taken)


def _note_entry(extra: dict[str, Any], place: int, entry: ProxyCall, raw: object) -> None:
    """Keep what the fields of a log entry do not hold: unknown keys, nulls, wrong types, an entry that is no object."""
    if not isinstance(raw, dict):
        extra.setdefault("log", {})[str(place)] = {"is": raw}
        return
    emitted = log_entry_of(entry)
    changed = {key: value for key, value in raw.items() if not (key in emitted and emitted[key] == value)}
    if changed:
        extra.setdefault("log", {})[str(place)] = {"set": changed}
