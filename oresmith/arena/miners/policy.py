"""Policies step by step: see the results of the last calls, say what to do next. Who executes the calls is not theirs.

An external harness (a trainer that wants a teacher's word on a state, an evaluation) drives a policy alone:

    policy = stepwise(make(brief))
    action = policy.observe(None)
    while action is not None:
        action = policy.observe([execute(name, parameters) for name, parameters in action.calls])
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from oresmith.records import Record

Call = tuple[str, dict[str, Any]]
"""Name and parameters of a tool call."""
Results = list[Any]
"""The results of one action's calls, in their order; a failed call's is a string "Error: ..", """


class Action(Record, frozen=True):
    """One step of a policy."""

    think: str
    calls: list[Call]
    response: str | None = None


Script = Generator[Action, Results, None]
"""A policy written as straight code: it yields actions and is sent their results."""
Acting = Generator[Action, Results, Results]
"""A part of a script that hands its results on."""


class Policy(Protocol):
    """A policy for one problem."""

    def observe(self, results: Results | None) -> Action | None:
        """Return the next action given the last one's results (None at the start), None when the run is over."""


class Stepwise:
    """A script as a `Policy`."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def observe(self, results: Results | None) -> Action | None:
        """See `Policy.observe`."""
        try:
            return next(self._script) if results is None else self._script.send(results)
        except StopIteration:
            return None
