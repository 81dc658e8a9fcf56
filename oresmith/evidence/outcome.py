"""The outcome of a trajectory: re-scored where problem and catalogue are at hand, else the source's word, marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from oresmith.arena.catalogue import Catalogue, Product, load_catalogue
from oresmith.arena.problems import ProblemIndex, gold_ids, load_problems
from oresmith.arena.scoring import ScoreError, TitleRule, score_envelope, scorer_name
from oresmith.arena.titles import Titling, title_rule
from oresmith.errors import OresmithError
from oresmith.records import Problem, Record, Trajectory
from oresmith.traces import dialogue_of
from oresmith.traces.final import final_ids


class OutcomeEvidence(Record, frozen=True):
    """What is known of a trajectory's success."""

    outcome: str
    """success, failure or unknown."""
    source: str
    """rescored (by our scorer), source (the source's own word) or none."""
    scorer: str | None = None
    score: Any = None
    """The score dict of our scorer, or the source's score verbatim."""
    error: str | None = None
    """Why our scorer could not score it."""
    unresolved: int | None = None
    """Recommended ids that the catalogue does not hold; None without a catalogue."""


class World:
    """The problems and products that a set of trajectories is scored with."""

    def __init__(
        self, problems: ProblemIndex, products: Mapping[str, Product] | None, titles: TitleRule | None = None
    ) -> None:
        self.problems, self.products, self.titles = problems, products, titles

    @property
    def scorer(self) -> str:
        """Name of our scorer, with the model that compares titles where one does."""
        return scorer_name(self.titles)

    def problem_of(self, trajectory: Trajectory) -> Problem:
        """The trajectory's problem with everything the problem file knows of it, else as the trace states it."""
        own = trajectory.problem
        return self.problems.find(own.problem_id, own.query) or own

    def __deepcopy__(self, memo: object) -> World:
        """Shared, not copied: executors copy a pipeline for each task, and nothing here ever changes."""
        return self


NOTHING_KNOWN = World(ProblemIndex(), None)


class Wanted:
    """What a set of trajectories needs of problems and catalogue; small beside the trajectories themselves."""

    def __init__(self) -> None:
        self.attempts: set[tuple[str | None, str | None]] = set()
        self.ids: set[str] = set()
        self.titles: set[str] = set()
        """Of rewards that the trajectories themselves state."""

    def add(self, trajectory: Trajectory) -> None:
        """Note one trajectory's problem and recommended ids."""
        self.attempts.add((trajectory.problem.problem_id, trajectory.problem.query))
        self.ids.update(final_ids(trajectory))
        self.titles.update(reward_titles(trajectory.problem))


def load_world(
    problems: str | Path | None, catalogue: str | Path | None, wanted: Wanted, titling: Titling | None = None
) -> World:
    """Load the problems and, of the catalogue, only the products that the trajectories can be scored with.

    Args:
        problems: path of a problem file, or None.
        catalogue: path of a catalogue, or None.
        wanted: what the trajectories need; a catalogue of millions then costs no more memory than they do.
        titling: the wish for title similarity; the titles are encoded here, once.

    Raises:
        OresmithError: a model that is not installed, before any file is read; an unreadable file, or a catalogue that
            lacks a gold product of a problem that is attempted.
    """
    encode = titling.encoder() if titling else None
    if problems is None:
        return NOTHING_KNOWN
    index = load_problems(problems)
    if catalogue is None:
        return World(index, None)
    golds: dict[str, str] = {}
    attempted: list[Problem] = []
    for problem_id, query in sorted(wanted.attempts, key=str):
        problem = index.find(problem_id, query)
        if problem is not None and problem.category != "web":
            attempted.append(problem)
            golds.update(dict.fromkeys(gold_ids(problem), problem.problem_id or problem.query or ""))
    products = load_catalogue(catalogue, only=wanted.ids | golds.keys())
    check_golds(products, golds, str(catalogue))
    if titling is None or encode is None:
        return World(index, products)
    # All titles that scoring can compare: those that rewards accept, and those of recommended products.
    titles = wanted.titles.union(*map(reward_titles, attempted))
    offered = (products[one].title for one in wanted.ids if one in products)
    titles.update(title for title in offered if isinstance(title, str))
    return World(index, products, title_rule(titling, encode, titles))


def reward_titles(problem: Problem) -> Iterator[str]:
    """The titles that a problem's rewards accept; nothing of one that is malformed."""
    for reward in problem.reward if isinstance(problem.reward, list) else [problem.reward]:
        stated = reward.get("title") if isinstance(reward, dict) else None
        yield from (title for title in (stated if isinstance(stated, list) else []) if isinstance(title, str))


def check_golds(products: Catalogue, golds: Mapping[str, str], where: str) -> None:
    """Refuse a catalogue that lacks gold products: every attempt at such a problem would wrongly fail.

    Args:
        products: what was loaded.
        golds: gold product id -> problem it belongs to.
        where: the catalogue's path, for the message.
    """
    missing = products.missing(golds)
    if missing:
        raise OresmithError(
            "the catalogue lacks gold products of attempted problems",
            where=where,
            expected=f"all {len(golds)} gold ids",
            got=f"{len(missing)} missing, first {missing[0][:40]} of problem {golds[missing[0]][:80]}",
            todo="give the catalogue that the problems were made from",
        )


def outcome(trajectory: Trajectory, world: World) -> OutcomeEvidence:
    """Score one trajectory.

    Where the problem has a reward and a catalogue is given, our scorer decides. An attempt without any step is a
    failure (nothing was recommended); one that the scorer cannot judge is unknown, with the reason. Otherwise the
    source's own word stands, marked as such.
    """
    problem = world.problem_of(trajectory)
    if world.products is None or problem.reward is None or problem.category == "web":
        return _by_source(trajectory)
    dialogue = dialogue_of(trajectory)
    products = world.products
    if not dialogue:
        return OutcomeEvidence(outcome="failure", source="rescored", scorer=world.scorer, error="no dialogue")
    unresolved = sum(product_id not in products for product_id in final_ids(trajectory))
    try:
        result = score_envelope(problem, dialogue, products, world.titles)
    except ScoreError as error:
        return OutcomeEvidence(
            outcome="unknown", source="rescored", scorer=world.scorer, error=error.what, unresolved=unresolved
        )
    return OutcomeEvidence(
        outcome="success" if result.success else "failure",
        source="rescored",
        scorer=result.scorer,
        score=result.score,
        unresolved=unresolved,
    )


def _by_source(trajectory: Trajectory) -> OutcomeEvidence:
    stated = trajectory.outcome
    if stated is None or stated.success is None:
        return OutcomeEvidence(outcome="unknown", source="none")
    return OutcomeEvidence(
        outcome="success" if stated.success else "failure",
        source="source",
        scorer=stated.scorer,
        score=stated.score,
    )


def score_text(evidence: OutcomeEvidence) -> str | None:
    """The score as JSON text for the evidence table."""
    return None if evidence.score is None else msgspec.json.encode(evidence.score).decode()
