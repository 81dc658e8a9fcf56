"""Plays problems: k samples each, as many at once as the engine's batch holds, every finished one on disk at once.

An episode that ends makes room for the next in the same batch. Seeds come from names (model, problem, sample, turn), so
what else is in the batch changes none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from time import perf_counter

from oresmith.arena.tools import Toolbox
from oresmith.errors import OresmithError
from oresmith.evaluation.episode import Episode, Setup
from oresmith.evaluation.journal import Journal
from oresmith.evaluation.problems import Case
from oresmith.evaluation.records import ChatReply, ChatRequest, Engine
from oresmith.records import Record

HARNESS = "oresmith.harness/1"
"""Name and version of how episodes are played; a change that can change a rollout changes the version."""
FAULTS = 3
"""Problems in a row that the engine may fail at before the run stops: it is then the engine, not a problem."""


class Tally(Record, frozen=True):
    """What a run did; observed facts, of this run alone."""

    samples: int
    """All that the output will hold."""
    resumed: int
    """Of these, finished by an earlier run."""
    turns: int = 0
    prompt_tokens: int = 0
    """As far as the engine counts them."""
    completion_tokens: int = 0
    engine_seconds: float = 0.0


def play(
    engine: Engine,
    cases: Sequence[Case],
    samples: int,
    *,
    setup: Setup,
    toolboxes: Mapping[str, Toolbox],
    journal: Journal,
    batch: int,
    watch: Callable[[Tally, int], None] = lambda tally, done: None,
) -> Tally:
    """Play what the journal lacks.

    Args:
        engine: writes the turns.
        cases: problems, in the order of play.
        samples: of each problem.
        setup: what all episodes share.
        toolboxes: the tools, by the shops of the cases.
        journal: takes each finished sample.
        batch: episodes that live at the same time.
        watch: called after every round with the tally and the number of finished samples.

    Raises:
        OresmithError: the engine fails at one problem after the other, or does not keep to its contract. What was
            finished stays in the journal.
    """
    tally = Tally(samples=len(cases) * samples, resumed=len(journal.found))
    waiting = _missing(cases, samples, setup, toolboxes, journal)
    faults = _Faults(len(cases))
    done, live = tally.resumed, list(islice(waiting, batch))
    watch(tally, done)
    while live:
        requests = [episode.request() for episode in live]
        began = perf_counter()
        replies = engine.chat(requests, setup.sampling)
        tally = _counted(tally, replies, perf_counter() - began)
        _check(engine, requests, replies)
        for episode, reply in zip(live, replies, strict=True):
            episode.take(reply)
            if episode.ended is not None:
                journal.add(episode.rollout())
                done += 1
        faults.note([episode.case.name for episode in live], replies)
        watch(tally, done)
        live = [episode for episode in live if episode.ended is None]
        live += islice(waiting, batch - len(live))
    return tally


class _Faults:
    """Tells an engine that is down from a problem that it cannot take."""

    def __init__(self, problems: int) -> None:
        self._most = min(FAULTS, problems)
        self._failed: set[str] = set()

    def note(self, problems: Sequence[str], replies: Sequence[ChatReply]) -> None:
        """Take the replies of a round, in whatever order they were written.

        An engine that dies within a round has answered some of it: only a round of which most is answered shows that
        the engine is there.
        """
        failed = {problem: reply for problem, reply in zip(problems, replies, strict=True) if reply.finish == "error"}
        if 2 * len(failed) < len(replies):
            self._failed.clear()
            return
        self._failed.update(failed)
        if len(self._failed) >= self._most:
            raise OresmithError(
                "the engine fails at one problem after the other",
                got=(next(iter(failed.values())).error or "no reason")[:300],
                todo="mend it and run the same command again: finished samples are kept",
            )


def _missing(
    cases: Sequence[Case], samples: int, setup: Setup, toolboxes: Mapping[str, Toolbox], journal: Journal
) -> Iterator[Episode]:
    for case in cases:
        for sample in range(samples):
            if (case.name, sample) not in journal.found:
                yield Episode(case, sample, setup, toolboxes[case.shop])


def _counted(tally: Tally, replies: Sequence[ChatReply], seconds: float) -> Tally:
    return Tally(
        samples=tally.samples,
        resumed=tally.resumed,
        turns=tally.turns + len(replies),
        prompt_tokens=tally.prompt_tokens + sum(reply.prompt_tokens or 0 for reply in replies),
        completion_tokens=tally.completion_tokens + sum(reply.completion_tokens or 0 for reply in replies),
        engine_seconds=tally.engine_seconds + seconds,
    )


def _check(engine: Engine, requests: Sequence[ChatRequest], replies: Sequence[ChatReply]) -> None:
    asked, answered = [one.key for one in requests], [one.key for one in replies]
    if asked != answered:
        raise OresmithError(
            "the engine does not answer what it was asked",
            where=engine.name,
            expected="one reply a request, in their order",
            got=f"{len(answered)} replies to {len(asked)} requests",
        )
