"""All contracts of the corpus, in the order in which stage validate asks for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import polars as pl

from oresmith.corpus.shards import corpus_files
from oresmith.errors import OresmithError
from oresmith.params import Params
from oresmith.validation import agreement
from oresmith.validation.facts import summary
from oresmith.validation.held import Held
from oresmith.validation.layout import SplitFiles, check_loads
from oresmith.validation.versions import read_keys
from schemas.check import check_table
from schemas.corpus_checks import ROWS, check_rows
from schemas.problem_checks import TABLES

Tables = dict[str, pl.DataFrame]
"""Config -> `facts.summary`."""


def check_sources(data: Path) -> list[Held]:
    """The tables of clusters and pools, that everything rests on.

    Raises:
        OresmithError: a table is missing or breaks its contract.
    """
    held = []
    for name, contract in TABLES.items():
        path = data / f"{name}.parquet"
        if not path.is_file():
            raise OresmithError("a table of an earlier stage is missing", where=str(path), todo="run `dvc repro`")
        table = check_table(pl.read_parquet(path), contract.model, str(path))
        held.append(Held(contract.name, f"data/{name}", contract.states, table.height))
    return held


def check_configs(corpus: Path, max_row_bytes: int) -> tuple[Tables, list[Held]]:
    """Every row of every config, piece by piece; their small columns are kept.

    Raises:
        OresmithError: naming file, rows and checks.
    """
    tables: Tables = {}
    held = []
    for config, contract in ROWS.items():
        files = corpus_files(corpus, [config])
        tables[config] = summary(files, config, max_row_bytes, partial(check_rows, config=config))
        held.append(Held(contract.name, config, contract.states, tables[config].height))
    return tables, held


def check_agreement(
    data: Path, params: Params, tables: Tables, problems: pl.DataFrame, decided: pl.DataFrame
) -> list[Held]:
    """The configs with each other and with what they were made from.

    Args:
        data: the pipeline's data directory.
        params: for the snapshots and the caps.
        tables: summaries of all configs.
        problems: `corpus.problems.read_problems`.
        decided: `inputs.read_decided`.

    Raises:
        OresmithError: naming the contract, the number of rows that break it and the first of them.
    """
    names = [entry.name for entry in params.snapshots]
    evidence = [path for name in names for path in sorted((data / "evidence" / name / "table").glob("*.parquet"))]
    shards = [path for name in names for path in sorted((data / "normalize" / name / "trajectories").glob("*.jsonl*"))]
    return [
        *agreement.check_ids(tables),
        *agreement.check_caps(tables, params.corpus),
        *agreement.check_pools(tables, problems),
        *agreement.check_views(tables, decided),
        *agreement.check_evidence(tables, evidence),
        agreement.check_messages(tables, shards),
    ]


def check_certificate(keys: Path, splits: Sequence[SplitFiles]) -> Held:
    """The certificate lists every row of the corpus.

    Raises:
        OresmithError: with the rows of both by config.
    """
    listed = Counter(row.config for row in read_keys(keys))
    rows: Counter[str] = Counter()
    for split in splits:
        rows[split.config] += split.rows
    if listed != rows:
        raise OresmithError(
            "the certificate is of other rows than the corpus",
            where=str(keys),
            expected=str(dict(sorted(rows.items()))),
            got=str(dict(sorted(listed.items()))),
            todo="run `dvc repro`",
        )
    return Held("oresmith.check.certificate/1", "all configs", "the certificate lists every row", rows.total())


def check_loading(corpus: Path, splits: Sequence[SplitFiles], cache: Path) -> list[Held]:
    """The files, found to be within the Hub's limits by `layout.check_files`, open as users open them.

    Raises:
        OresmithError: naming the config.
    """
    opened = ", ".join(check_loads(corpus, corpus_files(corpus, ROWS), cache)) or "no config"
    rows = sum(split.rows for split in splits)
    limits = "names, schemas, row groups and numbers of files are within the Hub's limits"
    return [
        Held("oresmith.check.layout/1", "all files", limits, rows),
        Held("oresmith.check.loading/1", opened, "`datasets` opens it with these splits and columns", rows),
    ]
