"""Columns of a row beside its transcript: taken where their type fits, kept aside where it does not.

Of the several names of one field the first that the row has decides. Where rows are not trusted (`Context.trust_rows`),
only the problem's id and query are taken. What the file declares wins in either case, and a column that contradicts it
is kept aside.
"""

from __future__ import annotations

import math
from typing import Any

from msgspec.structs import replace

from oresmith.arena.problems import CATEGORIES
from oresmith.records import Judgement, Problem, Provenance, SourceOutcome

PROVENANCE = {
    "agent_version": ("agent_version", "agent_version_id"),
    "run_id": ("run_id", "eval_run_id"),
    "race_id": ("race_id",),
    "suite": ("suite", "suite_id"),
    "phase": ("phase",),
    "validator": ("validator", "validator_hotkey"),
    "runtime": ("runtime",),
    "scorer_version": ("scorer_version",),
    "judge_version": ("judge_version",),
    "created_at": ("created_at",),
}
"""Field of `Provenance` -> the columns it is read from. A miner's key is never read: a codec cannot hash it."""


LICENCE = ("licence", "license")


class Columns:
    """What is left of a row. Each method takes the first of the named columns, if it has the right type.

    Args:
        row: the row; columns that are null count as absent.
        trusted: whether its claims are read (`Context.trust_rows`).
    """

    def __init__(self, row: dict[str, Any], *, trusted: bool) -> None:
        self.rest = {name: value for name, value in row.items() if value is not None}
        self.trusted = trusted

    def _first(self, *names: str) -> str:
        """The first of the names that the row has, or the first of all."""
        return next((name for name in names if name in self.rest), names[0])

    def take(self, *names: str, kinds: type | tuple[type, ...]) -> Any:
        """A value of one of the kinds (exactly: true is no number), or None."""
        name, allowed = self._first(*names), kinds if isinstance(kinds, tuple) else (kinds,)
        return self.rest.pop(name) if type(self.rest.get(name)) in allowed else None

    def text(self, *names: str) -> str | None:
        """A string, the empty one included."""
        value: str | None = self.take(*names, kinds=str)
        return value

    def number(self, *names: str) -> float | None:
        """A finite number that a float holds."""
        name = self._first(*names)
        value = self.rest.get(name)
        if (type(value) is float and math.isfinite(value)) or (type(value) is int and abs(value) < 2**53):
            return float(self.rest.pop(name))
        return None

    def flag(self, *names: str) -> bool | None:
        """A boolean, also as 0 or 1."""
        name = self._first(*names)
        value = self.rest.get(name)
        if type(value) is bool or (type(value) is int and value in (0, 1)):
            return bool(self.rest.pop(name))
        return None

    def claim(self, declared: str | None, *names: str) -> str | None:
        """What the file declares, else what a trusted row says; a claim that repeats the declaration is dropped."""
        if declared is None:
            return self.text(*names) if self.trusted else None
        name = self._first(*names)
        if self.rest.get(name) == declared:
            del self.rest[name]
        return declared

    def provenance(self, declared: Provenance) -> Provenance:
        """The file's provenance; a trusted row fills in what it does not declare."""
        return replace(
            declared, **{field: self.claim(getattr(declared, field), *names) for field, names in PROVENANCE.items()}
        )

    def problem(self, query: str | None) -> Problem:
        """The problem; `query` stands in where no column holds it. A `reward` that is a number is no problem's."""
        own = self.text("query")
        named = Problem(
            problem_id=self.text("problem_id", "instance_id", "task_id"), query=query if own is None else own
        )
        if not self.trusted:
            return named
        return replace(
            named,
            category=self._category(),
            difficulty=self.text("difficulty"),
            reward=self.take("reward", kinds=(dict, list)),
            voucher=self.take("voucher", kinds=dict),
        )

    def _category(self) -> str | None:
        """A category that there is, in lower case; any other stays aside."""
        value = self.rest.get("category")
        if not isinstance(value, str) or value.lower() not in CATEGORIES:
            return None
        return str(self.rest.pop("category")).lower()

    def outcome(self) -> SourceOutcome | None:
        """What a trusted row says of success and score, or None. A missing score stays unknown."""
        if not self.trusted:
            return None
        success = self.flag("is_successful", "success", "resolved")
        score = self.take("score", "reward", kinds=(float, int, dict))
        scorer = self.text("scorer")
        if success is None and score is None and scorer is None:
            return None
        return SourceOutcome(success=success, score=score, scorer=scorer)

    def judge(self) -> Judgement | None:
        """The reasoning score of a trusted row, or None."""
        if not self.trusted:
            return None
        judgement = Judgement(
            quality=self.number("reasoning_quality"),
            model=self.text("reasoning_model"),
            version=self.text("reasoning_version"),
            judged_at=self.text("reasoning_judged_at"),
            explanation=self.text("reasoning_explanation"),
        )
        return None if judgement == Judgement() else judgement


def columns_of(
    provenance: Provenance, problem: Problem, outcome: SourceOutcome | None, judge: Judgement | None
) -> dict[str, Any]:
    """The columns that `Columns` reads the same values from; nothing for what is None."""
    outcome, judge = outcome or SourceOutcome(), judge or Judgement()
    values: dict[str, Any] = {field: getattr(provenance, field) for field in PROVENANCE}
    values |= {field: getattr(problem, field) for field in problem.__struct_fields__}
    values |= {"is_successful": outcome.success, "score": outcome.score, "scorer": outcome.scorer}
    values |= {
        "reasoning_quality": judge.quality,
        "reasoning_model": judge.model,
        "reasoning_version": judge.version,
        "reasoning_judged_at": judge.judged_at,
        "reasoning_explanation": judge.explanation,
    }
    return {name: value for name, value in values.items() if value is not None}
