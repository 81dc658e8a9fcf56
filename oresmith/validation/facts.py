"""What the contracts ask of a row's texts, derived piece by piece, and the columnar summary that the rest works on.

A piece is read, its texts are looked at once, its contract is checked, and only small columns are kept: memory is
bounded by a piece and by the number of rows, not by their length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import polars as pl

from oresmith.corpus.shards import File
from oresmith.validation.dialogue import Dialogue, read_dialogue, tools_fault
from oresmith.validation.reading import pieces
from schemas.corpus import CONFIGS
from schemas.evidence import COLUMNS as EVIDENCE

DIALOGUES = ("trajectories", "subtask", "sft", "kto")
"""Configs that hold whole dialogues."""
PROBLEMS = ("grpo", "heldout", "heldout_gold")
"""Configs that hold problems."""
JSON_TEXTS = ("score", "reward", "voucher", "evidence")
CUT_WRONGLY = "cut_wrongly"
"""`asks`: the prompt is not what the model is asked with, or the completion not what it answers."""
SHARED = [name for name in CONFIGS["trajectories"] if name in EVIDENCE and name not in ("problem", "category")]
"""Columns that a published row takes from the evidence as they are; the problem's come from its cluster."""
_DROPPED = {
    *("messages", "prompt", "completion", "tools", "query", *JSON_TEXTS),
    *("original_call_ids", "copied_context", "no_model", "origin_votes", "reasons"),
}
_raw = msgspec.json.Decoder(msgspec.Raw).decode
Check = Callable[[pl.DataFrame, str], object]
"""Checks the rows of a config (with what is derived of them) and raises; the text says where they stand."""


def summary(files: Iterable[File], config: str, max_row_bytes: int, check: Check) -> pl.DataFrame:
    """Check every row of a config and keep its small columns.

    Args:
        files: of the config.
        config: its name.
        max_row_bytes: `corpus.max_row_bytes`.
        check: the contract of a piece.

    Returns:
        One row a row, in order: the small columns, the derived ones, `split`, `facts_hash` (of `SHARED`, for
        `trajectories` and `subtask`) and `tools_hash`.

    Raises:
        OresmithError: whatever `check` raises, or a damaged file.
    """
    kept = [empty(config)]
    for file in files:
        first = 0
        for piece in pieces(file.path):
            whole = derive(piece, config, max_row_bytes)
            check(whole, f"{file.path}, rows {first + 1} to {first + piece.height}")
            kept.append(_small(whole, file.split))
            first += piece.height
    return pl.concat(kept)


def empty(config: str) -> pl.DataFrame:
    """The summary of no rows."""
    columns = {name: _polars(kind) for name, kind in CONFIGS[config].items()}
    return _small(derive(pl.DataFrame(schema=columns), config, 0), "")


def derive(piece: pl.DataFrame, config: str, max_row_bytes: int) -> pl.DataFrame:
    """The rows with what their texts say of them (columns of `schemas.corpus_checks.Derived` and of the config)."""
    added = [pl.Series("json_fault", list(_json_faults(piece)), pl.String)]
    if config in DIALOGUES:
        found = [read_dialogue(row, filled=config in ("sft", "kto")) for row in _messages(piece)]
        added += _told(found)
        added.append(pl.Series("tools_fault", [tools_fault(text) for text in piece["tools"].fill_null("")], pl.String))
        if config == "kto":
            added.append(_cuts(piece, found))
    if config in PROBLEMS:
        added += _prompts(piece)
    return piece.with_columns(added).with_columns((_text_bytes(piece) > max_row_bytes).alias("too_long"))


def _messages(piece: pl.DataFrame) -> Iterator[list[str]]:
    if "messages" in piece.columns:
        yield from (row or [] for row in piece["messages"].to_list())
        return
    for prompt, completion in zip(piece["prompt"].to_list(), piece["completion"].to_list(), strict=True):
        yield [*(prompt or []), *(completion or [])]


def _told(found: Sequence[Dialogue]) -> list[pl.Series]:
    return [
        pl.Series("dialogue", [one.fault for one in found], pl.String),
        pl.Series("calls", [one.calls for one in found], pl.Int64),
        pl.Series("recommends", [one.recommends for one in found], pl.Int64),
        pl.Series("digest", [one.digest for one in found], pl.String),
    ]


def _cuts(piece: pl.DataFrame, found: Sequence[Dialogue]) -> pl.Series:
    """Whether each prompt ends before the model's first words, and the completion begins with them."""
    faults = []
    for one, length in zip(found, piece["prompt"].list.len().fill_null(0), strict=True):
        asked, answer = one.roles[:length], one.roles[length : length + 1]
        right = "user" in asked and not {"assistant", "tool"} & set(asked) and answer == ("assistant",)
        faults.append("" if right else CUT_WRONGLY)
    return pl.Series("asks", faults, pl.String)


def _prompts(piece: pl.DataFrame) -> list[pl.Series]:
    """A problem is asked with its own query and nothing else; one without a query asks nothing."""
    prompts = [row or [] for row in piece["prompt"].to_list()]
    found = [read_dialogue(row, filled=True) for row in prompts]
    faults, asks = [], []
    for one, query, prompt in zip(found, piece["query"], prompts, strict=True):
        wanted = [] if query is None else [{"role": "user", "content": query}]
        faults.append(one.fault if prompt else "")
        asks.append("" if one.digest and [msgspec.json.decode(text) for text in prompt] == wanted else CUT_WRONGLY)
    return [
        pl.Series("dialogue", faults, pl.String),
        pl.Series("asks", asks, pl.String),
        pl.Series("digest", [one.digest for one in found], pl.String),
    ]


def _json_faults(piece: pl.DataFrame) -> Iterator[str]:
    """Name of the first column whose text is no JSON; "" where all are or are null."""
    columns = [name for name in JSON_TEXTS if name in piece.columns]
    for row in piece.select(columns).iter_rows() if columns else [()] * piece.height:
        yield next(
            (name for name, text in zip(columns, row, strict=True) if text is not None and not _is_json(text)), ""
        )


def _is_json(text: str) -> bool:
    try:
        _raw(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
    return True


def _text_bytes(piece: pl.DataFrame) -> pl.Expr:
    """Bytes of all texts of a row."""
    sizes = [pl.lit(0, pl.Int64)]
    for name, kind in piece.schema.items():
        if kind == pl.String:
            sizes.append(pl.col(name).str.len_bytes().fill_null(0).cast(pl.Int64))
        elif kind == pl.List(pl.String):
            texts = pl.col(name).list.eval(pl.element().str.len_bytes())
            sizes.append(texts.list.sum().fill_null(0).cast(pl.Int64))
    return pl.sum_horizontal(sizes)


def _small(whole: pl.DataFrame, split: str) -> pl.DataFrame:
    added: list[Any] = [pl.lit(split).alias("split")]
    if set(SHARED) <= set(whole.columns):
        added.append(facts_hash())
    if "tools" in whole.columns:
        added.append(pl.col("tools").hash().alias("tools_hash"))
    return whole.with_columns(added).drop([name for name in whole.columns if name in _DROPPED])


def facts_hash() -> pl.Expr:
    """One number for the columns that published rows and evidence share; comparable within one process."""
    return pl.struct(SHARED).hash().alias("facts_hash")


def _polars(kind: Any) -> pl.DataType:
    text = str(kind)
    simple = {"string": pl.String(), "int64": pl.Int64(), "double": pl.Float64(), "bool": pl.Boolean()}
    if text.startswith("list"):
        return pl.List(_polars(kind.value_type))
    return simple.get(text, pl.String())
