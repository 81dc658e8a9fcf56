"""The rows of KTO: trajectories with their strict outcome, of the corpus or of the rollouts that rejection sampled."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl

from oresmith.arena.toolschema import tools
from oresmith.blocks.atomic import load_manifest
from oresmith.errors import OresmithError
from oresmith.evaluation.shown_messages import shown_messages
from oresmith.models.checks import RenderingReport
from oresmith.models.rendering import Chat
from oresmith.training.leaks import without_leaks
from oresmith.training.rows import problem_facts, rollout_rows
from oresmith.training.rowset import RowSet, Talk, TrainingRow, rendered_rows, row_set
from oresmith.training.selection import Attempt
from schemas.corpus import CORPUS_SCHEMA

_WAVE = 64


class KtoRows(NamedTuple):
    """Rows with what came of their trajectories."""

    rows: RowSet
    success: dict[str, bool]
    """By row id: whether the strict scorer calls the trajectory a success. Per-turn rows share it."""

    def labels(self) -> list[bool]:
        """Of each row, in order: True for a success."""
        return [self.success[row.row_id] for row in self.rows.rows]


class Trajectory(NamedTuple):
    """What chooses among trajectories."""

    row_id: str
    problem: str
    success: bool


def corpus_kto_rows(
    data: Path,
    chat: Chat,
    *,
    view: str,
    prompt: str,
    replace_prompts: bool = False,
    max_tokens: int | None,
    max_rows: int | None = None,
    min_rows: int = 1,
) -> KtoRows:
    """Rows of the train split of the corpus' `kto` config.

    Args:
        data: the pipeline's directory: reads corpus/ and cluster/.
        chat: of the model that is trained.
        view: how results of tools are shown, as in "compare/1".
        prompt: version of the system prompt of trajectories that log none.
        replace_prompts: show it in place of a logged one, too.
        max_tokens: longest row; longer ones are counted rejects. None for no limit.
        max_rows: most trajectories of which any row is kept, as `balanced` orders them. None takes all.
        min_rows: fewer rows are refused.

    Raises:
        OresmithError: no corpus, or one that does not fit together; too few rows.
    """
    corpus = data / "corpus"
    load_manifest(corpus, CORPUS_SCHEMA)
    known = _trajectories(data)
    facts = problem_facts(data)
    order = balanced(known.values())
    kept: list[tuple[Talk, list[TrainingRow]]] = []
    report = RenderingReport()
    seen = full = 0
    while seen < len(order) and full != max_rows:
        missing = len(order) if max_rows is None else max(2 * (max_rows - full), _WAVE)
        read = _messages(corpus, order[seen : seen + missing])
        for row_id in order[seen : seen + missing]:
            if full == max_rows:
                break
            problem = known[row_id].problem
            if problem not in facts:
                raise _torn(data, f"the problem {problem[:80]} of a trajectory is not in cluster/problems.parquet")
            messages, offered = read[row_id]
            logged = messages[:1] != [] and messages[0].get("role") == "system"
            talk = Talk(
                row_id=row_id,
                messages=shown_messages(messages, view, prompt, logged=logged, replace=replace_prompts),
                tools=offered,
                problem=problem,
                cluster=facts[problem].cluster,
                category=facts[problem].category,
            )
            seen += 1
            found = rendered_rows(talk, chat, max_tokens, report)
            full += bool(found)
            kept.append((talk, found))
    left_out = {"limit": len(order) - seen} if seen < len(order) else {}
    rows = row_set(kept, report, left_out, chat, min_rows=min_rows, where=f"{corpus}: kto/train")
    return KtoRows(rows, {row_id: one.success for row_id, one in known.items()})


def sampled_kto_rows(
    attempts: Sequence[Attempt],
    data: Path,
    chat: Chat,
    *,
    max_tokens: int | None,
    max_rows: int | None = None,
    min_rows: int = 1,
) -> KtoRows:
    """Rows of the rollouts that rejection sampled, failures too, as their model was shown them.

    Args:
        attempts: rollouts with verdicts (`sampled.load_attempts`).
        data: the pipeline's directory.
        chat: of the model that is trained.
        max_tokens: as in `corpus_kto_rows`.
        max_rows: most rollouts, as `balanced` orders them, those that give no row included. None takes all.
        min_rows: fewer rows are refused.

    Raises:
        OresmithError: too few rows, or a problem that is not in the pipeline.
    """
    names = {_name(one): one for one in attempts}
    order = balanced(Trajectory(name, one.rollout.problem, one.success) for name, one in names.items())[:max_rows]
    rows = rollout_rows(
        [names[name].rollout for name in order],
        chat,
        tools=tools(),
        facts=problem_facts(data),
        max_tokens=max_tokens,
        min_rows=min_rows,
        where=f"{data}: rejection",
    )
    if len(order) < len(names):
        rows.left_out |= {"limit": len(names) - len(order)}
    # A policy that fails may name what is held out; the corpus has been through its own guard.
    return KtoRows(without_leaks(rows, data), {name: names[name].success for name in order})


def balanced(found: Iterable[Trajectory]) -> list[str]:
    """Row ids in the order in which a limit takes them: a success, a failure, and so on while there are both.

    Within a class one of each problem comes before a second of any; problems and rows by hash. So a smaller set lies
    in a larger one.
    """
    of_class: dict[bool, list[Trajectory]] = {True: [], False: []}
    for one in sorted(found, key=lambda one: _order(one.row_id)):
        of_class[one.success].append(one)
    rounds = zip_longest(*(_spread(of_class[success]) for success in (True, False)))
    return [name for both in rounds for name in both if name is not None]


def _spread(found: Sequence[Trajectory]) -> list[str]:
    of_problem: dict[str, list[str]] = defaultdict(list)
    for one in found:
        of_problem[one.problem].append(one.row_id)
    rounds = zip_longest(*(of_problem[problem] for problem in sorted(of_problem, key=_order)))
    return [name for one in rounds for name in one if name is not None]


def _trajectories(data: Path) -> dict[str, Trajectory]:
    """Row id -> trajectory, of all rows of kto/train."""
    table = _read(sorted((data / "corpus" / "kto").glob("train-*.parquet")), ["row_id", "label"])
    attempts = _read([data / "cluster" / "attempts.parquet"], ["trajectory_id", "problem"])
    problems: dict[str, str | None] = dict(attempts.iter_rows())
    found = {}
    for row_id, label in table.iter_rows():
        problem = problems.get(row_id)
        if problem is None or row_id in found:
            raise _torn(data / "corpus", f"row {row_id[:80]} of kto/train has no problem, or is there twice")
        found[row_id] = Trajectory(row_id, problem, label)
    return found


def _messages(corpus: Path, wanted: Sequence[str]) -> dict[str, tuple[list[dict[str, Any]], list[Any]]]:
    """Row id -> messages and tools, decoded."""
    found = {}
    for row in _rows(corpus, wanted):
        said = [msgspec.json.decode(message) for message in (*row["prompt"], *row["completion"])]
        found[row["row_id"]] = said, msgspec.json.decode(row["tools"])
    if len(found) != len(wanted):
        raise _torn(corpus, "rows of kto/train are gone")
    return found


def _rows(corpus: Path, wanted: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    for path in sorted((corpus / "kto").glob("train-*.parquet")):
        table = _read([path], ["row_id", "prompt", "completion", "tools"])
        yield from table.filter(pl.col("row_id").is_in(wanted)).iter_rows(named=True)


def _read(paths: Sequence[Path], columns: list[str]) -> pl.DataFrame:
    try:
        return pl.concat([pl.read_parquet(path, columns=columns) for path in paths])
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        where = str(paths[0] if paths else "data/corpus/kto")
        raise OresmithError("cannot be read", where=where, got=str(error)[:200], todo="run `dvc repro`") from error


def _torn(where: Path, got: str) -> OresmithError:
    return OresmithError("corpus and clusters do not fit together", where=str(where), got=got, todo="run `dvc repro`")


def _name(one: Attempt) -> str:
    """The row id that `rollout_rows` gives."""
    return f"rollout:{one.rollout.problem}:{one.rollout.sample}"


def _order(name: str) -> tuple[bytes, str]:
    return hashlib.sha256(f"training\0{name}".encode()).digest(), name
