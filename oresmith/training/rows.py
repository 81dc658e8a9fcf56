"""The rows of a training step, from the corpus and from rollouts; their types stand in `rowset`.

A corpus is trained on only where its certificate holds (`check_certificate`).
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from oresmith.blocks.atomic import load_manifest
from oresmith.errors import OresmithError
from oresmith.evaluation.engines.model import messages_of
from oresmith.evaluation.records import Rollout
from oresmith.evaluation.shown_messages import shown_messages
from oresmith.models.checks import RenderingReport
from oresmith.models.rendering import Chat
from oresmith.training.rowset import (
    Origin,
    RowSet,
    Talk,
    TrainingRow,
    combined,
    rendered_rows,
    row_set,
    rows_sha256,
    talk_rows,
)
from schemas.corpus import CORPUS_SCHEMA

__all__ = [
    "Origin",
    "ProblemFacts",
    "RowSet",
    "Split",
    "Talk",
    "TrainingRow",
    "check_certificate",
    "combined",
    "corpus_rows",
    "problem_facts",
    "rollout_rows",
    "rows_sha256",
    "talk_rows",
]

Split = Literal["train", "validation"]
POOLS: dict[Split, str] = {"train": "train", "validation": "dev"}
"""Split of `sft` -> split of `trajectories` that says which problem its rows are about."""
FINISHED = frozenset({"terminated", "stopped", "turns", "malformed"})
"""Ends of a rollout whose every reply is whole: a reply that was cut off must not be given an end token."""
_Show = Callable[..., list[dict[str, Any]]]
"""`shown_messages` under the settings of a run."""
_WAVE = 64
_BATCH = 64


class ProblemFacts(NamedTuple):
    """What a training row says of its problem."""

    cluster: str
    category: str


def corpus_rows(
    corpus: Path,
    chat: Chat,
    *,
    split: Split = "train",
    view: str,
    prompt: str,
    replace_prompts: bool = False,
    max_tokens: int | None,
    max_rows: int | None = None,
    min_rows: int = 1,
) -> RowSet:
    """Rows of the corpus' `sft` config.

    Args:
        corpus: directory of the stage `corpus`.
        chat: of the model that is trained.
        split: of `sft`.
        view: how results of tools are shown, as in "compare/1".
        prompt: version of the system prompt of conversations that log none.
        replace_prompts: show it in place of a logged one, too.
        max_tokens: longest row; longer ones are counted rejects. None for no limit.
        max_rows: most conversations of which any row is kept: one of each problem, then another of each, in an order
            decided by hash, so that a smaller set lies in a larger one. None takes all.
        min_rows: fewer rows are refused.

    Raises:
        OresmithError: no corpus, one of another version or that does not fit together, or too few rows.
    """
    load_manifest(corpus, CORPUS_SCHEMA)
    facts = _facts(corpus, split)
    show = partial(shown_messages, view=view, prompt=prompt, replace=replace_prompts)
    order = _spread(facts)
    kept: list[tuple[Talk, list[TrainingRow]]] = []
    report = RenderingReport()
    seen = full = 0
    while seen < len(order) and full != max_rows:
        missing = len(order) if max_rows is None else max(2 * (max_rows - full), _WAVE)
        wave = order[seen : seen + missing]
        wanted = {name: facts[name] for name in wave}
        read = {talk.row_id: talk for talk in _talks(corpus, split, wanted, show)}
        for name in wave:
            if full == max_rows:
                break
            if name not in read:
                raise _torn(corpus, f"row {name} of sft/{split} is gone")
            seen += 1
            found = rendered_rows(read[name], chat, max_tokens, report)
            full += bool(found)
            kept.append((read[name], found))
    left_out = {"limit": len(order) - seen} if seen < len(order) else {}
    return row_set(kept, report, left_out, chat, min_rows=min_rows, where=f"{corpus}: sft/{split}")


def rollout_rows(
    rollouts: Iterable[Rollout],
    chat: Chat,
    *,
    tools: list[dict[str, Any]],
    facts: Mapping[str, ProblemFacts],
    origin: Origin = "rollout",
    max_tokens: int | None,
    min_rows: int = 1,
    where: str = "",
) -> RowSet:
    """Rows of rollouts, as their models were shown them.

    Rollouts with a reply that was cut off or failed are left out, those with a malformed reply are rejects; both are
    counted.

    Args:
        rollouts: in the order of the rows.
        chat: of the model that is trained.
        tools: definitions that the rollouts' model was given.
        facts: by problem (`problem_facts`).
        origin: of the rows.
        max_tokens: as in `corpus_rows`.
        min_rows: fewer rows are refused.
        where: what a refusal names.

    Raises:
        OresmithError: too few rows, or a problem without facts.
    """
    left_out: Counter[str] = Counter()

    def talks() -> Iterator[Talk]:
        for rollout in rollouts:
            if rollout.ended not in FINISHED:
                left_out["unfinished"] += 1
                continue
            known = facts.get(rollout.problem)
            if known is None:
                raise OresmithError(
                    "a rollout is of a problem that is not in the pipeline",
                    where=where,
                    got=rollout.problem[:80],
                    todo="run `dvc repro`",
                )
            yield Talk(
                row_id=f"{origin}:{rollout.problem}:{rollout.sample}",
                messages=messages_of(rollout.messages),
                tools=tools,
                origin=origin,
                problem=rollout.problem,
                cluster=known.cluster,
                category=known.category,
            )

    found = list(talks())
    return talk_rows(found, chat, max_tokens=max_tokens, min_rows=min_rows, where=where, left_out=left_out)


def problem_facts(data: Path) -> dict[str, ProblemFacts]:
    """Cluster and category of every problem of the pipeline, by name.

    Raises:
        OresmithError: no clusters.
    """
    path = data / "cluster" / "problems.parquet"
    try:
        table = pq.read_table(path, columns=["problem", "cluster", "category"])
    except (OSError, pa.ArrowException) as error:
        raise OresmithError(
            "the problems cannot be read", where=str(path), got=str(error)[:200], todo="run `dvc repro`"
        ) from error
    return {
        row["problem"]: ProblemFacts(row["cluster"] or row["problem"], row["category"] or "")
        for row in table.to_pylist()
    }


def check_certificate(audit: Path, corpus: Path) -> str:
    """Refuse a corpus whose certificate fails (`oresmith verify`); returns the certificate's sha256, hex.

    Args:
        audit: directory of the stage `audit`.
        corpus: that of the stage `corpus`.

    Raises:
        OresmithError: with the first failures.
    """
    from oresmith.audit.certificate import CERTIFICATE_FILE, sha256_of
    from oresmith.audit.verify import verify_folder

    told: list[str] = []
    if not verify_folder(audit, corpus, told.append):
        failed = [line for line in told if line.startswith("FAIL")]
        raise OresmithError(
            "the corpus' certificate fails, so nothing is trained on it",
            where=str(audit),
            got="; ".join(failed[:3])[:600],
            todo="run `dvc repro audit`, and `oresmith verify` for the whole list",
        )
    return sha256_of(audit / CERTIFICATE_FILE)


def _facts(corpus: Path, split: Split) -> dict[str, dict[str, Any]]:
    """Row id of `sft` -> what `trajectories` says of it."""
    columns = ["row_id", "problem", "cluster", "category", "system_prompt"]
    known = {row["row_id"]: row for row in _read(corpus, "trajectories", POOLS[split], columns)}
    names = [row["row_id"] for row in _read(corpus, "sft", split, ["row_id"])]
    strange = [name for name in names if name not in known]
    if strange:
        raise _torn(corpus, f"{len(strange)} rows of sft/{split} are not in trajectories, such as {strange[0]}")
    return {name: known[name] for name in names}


def _talks(
    corpus: Path, split: Split, wanted: Mapping[str, dict[str, Any]], show: Callable[..., list[dict[str, Any]]]
) -> Iterator[Talk]:
    for row in _read(corpus, "sft", split, ["row_id", "messages", "tools"]):
        fact = wanted.get(row["row_id"])
        if fact is not None:
            messages = [msgspec.json.decode(message) for message in row["messages"]]
            yield Talk(
                row_id=row["row_id"],
                messages=show(messages, logged=fact["system_prompt"] == "logged"),
                tools=msgspec.json.decode(row["tools"]),
                problem=fact["problem"] or "",
                cluster=fact["cluster"] or "",
                category=fact["category"] or "",
            )


def _read(corpus: Path, config: str, split: str, columns: list[str]) -> Iterator[dict[str, Any]]:
    for path in sorted((corpus / config).glob(f"{split}-*.parquet")):
        try:
            for batch in pq.ParquetFile(path).iter_batches(batch_size=_BATCH, columns=columns):
                yield from batch.to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise _torn(path, str(error)[:200]) from error


def _torn(where: Path, got: str) -> OresmithError:
    return OresmithError("the corpus does not fit together", where=str(where), got=got, todo="run `dvc repro corpus`")


def _spread(facts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Row ids: one of each problem, then another of each; problems and rows by hash."""
    of_problem: dict[str, list[str]] = defaultdict(list)
    for name in sorted(facts, key=_order):
        of_problem[facts[name]["problem"] or name].append(name)
    rounds = zip_longest(*(of_problem[problem] for problem in sorted(of_problem, key=_order)))
    return [name for one in rounds for name in one if name is not None]


def _order(name: str) -> tuple[bytes, str]:
    return hashlib.sha256(f"training\0{name}".encode()).digest(), name
