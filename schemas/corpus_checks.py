"""Contracts of the values in the corpus, config by config. Version 1.

schemas/corpus.py fixes the columns and types of the files; the models here state what must be true of the values. They
are strict: no column more, none less. Beside a file's own columns they ask for facts that `oresmith.validation.facts`
derives from texts of the same rows (`Derived`), since a column's check cannot look into a dialogue.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import pandera.polars as pap
import polars as pl

from oresmith.errors import OresmithError
from oresmith.records import Format
from schemas.check import check_table, holds
from schemas.corpus import CORPUS_SCHEMA

HASH = r"^[0-9a-f]{64}$"
NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"
KEYED = r"^[0-9a-f]{16,128}$"
DATE = r"^\d{4}-\d{2}-\d{2}$"
PUBLISHED = r"^(train|dev|benchmark:[A-Za-z0-9._+-]+)$"
CATEGORIES = ["product", "shop", "voucher", "web"]

Texts = Annotated[pl.List, pl.String()]
Ints = Annotated[pl.List, pl.Int64()]
Check = pl.LazyFrame


def hashed(**more: Any) -> Any:
    """A column of sha256 hashes in hex."""
    return pap.Field(str_matches=HASH, **more)


def sound() -> Any:
    """A derived column that names a fault; "" where there is none."""
    return pap.Field(isin=[""])


class Strict(pap.DataFrameModel):
    """Base of all: these columns and no other, values as they are."""

    class Config:
        """Nothing is coerced."""

        strict = True
        coerce = False


class Derived(Strict):
    """What is derived from the texts of each row."""

    dialogue: str = sound()
    """Fault of the messages or of the prompt (`oresmith.validation.dialogue.FAULTS`)."""
    json_fault: str = sound()
    """Name of a column whose JSON text is none."""
    too_long: bool = pap.Field(eq=False)
    """Longer than `corpus.max_row_bytes`."""
    digest: str
    """Names the dialogue."""


class AttemptRow(Derived):
    """Each row is a sound dialogue with one recommendation, known labels, a licence and a pool that is published."""

    row_id: str = hashed()
    snapshot: str = pap.Field(str_matches=NAME)
    file: str = pap.Field(str_length={"min_value": 1})
    line: int = pap.Field(ge=1)
    problem: str = hashed()
    problem_id: str = pap.Field(nullable=True)
    cluster: str = hashed()
    pool: str = pap.Field(str_matches=PUBLISHED)
    category: str = pap.Field(nullable=True, isin=CATEGORIES)
    query: str = pap.Field(nullable=True)
    benchmark_flag: bool
    benchmarks: Texts
    messages: Texts
    tools: str
    system_prompt: str = pap.Field(isin=["logged", "none_logged"])
    original_call_ids: Texts
    copied_context: Ints
    no_model: Ints
    outcome: str = pap.Field(isin=["success", "failure", "unknown"])
    outcome_source: str = pap.Field(isin=["rescored", "source", "none"])
    scorer: str = pap.Field(nullable=True)
    score: str = pap.Field(nullable=True)
    origin: str = pap.Field(isin=["A", "B", "unknown"])
    origin_votes: Texts
    recommend_origin: str = pap.Field(nullable=True, isin=["model_emitted", "not_found", "unknown"])
    provenance_class: str = pap.Field(isin=["server-verified", "runtime-written", "agent-written", "absent"])
    judge_status: str = pap.Field(isin=["judged", "missing", "failed"])
    judge_quality: float = pap.Field(nullable=True, ge=0, le=1)
    judge_era: str = pap.Field(isin=["none", "unbinned", "binned", "unknown"])
    tokens: int = pap.Field(nullable=True, ge=1)
    tokenizer: str = pap.Field(nullable=True)
    n_steps: int = pap.Field(ge=1)
    n_calls: int = pap.Field(ge=1)
    depth: int = pap.Field(nullable=True, ge=0)
    reformulations: int = pap.Field(nullable=True, ge=0)
    verified_before_recommend: bool = pap.Field(nullable=True)
    max_repeat: int = pap.Field(nullable=True, ge=0)
    viewed_heldout_gold: bool
    agent_version: str = pap.Field(nullable=True)
    run_id: str = pap.Field(nullable=True)
    validator: str = pap.Field(nullable=True)
    miner: str = pap.Field(nullable=True, str_matches=KEYED)
    race_id: str = pap.Field(nullable=True)
    runtime: str = pap.Field(nullable=True)
    format: str = pap.Field(isin=[known.value for known in Format])
    licence: str = pap.Field(str_length={"min_value": 1})
    rank: int = pap.Field(ge=1)
    schema_: str = pap.Field(eq=CORPUS_SCHEMA, alias="schema")
    tools_fault: str = sound()
    recommends: int = pap.Field(eq=1)
    calls: int = pap.Field(ge=1)
    """Calls in the messages."""

    @pap.dataframe_check
    @classmethod
    def one_id_a_call(cls, data: pap.PolarsData) -> Check:
        """The source's call ids are listed for each call, null where it had none."""
        ids = pl.col("original_call_ids").list.len()
        return holds(data, (ids == pl.col("calls")) & (pl.col("n_calls") == pl.col("calls")))

    @pap.dataframe_check
    @classmethod
    def masks_point_at_messages(cls, data: pap.PolarsData) -> Check:
        """Message numbers that must not be trained on are numbers of messages."""
        last = pl.col("messages").list.len().cast(pl.Int64)
        inside = [
            (pl.col(name).list.max().fill_null(-1) < last) & (pl.col(name).list.min().fill_null(0) >= 0)
            for name in ("copied_context", "no_model")
        ]
        return holds(data, inside[0] & inside[1])

    @pap.dataframe_check
    @classmethod
    def benchmarks_are_flagged(cls, data: pap.PolarsData) -> Check:
        """A row of a benchmark's problem says so."""
        named = pl.col("benchmarks").list.len() > 0
        pooled = pl.col("pool").str.starts_with("benchmark:")
        return holds(data, (pl.col("benchmark_flag") == named) & (named | ~pooled))

    @pap.dataframe_check
    @classmethod
    def judged_rows_have_a_score(cls, data: pap.PolarsData) -> Check:
        """A score that is missing or failed is null, never 0."""
        return holds(data, (pl.col("judge_status") == "judged") == pl.col("judge_quality").is_not_null())

    @pap.dataframe_check
    @classmethod
    def counted_tokens_name_their_tokenizer(cls, data: pap.PolarsData) -> Check:
        """A number of tokens means nothing without the tokenizer."""
        return holds(data, pl.col("tokens").is_null() | pl.col("tokenizer").is_not_null())


class SubtaskRow(AttemptRow):
    """As a row of `trajectories`, but a program made the calls (origin B)."""

    origin: str = pap.Field(eq="B")


class SftRow(Derived):
    """Each row is a sound dialogue with one recommendation, ready for a chat template."""

    row_id: str = hashed()
    messages: Texts
    tools: str
    tools_fault: str = sound()
    recommends: int = pap.Field(eq=1)
    calls: int = pap.Field(ge=1)


class KtoRow(Derived):
    """Each row is a sound dialogue with one recommendation and a label, cut where the model begins to answer."""

    row_id: str = hashed()
    prompt: Texts
    completion: Texts
    label: bool
    tools: str
    tools_fault: str = sound()
    recommends: int = pap.Field(eq=1)
    calls: int = pap.Field(ge=1)
    asks: str = sound()
    """Fault of the cut: the prompt holds the user's words and none of the model, the completion begins with them."""


class ProblemRow(Derived):
    """A problem as it may be known before it is solved."""

    problem: str = hashed()
    problem_id: str = pap.Field(nullable=True)
    snapshot: str = pap.Field(str_matches=NAME)
    cluster: str = hashed()
    category: str = pap.Field(nullable=True, isin=CATEGORIES)
    difficulty: str = pap.Field(nullable=True)
    prompt: Texts
    query: str = pap.Field(nullable=True)
    benchmarks: Texts
    asks: str = sound()


class GrpoRow(ProblemRow):
    """Each problem is asked with its own query and nothing else, and has a reward."""

    benchmark_flag: bool
    reward: str
    voucher: str = pap.Field(nullable=True)

    @pap.dataframe_check
    @classmethod
    def benchmarks_are_flagged(cls, data: pap.PolarsData) -> Check:
        """A benchmark's problem says so."""
        return holds(data, pl.col("benchmark_flag") == (pl.col("benchmarks").list.len() > 0))


class HeldoutRow(ProblemRow):
    """Each problem is asked with its own query and nothing else, has its pool's date, and holds no reward."""

    held_out: str = pap.Field(str_matches=DATE)


class HeldoutGoldRow(HeldoutRow):
    """As a row of `heldout`, with the reward where one is known."""

    reward: str = pap.Field(nullable=True)
    voucher: str = pap.Field(nullable=True)


class RejectRow(Strict):
    """Each reject names its stage, its place and the reason that decides."""

    stage: str = pap.Field(isin=["normalize", "gate", "corpus"])
    snapshot: str = pap.Field(str_matches=NAME)
    file: str = pap.Field(str_length={"min_value": 1})
    line: int = pap.Field(ge=1)
    offset: int = pap.Field(ge=0)
    trajectory_id: str = hashed(nullable=True)
    problem_id: str = pap.Field(nullable=True)
    reason: str = pap.Field(str_length={"min_value": 1, "max_value": 100})
    reasons: Texts
    evidence: str = pap.Field(nullable=True)
    json_fault: str = sound()
    too_long: bool = pap.Field(eq=False)

    @pap.dataframe_check
    @classmethod
    def the_first_reason_decides(cls, data: pap.PolarsData) -> Check:
        """`reason` is the first of `reasons`."""
        return holds(data, pl.col("reasons").list.first() == pl.col("reason"))


class Contract(NamedTuple):
    """A model with the name and version that reports carry."""

    name: str
    model: Any

    @property
    def states(self) -> str:
        """What it is about, for the report."""
        return str(self.model.__doc__).splitlines()[0]


ROWS: dict[str, Contract] = {
    "trajectories": Contract("oresmith.check.trajectories/1", AttemptRow),
    "sft": Contract("oresmith.check.sft/1", SftRow),
    "kto": Contract("oresmith.check.kto/1", KtoRow),
    "grpo": Contract("oresmith.check.grpo/1", GrpoRow),
    "subtask": Contract("oresmith.check.subtask/1", SubtaskRow),
    "heldout": Contract("oresmith.check.heldout/1", HeldoutRow),
    "heldout_gold": Contract("oresmith.check.heldout_gold/1", HeldoutGoldRow),
    "rejects": Contract("oresmith.check.rejects/1", RejectRow),
}
"""Config -> contract of its rows."""


def check_rows(rows: pl.DataFrame, where: str, config: str) -> None:
    """Check rows of a config, with what is derived of them.

    Raises:
        OresmithError: with the columns that differ; else with the broken checks, how many rows break each, the first
            of them, and the faults of texts.
    """
    contract = ROWS[config]
    wrong = set(rows.columns) ^ set(contract.model.to_schema().columns)
    if wrong:
        got = f"missing or not known: {', '.join(sorted(wrong))}"
        raise OresmithError("rows have other columns than their contract", where=where, expected=contract.name, got=got)
    try:
        check_table(rows, contract.model, where)
    except OresmithError as error:
        named = [name for name in ("dialogue", "tools_fault", "asks", "json_fault") if name in rows.columns]
        faults = {name: sorted(set(rows[name]) - {""}) for name in named}
        told = "; ".join(f"{name}: {', '.join(found)}" for name, found in faults.items() if found)
        raise OresmithError(
            error.what,
            where=where,
            expected=f"{contract.name}: {contract.states}",
            got=f"{error.got}{'; faults of texts: ' if told else ''}{told}",
            todo="run `dvc repro`; if it stays, look at the first row named here, and report it",
        ) from error
