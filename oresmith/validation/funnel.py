"""The whole funnel, per input file: every line read stands in exactly one place of the release.

The places are `trajectories`, `subtask`, withheld (by pool) and `rejects` (by reason). It is checked row by row, on
(snapshot, file, line), and not only by sums: two errors that cancel out in a sum are two rows in a wrong place.
Views (`sft`, `kto`, `grpo`) and configs of problems are not counted.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import polars as pl

from oresmith.errors import AccountingError
from oresmith.reasons import ORDER

FUNNEL_SCHEMA = "oresmith.funnel/1"
PLACE = ["snapshot", "file", "line"]
NO_PROBLEM = "no_problem"
"""Pool of a withheld row whose problem nothing is known of, so that no pool was assigned."""
TRAJECTORIES, SUBTASK, REJECTS, WITHHELD = "trajectories", "subtask", "rejects", "withheld"


class Placed(NamedTuple):
    """Where the stages say that rows are. Every frame has the columns `PLACE`, and those named here."""

    read: pl.DataFrame
    """`snapshot, file, read`: lines of each input file, as stage normalize counted them."""
    unreadable: pl.DataFrame
    """+ `reason`: rejects of stage normalize."""
    decided: pl.DataFrame
    """+ `accepted, reasons`: decisions of stage gate; `pool`: of the row's problem, null where nothing is known of it;
    `published`: whether rows of that pool are."""
    trajectories: pl.DataFrame
    subtask: pl.DataFrame
    rejects: pl.DataFrame
    """+ `stage, reason`: the config."""
    withheld: pl.DataFrame
    """`snapshot, file, pool, rows`: as stage corpus counted them."""


class FileFunnel(msgspec.Struct):
    """The funnel of one input file; `read == trajectories + subtask + sum(withheld) + sum(rejects)`."""

    snapshot: str
    file: str
    read: int
    trajectories: int = 0
    subtask: int = 0
    withheld: dict[str, int] = {}
    """Pool -> rows."""
    rejects: dict[str, int] = {}
    """Deciding reason -> rows."""


class Funnel(msgspec.Struct):
    """`funnel.json`: the sums and every file, in the order of the snapshots and names."""

    schema: str
    read: int
    trajectories: int
    subtask: int
    withheld: dict[str, int]
    rejects: dict[str, int]
    files: list[FileFunnel]


def full_funnel(placed: Placed) -> Funnel:
    """Put every row in its one place and add up.

    Raises:
        AccountingError: a row in no place or in two, or a number that another stage states otherwise, with the numbers
            and the first such row.
    """
    rows = _rows_read(placed)
    rows = rows.join(_published(placed, rows), on=PLACE, how="left")
    homeless, accepted = pl.col("config").is_null(), pl.col("accepted")
    _refuse(rows.filter(homeless & ~accepted), "rejected rows have vanished: `rejects` does not hold them")
    _refuse(
        rows.filter(homeless & accepted & pl.col("published")),
        "accepted rows have vanished: they are in no config, and no pool withholds them",
    )
    _check_configs(rows)
    files = _files(placed.read, rows)
    _check_withheld(files, placed.withheld)
    return Funnel(
        schema=FUNNEL_SCHEMA,
        read=sum(file.read for file in files),
        trajectories=sum(file.trajectories for file in files),
        subtask=sum(file.subtask for file in files),
        withheld=_added([file.withheld for file in files]),
        rejects=_by_precedence(_added([file.rejects for file in files])),
        files=files,
    )


def _rows_read(placed: Placed) -> pl.DataFrame:
    """Every line read, once: what normalize could not read and what the gate decided."""
    unreadable = placed.unreadable.select(
        *PLACE,
        pl.lit(False).alias("readable"),
        pl.lit(False).alias("accepted"),
        pl.concat_list("reason").alias("reasons"),
        pl.lit(None, pl.String).alias("pool"),
        pl.lit(False).alias("published"),
    )
    decided = placed.decided.select(
        *PLACE, pl.lit(True).alias("readable"), "accepted", "reasons", "pool", pl.col("published").fill_null(False)
    )
    rows = pl.concat([unreadable, decided])
    _refuse(rows.filter(pl.struct(PLACE).is_duplicated()), "a line was read twice")
    counted = rows.group_by("snapshot", "file").agg(pl.len().cast(pl.Int64).alias("found"))
    joined = placed.read.join(counted, on=["snapshot", "file"], how="full", coalesce=True).fill_null(0)
    for snapshot, file, read, found in joined.filter(pl.col("read") != pl.col("found")).iter_rows():
        raise _broken(
            "lines were read that no stage decided", f"{snapshot}/{file}", f"{read} lines read", f"{found} rows decided"
        )
    return rows


def _published(placed: Placed, rows: pl.DataFrame) -> pl.DataFrame:
    """The one config that holds each row, with the reason that decides where that is `rejects`."""
    none = pl.lit(None, pl.String)
    parts = [
        placed.trajectories.select(
            *PLACE, pl.lit(TRAJECTORIES).alias("config"), none.alias("stage"), none.alias("reason")
        ),
        placed.subtask.select(*PLACE, pl.lit(SUBTASK).alias("config"), none.alias("stage"), none.alias("reason")),
        placed.rejects.select(*PLACE, pl.lit(REJECTS).alias("config"), "stage", "reason"),
    ]
    published = pl.concat(parts)
    _refuse(published.filter(pl.struct(PLACE).is_duplicated()), "a row is published twice")
    _refuse(published.join(rows, on=PLACE, how="anti"), "a row is published that was never read")
    return published


def _check_configs(rows: pl.DataFrame) -> None:
    """Each row is in the config that the stages before decided on."""
    config, accepted = pl.col("config"), pl.col("accepted")
    decides = (pl.col("reasons").list.first() == pl.col("reason")).fill_null(False)
    own = pl.col("stage") == "corpus"
    wrong = {
        "a row stands in `trajectories` that the gate did not accept": (config == TRAJECTORIES) & ~accepted,
        "a row stands in `subtask` whose only reject reason is not its origin": (config == SUBTASK)
        & ~(pl.col("reasons").list.join(",") == "origin_subtask"),
        "a row is rejected by `corpus` that the gate had not accepted": (config == REJECTS) & own & ~accepted,
        "a row is rejected for another reason than the one that decided": (config == REJECTS) & ~own & ~decides,
        "a line that cannot be read stands outside `rejects`": ~pl.col("readable") & (config != REJECTS),
    }
    for what, condition in wrong.items():
        _refuse(rows.filter(condition.fill_null(False)), what)


def _files(read: pl.DataFrame, rows: pl.DataFrame) -> list[FileFunnel]:
    files = {
        (snapshot, file): FileFunnel(snapshot=snapshot, file=file, read=lines)
        for snapshot, file, lines in read.select("snapshot", "file", "read").iter_rows()
    }
    label = pl.when(pl.col("config") == REJECTS).then("reason").otherwise(pl.col("pool").fill_null(NO_PROBLEM))
    grouped = rows.with_columns(pl.col("config").fill_null(WITHHELD), label.alias("label"))
    counts = grouped.group_by("snapshot", "file", "config", "label").len().sort("snapshot", "file", "config", "label")
    for snapshot, file, config, name, count in counts.iter_rows():
        account = files[snapshot, file]
        if config == TRAJECTORIES:
            account.trajectories += count
        elif config == SUBTASK:
            account.subtask += count
        else:
            held = account.withheld if config == WITHHELD else account.rejects
            held[name] = held.get(name, 0) + count
    for account in files.values():
        account.rejects = _by_precedence(account.rejects)
        placed = account.trajectories + account.subtask + sum(account.withheld.values()) + sum(account.rejects.values())
        if placed != account.read:
            raise _broken(
                "the funnel does not add up", f"{account.snapshot}/{account.file}", str(account.read), str(placed)
            )
    return list(files.values())


def _check_withheld(files: list[FileFunnel], stated: pl.DataFrame) -> None:
    """Stage corpus counts what it withholds; here it is derived from what is published: both must agree."""
    told: dict[tuple[str, str], dict[str, int]] = {}
    for snapshot, file, pool, count in stated.select("snapshot", "file", "pool", "rows").iter_rows():
        told.setdefault((snapshot, file), {})[pool] = count
    for account in files:
        pools = {pool: count for pool, count in told.pop((account.snapshot, account.file), {}).items() if count}
        if pools != account.withheld:
            raise _broken(
                "withheld rows are not what stage corpus states",
                f"{account.snapshot}/{account.file}",
                f"withheld as stated: {pools}",
                f"{account.withheld} are in no config",
            )
    for (snapshot, file), pools in told.items():
        if any(pools.values()):
            raise _broken("rows of a file that was never read are withheld", f"{snapshot}/{file}", "none", str(pools))


def _refuse(rows: pl.DataFrame, what: str) -> None:
    if rows.height:
        snapshot, file, line = rows.select(PLACE).sort(PLACE).row(0)
        raise _broken(
            what, f"{snapshot}/{file}:{line}", "each row in exactly one place", f"{rows.height} rows, this first"
        )


def _broken(what: str, where: str, expected: str, got: str) -> AccountingError:
    todo = "nothing was published; run `dvc repro`, and if it stays, report it with these numbers"
    return AccountingError(what, where=where, expected=expected, got=got, todo=todo)


def _added(parts: list[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return dict(sorted(total.items()))


def _by_precedence(reasons: dict[str, int]) -> dict[str, int]:
    return dict(sorted(reasons.items(), key=lambda item: (ORDER.get(item[0], len(ORDER)), item[0])))
