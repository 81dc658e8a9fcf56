"""Which of a model's rollouts are trained on: strict successes that were well come by, each different, not too many.

Nothing vanishes: `sampled == kept + sum(dropped.values())`, by the reasons of `conduct.Fault`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from oresmith.evaluation.records import Rollout
from oresmith.records import Problem, Record
from oresmith.training.conduct import Fault, calls_key, conduct_fault


class Attempt(NamedTuple):
    """One sampled rollout with what is known of it."""

    rollout: Rollout
    problem: Problem
    cluster: str
    success: bool
    """By the strict scorer."""


class Account(Record, frozen=True):
    """What became of the sampled rollouts."""

    sampled: int
    successes: int
    solved: int
    """Problems with a success."""
    kept: int
    kept_problems: int
    kept_by_category: dict[str, int]
    dropped: dict[str, int]
    """By `conduct.Fault`."""


class Selected(NamedTuple):
    """The rollouts that are trained on, those first that a smaller number would take, too."""

    attempts: list[Attempt]
    dropped: dict[Fault, int]


def select(
    attempts: Iterable[Attempt],
    view: str,
    *,
    per_problem: int | None = None,
    per_cluster: int | None = None,
    request_words: float = 1.0,
) -> Selected:
    """Keep the well-conducted strict successes, one of those with the same calls, the shortest first.

    A cap on clusters takes one of each problem before a second of any.

    Args:
        attempts: all that were sampled; their order changes nothing.
        view: that they were shown results in.
        per_problem: most of one problem; None for no cap.
        per_cluster: most of one leak cluster; None for no cap.
        request_words: as for `conduct_fault`.
    """
    dropped: Counter[Fault] = Counter()
    good: dict[str, list[Attempt]] = {}
    for one in attempts:
        fault = conduct_fault(one.rollout, one.problem, view, request_words) if one.success else Fault.FAILED
        if fault is None:
            good.setdefault(one.rollout.problem, []).append(one)
        else:
            dropped[fault] += 1
    ranked: list[tuple[int, Attempt]] = []
    for found in good.values():
        different = _different(found)
        dropped[Fault.SAME_CALLS] += len(found) - len(different)
        dropped[Fault.PROBLEM_CAP] += len(different) - len(different[:per_problem])
        ranked += enumerate(different[:per_problem])
    ordered = [one for _, one in sorted(ranked, key=lambda entry: (entry[0], _order(entry[1])))]
    kept = _capped(ordered, per_cluster)
    dropped[Fault.CLUSTER_CAP] += len(ordered) - len(kept)
    return Selected(kept, dict(dropped))


def account(sampled: Sequence[Attempt], kept: Sequence[Attempt], dropped: dict[Fault, int]) -> Account:
    """The account of a selection.

    Args:
        sampled: everything.
        kept: what is trained on.
        dropped: the rest, by reason.
    """
    return Account(
        sampled=len(sampled),
        successes=sum(one.success for one in sampled),
        solved=len({one.rollout.problem for one in sampled if one.success}),
        kept=len(kept),
        kept_problems=len({one.rollout.problem for one in kept}),
        kept_by_category=dict(sorted(Counter(one.problem.category or "" for one in kept).items())),
        dropped={fault.value: dropped[fault] for fault in Fault if dropped.get(fault)},
    )


def _different(found: Sequence[Attempt]) -> list[Attempt]:
    """One of those with the same calls, shortest first."""
    kept: dict[object, Attempt] = {}
    for one in sorted(found, key=_length):
        kept.setdefault(calls_key(one.rollout.messages), one)
    return list(kept.values())


def _length(one: Attempt) -> tuple[int, int, int]:
    """Turns, then characters that the model wrote; the sample's number decides between equals."""
    said = [message for message in one.rollout.messages if message.role == "assistant"]
    written = sum(
        len(message.content or "")
        + len(message.reasoning_content or "")
        + sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
        for message in said
    )
    return len(said), written, one.rollout.sample


def _order(one: Attempt) -> tuple[bytes, str]:
    name = one.rollout.problem
    return hashlib.sha256(f"selection\0{name}".encode()).digest(), name


def _capped(ordered: Sequence[Attempt], most: int | None) -> list[Attempt]:
    taken: Counter[str] = Counter()
    kept = []
    for one in ordered:
        if most is None or taken[one.cluster] < most:
            taken[one.cluster] += 1
            kept.append(one)
    return kept
