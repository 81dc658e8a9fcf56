"""Do the configs agree: with the pools, with each other as views, with the evidence, and with the normalised traces.

Each check names a contract of its own (`Held`), is made over every row, and raises with the number of rows that break
it and the first of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import polars as pl

from oresmith.corpus.problems import heldout_split, read_columns
from oresmith.errors import OresmithError
from oresmith.leakage.ledger import DEV, HELDOUT, TRAIN
from oresmith.lines.framing import BadLine, Limits, read_lines
from oresmith.param_data import Corpus
from oresmith.reasons import Reason
from oresmith.validation.dialogue import Normalised, normalised_digest
from oresmith.validation.facts import SHARED, facts_hash
from oresmith.validation.held import Held, hold

PLACE = ["snapshot", "file", "line"]
VALIDATION = "validation"
_OWN_FILES = Limits(max_line_bytes=512 * 1024 * 1024, max_ratio=1e6)
Tables = Mapping[str, pl.DataFrame]
"""Config -> `facts.summary`."""


def check_ids(tables: Tables) -> list[Held]:
    """Rows go by an id that stands once in its config, and ranks tell the rows of a problem apart."""
    held = []
    for config, table in tables.items():
        keys = ["row_id"] if "row_id" in table.columns else ["problem"] if "problem" in table.columns else PLACE
        held.append(
            hold(_repeated(table, keys), config, "unique_ids", "each row goes by an id of its own", table.height)
        )
    attempts = tables["trajectories"]
    ranked = _repeated(attempts, ["problem", "rank"])
    return [*held, hold(ranked, "trajectories", "unique_ranks", "a rank is given once in a problem", attempts.height)]


def check_caps(tables: Tables, corpus: Corpus) -> list[Held]:
    """No problem and no cluster has more rows in `trajectories` than the parameters allow."""
    attempts = tables["trajectories"]
    held = []
    for column, cap in (("problem", corpus.cap_per_problem), ("cluster", corpus.cap_per_cluster)):
        over = attempts.filter(pl.len().over(column) > cap)
        states = f"at most {cap} rows of one {column}"
        held.append(hold(over, "trajectories", f"cap_per_{column}", states, attempts.height))
    return held


def check_pools(tables: Tables, problems: pl.DataFrame) -> list[Held]:
    """Every row stands in the config and split of its problem's pool, and says of it what stage split says.

    Args:
        tables: summaries of all configs.
        problems: `corpus.problems.read_problems`: `problem, cluster, pool, use, held_out, trainable, flagged`.
    """
    known = problems.select(
        "problem", "use", "held_out", "flagged", "trainable", own_cluster="cluster", own_pool="pool"
    )
    use, split = pl.col("use"), pl.col("split")
    heldout = (use == pl.lit(f"{HELDOUT}@") + pl.col("held_out")) & ~pl.col("trainable")
    dated = split == pl.col("held_out").map_elements(heldout_split, return_dtype=pl.String)
    may_train = (use == TRAIN) & pl.col("trainable")
    right = {
        "trajectories": ((split == TRAIN) & may_train) | ((split == DEV) & (use == DEV)),
        "subtask": (split == TRAIN) & may_train,
        "grpo": (split == TRAIN) & may_train,
        "heldout": heldout & dated,
        "heldout_gold": heldout & dated,
    }
    held = []
    for config, condition in right.items():
        joined = tables[config].join(known, on="problem", how="left")
        wrong = joined.filter(~(condition & (pl.col("cluster") == pl.col("own_cluster"))).fill_null(False))
        held.append(hold(wrong, config, "pools", "a row stands where its problem's pool says", joined.height))
        for column, own in (("pool", "own_pool"), ("benchmark_flag", "flagged")):
            if column in joined.columns:
                differs = joined.filter(pl.col(column).ne_missing(pl.col(own)))
                held.append(
                    hold(differs, config, f"pools.{column}", f"`{column}` is what stage split says", joined.height)
                )
    unlike = tables["heldout"].join(tables["heldout_gold"], on=["problem", "split"], how="full", coalesce=True)
    alone = unlike.filter(pl.col("cluster").is_null() | pl.col("cluster_right").is_null())
    return [*held, hold(alone, "heldout_gold", "same_problems", "it holds the problems of `heldout`", unlike.height)]


def check_views(tables: Tables, decided: pl.DataFrame) -> list[Held]:
    """`sft` and `kto` are views: of `trajectories`, and of train rejects whose only reason is the outcome.

    Args:
        tables: summaries of all configs.
        decided: `trajectory_id, reasons, use` of every decision of the gate.
    """
    shown = tables["trajectories"].select(
        "row_id",
        pl.col("split").replace(DEV, VALIDATION).alias("own_split"),
        pl.col("digest").alias("own_digest"),
        pl.col("tools_hash").alias("own_tools"),
    )
    same = (
        (pl.col("split") == pl.col("own_split"))
        & (pl.col("digest") == pl.col("own_digest"))
        & (pl.col("tools_hash") == pl.col("own_tools"))
    ).fill_null(False)
    sft, kto = tables["sft"], tables["kto"]
    liked, disliked = kto.filter(pl.col("label")), kto.filter(~pl.col("label"))
    held = []
    for name, view in (("sft", sft), ("kto", liked)):
        wrong = view.join(shown, on="row_id", how="left").filter(~same)
        held.append(hold(wrong, name, "views", "each row is one of `trajectories`, message for message", view.height))
    apart = sft.join(liked, on=["row_id", "split"], how="full", coalesce=True)
    alone = apart.filter(pl.col("digest").ne_missing(pl.col("digest_right")))
    held.append(hold(alone, "sft", "same_rows", "`sft` and the desirable rows of `kto` are the same", apart.height))
    failed = decided.filter(
        (pl.col("reasons").list.len() == 1)
        & (pl.col("reasons").list.first() == Reason.OUTCOME.value)
        & (pl.col("use") == TRAIN)
    )
    wrong = pl.concat(
        [
            disliked.filter(pl.col("split") != TRAIN),
            disliked.join(failed, left_on="row_id", right_on="trajectory_id", how="anti"),
            disliked.join(shown, on="row_id", how="semi"),
        ]
    )
    states = "an undesirable row is a train reject whose only reason is the outcome"
    return [*held, hold(wrong, "kto", "undesirable", states, disliked.height)]


def check_evidence(tables: Tables, paths: Iterable[Path]) -> list[Held]:
    """Published rows carry their evidence as it was computed, and no secret was found in any of them.

    Args:
        tables: summaries of all configs.
        paths: the tables of evidence of all snapshots.
    """
    attempts = pl.concat(
        [tables[config].select(*PLACE, "row_id", "facts_hash") for config in ("trajectories", "subtask")]
    )
    undesirable = tables["kto"].filter(~pl.col("label"))
    agree, clean = attempts.clear(), attempts.clear()
    secret_ids: set[str] = set()
    for path in paths:
        evidence = read_columns(
            path, list(dict.fromkeys([*PLACE, "trajectory_id", *SHARED, "secret_types"])), "evidence"
        )
        found = attempts.join(evidence.with_columns(facts_hash().alias("own_hash")), on=PLACE, how="inner")
        agree = pl.concat([agree, found.filter(pl.col("facts_hash") == pl.col("own_hash")).select(attempts.columns)])
        clean = pl.concat([clean, found.filter(pl.col("secret_types").list.len() == 0).select(attempts.columns)])
        secret_ids |= set(evidence.filter(pl.col("secret_types").list.len() > 0)["trajectory_id"])
    taken = "a row carries its evidence as it was computed"
    states = "no secret was found in a published row"
    todo = "nothing was published; set gate.secrets to reject"
    dirty, leaking = (
        attempts.join(clean, on=PLACE, how="anti"),
        undesirable.filter(pl.col("row_id").is_in(sorted(secret_ids))),
    )
    both = "trajectories, subtask"
    return [
        hold(attempts.join(agree, on=PLACE, how="anti"), both, "evidence", taken, attempts.height),
        hold(dirty, both, "secrets", states, attempts.height, todo=todo),
        hold(leaking, "kto", "secrets", states, undesirable.height, todo=todo),
    ]


def check_messages(tables: Tables, shards: Iterable[Path]) -> Held:
    """Published messages are those of the normalised traces, to the character of every argument.

    Args:
        tables: summaries of all configs.
        shards: the files of normalised trajectories of all snapshots.

    Raises:
        OresmithError: a message was changed (such as by a null argument that was invented), or a file is damaged.
    """
    published = pl.concat([tables[config].select("row_id", "digest") for config in ("trajectories", "subtask", "kto")])
    wanted = dict(published.iter_rows())
    missing = set(wanted)
    wrong: set[str] = set()
    decode = msgspec.json.Decoder(Normalised).decode
    for path in shards:
        for line in read_lines(path, _OWN_FILES):
            if isinstance(line, BadLine):
                raise OresmithError("a file of an earlier stage is damaged", where=f"{path}:{line.number}")
            try:
                record = decode(line.data)
            except (msgspec.MsgspecError, RecursionError) as error:
                raise OresmithError("no trajectory", where=f"{path}:{line.number}", got=str(error)[:200]) from error
            digest = wanted.get(record.trajectory_id)
            if digest is not None:
                missing.discard(record.trajectory_id)
                if digest != normalised_digest(record.messages):
                    wrong.add(record.trajectory_id)
    bad = published.filter(pl.col("row_id").is_in(list(wrong | missing)))
    states = "every message and argument is the normalised record's"
    return hold(bad, "trajectories, subtask, kto", "messages", states, published.height)


def _repeated(table: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    return table.filter(pl.struct(keys).is_duplicated())
