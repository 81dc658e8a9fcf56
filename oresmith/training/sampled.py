"""Rollouts on the problems of the train pool, played by the harness and scored by the strict scorer.

They are published beside the step's output (data/.NAME.sampled/), where a run that is killed while it plays, or later
while it trains, finds them again: the same words are never paid for twice. The step's own output takes a copy.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from oresmith.arena.search import Searcher
from oresmith.arena.titles import Titling
from oresmith.blocks.atomic import load_manifest
from oresmith.errors import OresmithError
from oresmith.evaluation.evaluate import configuration_of, publish, run_digest, setup_of
from oresmith.evaluation.problems import Case, Chosen, problems_of_pool
from oresmith.evaluation.records import ROLLOUT_SCHEMA, Engine, Rollout
from oresmith.evaluation.scored import Scored, load_scores, open_rollouts, publish_scores, score_rollouts, told
from oresmith.evaluation.suite import cases_of_table
from oresmith.evaluation.writing import REQUESTS, read_rollouts
from oresmith.param_models import Rollout as Settings
from oresmith.records import Message, Trajectory
from oresmith.training.selection import Attempt

ROLLOUTS, SCORE = "rollouts", "score"
"""Directories of a step's output, in the form of the stages `rollout` and `score`."""


class Sampled(NamedTuple):
    """What was played."""

    attempts: list[Attempt]
    """By problem and sample."""
    scored: Scored
    left_out: dict[str, int]
    """Why -> problems of the pool that were not played."""
    cost: dict[str, int | None]
    """`requests`, `prompt_tokens`, `completion_tokens` of all rollouts, whichever run played them; null where the
    engine does not count."""


class Source(NamedTuple):
    """Where problems, shops and truth are."""

    data: Path
    """The pipeline's directory."""
    catalogue_of: Callable[[str], Path]
    """The product documents of a snapshot."""
    titling: Titling | None = None
    """The scorer's wish, as of the stage `score`."""
    workers: int = 1


def work_of(data: Path, step: str) -> Path:
    """Where the rollouts of a step are between runs, outside of what its output replaces."""
    return data / f".{step}.sampled"


@contextmanager
def main_first(main: bool, device: str) -> Iterator[None]:
    """In a distributed run the block of rank 0 goes first, however long it plays; the others wait for it.

    Args:
        main: whether this is rank 0.
        device: that is trained on, cpu or cuda.
    """
    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield
        return
    from accelerate import PartialState  # type: ignore[import-untyped]

    state = PartialState(cpu=device == "cpu", timeout=timedelta(days=7))
    if not main:
        state.wait_for_everyone()
    yield
    if main:
        state.wait_for_everyone()


def train_problems(source: Source, limit: int | None, left_out: Mapping[str, str] | None = None) -> Chosen:
    """The problems of the train pool, most `limit` of them by hash.

    Args:
        source: the pipeline's data.
        limit: most problems.
        left_out: names of problems that cannot be played -> why; they are counted and do not use up the limit.

    Raises:
        OresmithError: no pool, or nothing in it to play.
    """
    if not left_out:
        return problems_of_pool(source.data, "train", None, limit)
    chosen = problems_of_pool(source.data, "train", None, None)
    cases = [case for case in chosen.cases if case.name not in left_out]
    if not cases:
        why = ", ".join(f"{name} {count}" for name, count in sorted(Counter(left_out.values()).items()))
        raise OresmithError("there is no problem to play", where="the pool train", got=why)
    counts = Counter(chosen.left_out) + Counter(left_out.values())
    counts["limit"] = len(cases) - len(cases[:limit])
    return Chosen(cases[:limit], chosen.pool, {why: count for why, count in sorted(counts.items()) if count})


def sample(
    engine: Engine,
    chosen: Chosen,
    source: Source,
    work: Path,
    *,
    name: str,
    settings: Settings,
    observed: Path,
    quiet: bool = False,
) -> Sampled:
    """Play the problems and score what came of it; what an earlier run has finished is not played again.

    Args:
        engine: the model or teacher; the caller closes it.
        chosen: problems.
        source: where their shops and truth are.
        work: directory for the rollouts and their journal, outside of what the step's output replaces.
        name: of the model or teacher; part of the seeds.
        settings: how it plays.
        observed: file that takes the facts of the playing; left alone where nothing was played.
        quiet: without progress.

    Raises:
        OresmithError: the engine keeps failing (what was finished stays), or another run plays the same.
    """
    target = work / ROLLOUTS
    with ExitStack() as stack:
        shops = {
            shop: stack.enter_context(Searcher.open(source.data / "index" / shop / "catalogue"))
            for shop in sorted({case.shop for case in chosen.cases})
        }
        wanted = configuration_of(engine, chosen, shops, setup_of(engine, name, settings), settings)
        if _digest_of(target) != run_digest(wanted, chosen):
            publish(
                engine,
                chosen,
                shops,
                target,
                name=name,
                settings=settings,
                lock=ROLLOUTS,
                observed=observed,
                quiet=quiet,
            )
    scored = _score(target, source)
    publish_scores(scored, work / SCORE, lock=SCORE)
    return Sampled(_attempts(target, chosen, scored), scored, dict(chosen.left_out), _cost(target, scored))


def keep(work: Path, output: Path) -> None:
    """Copy rollouts and scores into a step's staged output.

    Args:
        work: as of `sample`.
        output: exists, and has neither.
    """
    for name in (ROLLOUTS, SCORE):
        shutil.copytree(work / name, output / name, copy_function=shutil.copyfile)


def load_attempts(folder: Path, source: Source) -> list[Attempt]:
    """Rollouts with their verdicts, for a later step or another process.

    Args:
        folder: output of `rejection` or `teacher`, or the directory that `sample` worked in.
        source: where the problems are.

    Raises:
        OresmithError: the step sampled nothing, or its output is not whole.
    """
    load_manifest(folder / ROLLOUTS, ROLLOUT_SCHEMA)
    scored = load_scores(folder / SCORE)
    cases, _ = cases_of_table(source.data / "cluster" / "problems.parquet", scored.table["problem"].to_list())
    return _attempts(folder / ROLLOUTS, Chosen(cases, "train", {}), scored)


def pass_report(scored: Scored) -> dict[str, Any]:
    """pass@k and pass^k of the sampled rollouts with intervals, and what went wrong in the others."""
    overall = scored.scores.overall
    report: dict[str, Any] = {
        "problems": overall.problems,
        "samples": scored.scores.samples,
        "rollouts": overall.rollouts,
        "pass_at": {str(one.k): told(one.pass_at) for one in overall.curve},
        "pass_all": {str(one.k): told(one.pass_all) for one in overall.curve},
        "failures": {name: rate.k for name, rate in overall.failures.items()},
        "ended": scored.scores.ended,
    }
    return report


def _score(target: Path, source: Source) -> Scored:
    return score_rollouts(
        open_rollouts(target),
        lambda names: cases_of_table(source.data / "cluster" / "problems.parquet", names),
        source.catalogue_of,
        titling=source.titling,
        workers=source.workers,
    )


def _digest_of(target: Path) -> str | None:
    """What the finished rollouts depend on; None where there are none."""
    try:
        load_manifest(target, ROLLOUT_SCHEMA)
        return next((one.provenance.run_id for one in read_rollouts(target)), None)
    except OresmithError:
        return None


def _cost(target: Path, scored: Scored) -> dict[str, int | None]:
    files = {entry["path"]: entry for entry in load_manifest(target, ROLLOUT_SCHEMA)["files"]}
    counted = {name: scored.table[name] for name in ("prompt_tokens", "completion_tokens")}
    return {"requests": files[REQUESTS]["rows"]} | {
        name: None if column.null_count() else int(column.sum()) for name, column in counted.items()
    }


def _attempts(target: Path, chosen: Chosen, scored: Scored) -> list[Attempt]:
    cases: dict[str, Case] = {case.name: case for case in chosen.cases}
    rows = scored.table.select("problem", "sample", "cluster", "success").iter_rows()
    verdicts = {(problem, number): (cluster, success) for problem, number, cluster, success in rows}
    found = []
    for trajectory in read_rollouts(target):
        rollout = rollout_of(trajectory)
        cluster, success = verdicts[rollout.problem, rollout.sample]
        found.append(Attempt(rollout, cases[rollout.problem].problem, cluster, success))
    return sorted(found, key=lambda one: (one.rollout.problem, one.rollout.sample))


def rollout_of(trajectory: Trajectory) -> Rollout:
    """The rollout that a row of `rollouts.jsonl.zst` was written from, its replies aside."""
    columns: dict[str, Any] = trajectory.extra["columns"]
    return Rollout(
        problem=columns["problem"],
        problem_id=trajectory.problem.problem_id,
        sample=columns["sample"],
        seed=columns["seed"],
        messages=[_own(message) for message in trajectory.messages],
        results=[call["result"] for call in columns["calls"]],
        ended=columns["finish"],
        malformed=columns["malformed"],
    )


def _own(message: Message) -> Message:
    """A message without the ids that reading kept as another source's: they are ours."""
    return replace(message, tool_calls=[replace(call, original_id=None) for call in message.tool_calls])
