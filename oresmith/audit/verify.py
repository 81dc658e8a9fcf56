"""`oresmith verify`: a released folder against its certificate, and the certificate's tables against the Parquet files.

`verify_certificate.py` checks what can be checked without reading Parquet. Here every row is read: hash, id and keys
are derived again and compared with `keys.tsv`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import yaml

from oresmith.audit import tsv
from oresmith.audit.certificate import CERTIFICATE_FILE, Corpus, Given
from oresmith.audit.keys_table import KEYS_FILE, KeysRow, read_lines
from oresmith.audit.ledgers import BEFORE_FILE, NEXT_FILE, load_ledgers
from oresmith.audit.rows import REJECTS, ShardRow
from oresmith.audit.verify_certificate import Checker
from oresmith.audit.wording import Wordings
from oresmith.errors import OresmithError
from oresmith.leakage import ClusterParams
from oresmith.reasons import Reason

SCHEMA_FILE = Path(__file__).resolve().parents[2] / "schemas" / "certificate-v1.json"
MOST = 20
"""Failures that are told of one check."""


def verify_folder(folder: Path, corpus: Path | None = None, tell: Callable[[str], None] = print) -> bool:
    """Check a release.

    Args:
        folder: holds `certificate/` and `contamination.tsv`.
        corpus: holds the data files; the folder itself if None.
        tell: receives one line a check, and one a failure, with its place.

    Returns:
        Whether all of it holds.
    """
    where = corpus or folder
    checker = Checker(folder, where, tell)
    held = checker.run() == 0
    if not checker.certificate:
        return False
    for name, proves, check in (
        ("form", "the certificate has the form of its schema", _form),
        ("derived", f"every line of {KEYS_FILE} follows from the Parquet files and the ledger", _derived),
        ("readme", "README.md gives each config and split its own files", _readme),
    ):
        failures = list(islice(check(folder, where, checker.certificate), MOST))
        for failure in failures:
            tell(f"FAIL {name}: {tsv.cell(failure)}")
        if not failures:
            tell(f"OK   {name}: {proves}")
        held = held and not failures
    return held


def _form(folder: Path, corpus: Path, certificate: Any) -> Iterator[str]:
    schema = msgspec.json.decode(SCHEMA_FILE.read_bytes())
    for error in jsonschema.Draft202012Validator(schema).iter_errors(certificate):
        yield f"{CERTIFICATE_FILE}: {'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"


def _derived(folder: Path, corpus: Path, certificate: Any) -> Iterator[str]:
    try:
        yield from _differences(folder, corpus, certificate)
    except OresmithError as error:
        yield "; ".join(line.strip() for line in error.sentence().splitlines())
    except (OSError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        yield f"cannot be derived: {error!r}"


def _differences(folder: Path, corpus: Path, certificate: Any) -> Iterator[str]:
    ledgers = load_ledgers(folder / BEFORE_FILE, folder / NEXT_FILE, certificate["release"])
    least, benchmarks = certificate["keys"], certificate["benchmarks"]
    params = ClusterParams(min_constraints=least["min_constraints"], min_pairs=least["min_pairs"])
    allowed = tuple(name for name, stated in benchmarks.items() if stated["allowed"])
    stated, problems = _stated(folder / KEYS_FILE)
    failed = _Failed()

    def visit(row: ShardRow, keys: KeysRow) -> None:
        wordings.visit(row, keys)
        failed.visit(row)

    rows = Corpus(Given(corpus, ledgers, params, allowed, problems.get, ()), visit)
    wordings = Wordings(rows.known, ledgers.lines, params, allowed)
    for keys in rows.rows():
        number, digest = stated.pop((keys.config, keys.row_id), (0, b""))
        line = tsv.line(keys)
        if not number:
            yield f"{keys.shard}: row {keys.row_id} of {keys.config} is not in {KEYS_FILE}"
        elif digest != _digest(line):
            yield f"{KEYS_FILE}:{number}: row {keys.row_id} of {keys.config} in {keys.shard} must read {line.decode()}"
    for (config, row_id), (number, _) in stated.items():
        yield f"{KEYS_FILE}:{number}: row {row_id} of {config} is in no data file"
    for row_id in sorted(failed.missing):
        yield f"kto: row {row_id} is neither in trajectories nor a reject for its outcome alone"


class _Failed:
    """Rows of `kto` that must be rejects whose only reason is the outcome; the rejects come last."""

    def __init__(self) -> None:
        self._published: set[str] = set()
        self.missing: set[str] = set()

    def visit(self, row: ShardRow) -> None:
        config, values = row.shard.config, row.values
        if config == "trajectories":
            self._published.add(values["row_id"])
        elif config == "kto" and values["row_id"] not in self._published:
            self.missing.add(values["row_id"])
        elif config == REJECTS and values["reasons"] == [Reason.OUTCOME.value]:
            self.missing.discard(values["trajectory_id"])


def _stated(path: Path) -> tuple[dict[tuple[str, str], tuple[int, bytes]], dict[str, str]]:
    """The lines of a table by config and row id (place and digest), and the problems that it states for `kto`."""
    lines: dict[tuple[str, str], tuple[int, bytes]] = {}
    problems: dict[str, str] = {}
    for number, line in read_lines(path):
        cells = [tsv.uncell(cell) for cell in line.decode().rstrip("\n").split("\t")]
        if len(cells) == len(KeysRow._fields):
            keys = KeysRow(*cells)
            lines[keys.config, keys.row_id] = (number + 1, _digest(line))
            if keys.config == "kto":
                problems[keys.row_id] = keys.problem
    return lines, problems


def _digest(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()


def _readme(folder: Path, corpus: Path, certificate: Any) -> Iterator[str]:
    readme = corpus / "README.md"
    parts = readme.read_text("utf-8", "replace").split("---\n", 2) if readme.is_file() else []
    if len(parts) < 3 or parts[0]:
        return
    try:
        configs = yaml.safe_load(parts[1]).get("configs", [])
        globs = [
            (config["config_name"], entry["split"], entry["path"])
            for config in configs
            for entry in config["data_files"]
        ]
        wanted = {(file["path"], file["config"], file["split"]) for file in certificate["files"] if file["rows"]}
    except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        yield f"{readme}: configs cannot be read: {str(error)[:200]}"
        return
    found = {
        (path, config, split) for path, *_ in wanted for config, split, glob in globs if fnmatchcase(path, str(glob))
    }
    for path, config, split in sorted(found - wanted, key=str):
        yield f"{readme}: gives {path} to split {split} of {config}"
    for path, config, split in sorted(wanted - found):
        yield f"{readme}: does not give {path} to split {split} of {config}"
