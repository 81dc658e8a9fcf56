"""Columns of a row beside its transcript: taken where their type fits, kept aside where it does not."""

from __future__ import annotations

import math
from typing import Any

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


class Columns:
    """What is left of a row. Each method takes the first named column that has the right type, and removes it."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.rest = {name: value for name, value in row.items() if value is not None}

    def take(self, *names: str, kinds: type | tuple[type, ...]) -> Any:
        """A value of one of the kinds (exactly: true is no number), or None."""
        allowed = kinds if isinstance(kinds, tuple) else (kinds,)
        for name in names:
            if type(self.rest.get(name)) in allowed:
                return self.rest.pop(name)
        return None

    def text(self, *names: str) -> str | None:
        """A string, the empty one included."""
        value: str | None = self.take(*names, kinds=str)
        return value

    def number(self, *names: str) -> float | None:
        """A finite number that a float holds."""
        for name in names:
            value = self.rest.get(name)
            if (type(value) is float and math.isfinite(value)) or (type(value) is int and abs(value) < 2**53):
                return float(self.rest.pop(name))
        return None

    def flag(self, *names: str) -> bool | None:
        """A boolean, also as 0 or 1."""
        for name in names:
            value = self.rest.get(name)
            if type(value) is bool or (type(value) is int and value in (0, 1)):
                return bool(self.rest.pop(name))
        return None

    def provenance(self, declared: Provenance) -> Provenance:
        """The file's provenance, overruled by what the row itself says."""
        own = {field: text for field, names in PROVENANCE.items() if (text := self.text(*names)) is not None}
        fields = {field: getattr(declared, field) for field in Provenance.__struct_fields__}
        return Provenance(**(fields | own)) if own else declared

    def problem(self, query: str | None) -> Problem:
        """The problem; `query` stands in where no column holds it. A `reward` that is a number is no problem's."""
        category = self.text("category")
        return Problem(
            problem_id=self.text("problem_id", "instance_id", "task_id"),
            query=query if (own := self.text("query")) is None else own,
            category=None if category is None else category.lower(),
            difficulty=self.text("difficulty"),
            reward=self.take("reward", kinds=(dict, list)),
            voucher=self.take("voucher", kinds=dict),
        )

    def outcome(self) -> SourceOutcome | None:
        """What the source says of success and score, or None. A missing score stays unknown."""
        success = self.flag("is_successful", "success", "resolved")
        score = self.take("score", "reward", kinds=(float, int, dict))
        scorer = self.text("scorer")
        if success is None and score is None and scorer is None:
            return None
        return SourceOutcome(success=success, score=score, scorer=scorer)

    def judge(self) -> Judgement | None:
        """The reasoning score of the row, or None."""
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
