"""The audit of a corpus: one pass over its rows, then the contamination table, the certificate and its verifier."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl

from oresmith.audit import verify_certificate
from oresmith.audit.answers import Answers
from oresmith.audit.certificate import CONTAMINATION_FILE, Corpus, Given, sha256_of, write_certificate
from oresmith.audit.contamination import problem_matches, read_world, write_matches
from oresmith.audit.keys_table import KEYS_FILE, KeysRow, Known, write_keys
from oresmith.audit.ledgers import Ledgers, load_ledgers
from oresmith.audit.rows import ShardRow
from oresmith.audit.wording import Wordings
from oresmith.corpus.account import Fate
from oresmith.errors import OresmithError
from oresmith.leakage import ClusterParams, Vault
from oresmith.leakage.ledger import QUARANTINE

VERIFIER_FILE = "verify_certificate.py"
_INPUTS = ("cluster/manifest.json", "split/manifest.json", "corpus/manifest.json", "corpus/README.md")


class Settings(NamedTuple):
    """What an audit needs to know beside the files."""

    release: str
    snapshots: tuple[str, ...]
    """In the order of the parameters."""
    ledger: Path
    """`releases/ledger.jsonl`; need not exist."""
    clusters: ClusterParams
    allowed: tuple[str, ...] = ()
    """Benchmarks whose rows may be published."""
    reject_answers: bool = True
    """Whether a recommendation of a guarded gold product is rejected."""
    vault: Vault | None = None
    parameters: Mapping[str, Mapping[str, Any]] = {}
    """What the content depends on, by stage, for the certificate."""


class _Report(msgspec.Struct):
    """As much of data/corpus/report.json as is needed here."""

    fates: list[Fate]


def audit(data: Path, out: Path, settings: Settings) -> dict[str, Any]:
    """Audit `data/corpus` and write `certificate/`, `contamination.tsv` and the verifier into a folder.

    Args:
        data: the pipeline's data directory.
        out: an empty folder.
        settings: see `Settings`.

    Returns:
        The certificate.

    Raises:
        AccountingError: rows that do not add up.
        OresmithError: an input that is missing, tables that contradict the ledger, a row whose problem may not be
            published, two sides that share a problem, or a certificate that its own verifier refuses.
    """
    ledgers = load_ledgers(settings.ledger, data / "split" / "ledger.next.jsonl", settings.release)
    world = read_world(data, settings.clusters, settings.allowed, settings.snapshots, settings.vault)
    attempts = read_attempts(data, settings.snapshots)
    answers = Answers(world, attempts, settings.reject_answers)
    problem_of = dict(attempts.select("trajectory_id", "problem").iter_rows())
    given = Given(
        data / "corpus", ledgers, settings.clusters, settings.allowed, problem_of.get, read_fates(data / "corpus")
    )

    def visit(row: ShardRow, keys: KeysRow) -> None:
        answers.visit(row)
        wordings.visit(row, keys)

    corpus = Corpus(given, visit)
    check_assignments(world.problems, corpus.known, ledgers)
    wordings = Wordings(corpus.known, ledgers.lines, settings.clusters, settings.allowed)
    write_keys(corpus.rows(), out / KEYS_FILE)
    counts = write_matches([*problem_matches(world), *answers.matches()], out / CONTAMINATION_FILE)
    stated = {
        "inputs": _inputs(data, settings.snapshots),
        "parameters": settings.parameters,
        "contamination": counts,
        "misfiled": wordings.other,
    }
    certificate = write_certificate(given, out, stated, corpus)
    shutil.copyfile(Path(verify_certificate.__file__), out / VERIFIER_FILE)
    _verify(out, data / "corpus")
    return certificate


def read_attempts(data: Path, snapshots: Sequence[str]) -> pl.DataFrame:
    """All rows of the evidence, with the problems of their attempts.

    Returns:
        Columns `snapshot, file, line, trajectory_id, recommended_ids, problem`.

    Raises:
        OresmithError: a table is missing or cannot be read.
    """
    place = ["snapshot", "file", "line"]
    try:
        problems = pl.read_parquet(data / "cluster" / "attempts.parquet", columns=[*place, "problem"])
        paths = [path for name in snapshots for path in sorted((data / "evidence" / name / "table").glob("*.parquet"))]
        tables = [pl.read_parquet(path, columns=[*place, "trajectory_id", "recommended_ids"]) for path in paths]
        return pl.concat(tables).join(problems, on=place, how="left", maintain_order="left")
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise OresmithError(
            "the attempts cannot be read", where=str(data), got=str(error)[:300], todo="run `dvc repro`"
        ) from error


def read_fates(corpus: Path) -> list[Fate]:
    """Where stage corpus says that the lines of each input file are. Errors: OresmithError."""
    path = corpus / "report.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Report).fates
    except (OSError, msgspec.DecodeError) as error:
        raise OresmithError(
            "the corpus has no readable account", where=str(path), got=str(error)[:300], todo="run `dvc repro`"
        ) from error


def check_assignments(problems: pl.DataFrame, known: Mapping[str, Known], ledgers: Ledgers) -> None:
    """The split's table is what the ledger says. Errors: OresmithError naming the first problem that is not."""
    columns = problems.select("problem", "pool", "held_out", "assigned")
    for problem, pool, held_out, cluster in columns.iter_rows():
        place = f"{pool}@{held_out}" if held_out else pool
        line = known.get(problem)
        if line is None and pool == QUARANTINE:
            continue
        if line is None or (line.pool, line.cluster) != (place, cluster):
            raise OresmithError(
                "the assignments contradict the ledger",
                where=f"data/split/assignments.parquet, problem {problem}",
                expected=f"{line.pool}, cluster {line.cluster}" if line else f"a line of release {ledgers.release}",
                got=f"{place}, cluster {cluster}",
                todo="run `dvc repro`; if the ledger was edited, restore it from version control",
            )


def _inputs(data: Path, snapshots: Sequence[str]) -> dict[str, str]:
    names = [*(f"snapshots/{name}/snapshot.json" for name in snapshots), *_INPUTS]
    return {name: sha256_of(data / name) for name in names if (data / name).is_file()}


def _verify(out: Path, corpus: Path) -> None:
    told: list[str] = []
    if verify_certificate.Checker(out, corpus, told.append).run():
        failures = [line for line in told if line.startswith("FAIL")]
        raise OresmithError(
            "the certificate does not pass its own verifier",
            where=str(out),
            got="; ".join(failures[:3])[:600],
            todo="nothing was published; this is a fault of stage audit: report it with these lines",
        )
