"""Gates of the dataset: certificate, funnel, contracts, secrets, sizes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from oresmith.errors import OresmithError
from oresmith.release.given import Given, read_as, read_json
from oresmith.release.layout import CONFIGS, RELEASE_FILE, ROLLOUTS

ROW_GROUP_LIMIT = 286 * 2**20
"""Uncompressed bytes; the Hub's viewer gives up above."""
FOLDER_LIMIT, TREE_LIMIT, LARGE_LIMIT = 10_000, 100_000, 25_000
"""Files in a folder, in a repository, and large ones in one commit."""
FILE_LIMIT = 50 * 10**9
"""Bytes of one file, as the Hub advises."""
REGULAR_LIMIT = 1_000_000_000
"""Bytes that are no large files, in one commit."""
_TEXTS = {".md", ".json", ".yaml", ".tsv", ".jinja", ".txt"}
_LARGE_TEXT = 32 * 2**20
_HASHES = ("tokenizer.json", "keys.tsv", "contamination.tsv", "certificate.json", RELEASE_FILE)
"""Texts that are not searched: hashes, and words that a tokenizer knows."""


def certificate(given: Given) -> str:
    """Whether the certificate holds for the files beside it, as its own verifier says."""
    from oresmith.audit import verify_certificate

    shipped, ours = given.dataset / "verify_certificate.py", Path(verify_certificate.__file__)
    if not shipped.is_file() or shipped.read_bytes() != ours.read_bytes():
        raise OresmithError("not the verifier of this code", where=str(shipped), todo="run `dvc repro`")
    told: list[str] = []
    checker = verify_certificate.Checker(given.dataset, given.dataset, told.append)
    if checker.run():
        raise OresmithError(next(line for line in told if line.startswith("FAIL"))[5:])
    stated = checker.certificate.get("release")
    if stated != given.params.release.version:
        raise OresmithError(
            "the certificate is of another release", expected=given.params.release.version, got=str(stated)[:40]
        )
    digest = hashlib.sha256((given.dataset / "certificate/certificate.json").read_bytes()).hexdigest()
    return f"{len(checker.certificate['claims'])} claims hold, sha256 {digest}"


class _Place(msgspec.Struct):
    read: int
    trajectories: int
    subtask: int
    withheld: dict[str, int]
    rejects: dict[str, int]

    def out(self) -> int:
        """Rows that are in one of the places."""
        return self.trajectories + self.subtask + sum(self.withheld.values()) + sum(self.rejects.values())


class _File(_Place):
    snapshot: str
    file: str


class _Funnel(_Place):
    files: list[_File]


class _Account(msgspec.Struct):
    snapshot: str
    file: str
    read: int
    trajectories: int
    subtask: int
    withheld: dict[str, int]
    rejected: dict[str, int]


class _Certificate(msgspec.Struct):
    counts: dict[str, dict[str, dict[str, int]]]
    accounts: list[_Account]


def funnel(given: Given) -> str:
    """Whether every line read stands in one place: in all, of each file, as certified, and as the files hold rows."""
    path = given.dataset / "funnel.json"
    told = read_as(path, _Funnel)
    stated = read_as(given.dataset / "certificate/certificate.json", _Certificate)
    for part in (told, *told.files):
        if part.read != part.out():
            name = f"{part.snapshot}/{part.file}" if isinstance(part, _File) else "all files"
            raise OresmithError(
                "the funnel does not add up",
                where=f"{path}: {name}",
                expected=f"{part.read} rows read",
                got=f"{part.out()} accounted for, {part.read - part.out():+d} unexplained",
            )
    sums: Counter[str] = Counter()
    for one in told.files:
        sums.update(_flat(one))
    if dict(sums) != _flat(told):
        raise OresmithError("the files of the funnel do not add up to its totals", where=str(path))
    accounts = {
        (one.snapshot, one.file): (one.read, one.trajectories, one.subtask, one.withheld, one.rejected)
        for one in stated.accounts
    }
    if accounts != {
        (one.snapshot, one.file): (one.read, one.trajectories, one.subtask, one.withheld, one.rejects)
        for one in told.files
    }:
        raise OresmithError("the funnel and the certificate give other accounts of the input files", where=str(path))
    for config, count in (
        ("trajectories", told.trajectories),
        ("subtask", told.subtask),
        ("rejects", sum(told.rejects.values())),
    ):
        rows = sum(_rows(file) for file in (given.dataset / config).glob("*.parquet"))
        if rows != count:
            raise OresmithError(
                f"{config} does not hold the funnel's rows", where=str(path), expected=str(count), got=str(rows)
            )
    return f"{told.read} lines read, each in one place"


def _flat(place: _Place) -> dict[str, int]:
    found = {"read": place.read, "trajectories": place.trajectories, "subtask": place.subtask}
    found |= {f"withheld {name}": count for name, count in place.withheld.items()}
    found |= {f"rejected {name}": count for name, count in place.rejects.items()}
    return {name: count for name, count in found.items() if count}


def contracts(given: Given) -> str:
    """Whether the corpus was validated, this one, and its files have the columns of their contracts."""
    from schemas.corpus import CONFIGS as COLUMNS
    from schemas.corpus import arrow_schema
    from schemas.rollouts import ARROW as ROLLOUT

    path = given.dataset / "validation.json"
    told = read_json(path)
    digest = hashlib.sha256((given.dataset / "certificate/certificate.json").read_bytes()).hexdigest()
    if told.get("valid") is not True or told.get("certificate_sha256") != digest:
        raise OresmithError(
            "this corpus was not validated",
            where=str(path),
            expected=f"valid, certificate {digest}",
            got=f"{told.get('valid')}, certificate {told.get('certificate_sha256')}"[:120],
        )
    counted: Counter[str] = Counter()
    for config in CONFIGS:
        if config != ROLLOUTS and config not in COLUMNS:
            raise OresmithError("a config without a contract", got=config)
        wanted = ROLLOUT if config == ROLLOUTS else arrow_schema(config)
        for file in sorted((given.dataset / config).iterdir() if (given.dataset / config).is_dir() else ()):
            if file.suffix != ".parquet":
                raise OresmithError("a config holds Parquet files alone, or it does not load", where=str(file))
            if not _metadata(file).schema.to_arrow_schema().remove_metadata().equals(wanted.remove_metadata()):
                raise OresmithError("a file has other columns than its contract", where=str(file))
            counted[config] += _rows(file)
    for entry in told.get("configs", []):
        counted.subtract({str(entry.get("config")): int(entry.get("rows", 0))})
    for config, rest in counted.items():
        if rest and config != ROLLOUTS:
            raise OresmithError("rows were added or taken after the validation", where=config, got=f"{rest:+d}")
    return f"{len(told.get('contracts', []))} contracts hold"


def secrets(given: Given) -> str:
    """Whether no text that came after the corpus holds a secret: cards, figures' texts, rollouts, accounts of training.

    The rows of the corpus were searched when their evidence was made, and validated for it.
    """
    from oresmith.evidence.secrets import find_secrets_in

    searched = 0
    for where, value in _texts(given):
        searched += 1
        for finding in find_secrets_in(where, value):
            if finding.kind == "secret":
                raise OresmithError(f"a secret ({finding.type}) stands in what would be published", where=where)
    return f"none in {searched} texts that came after the corpus; its rows were searched when they were judged"


def _texts(given: Given) -> Iterator[tuple[str, Any]]:
    for folder in (given.dataset, given.model):
        for path in sorted(folder.rglob("*")):
            name = f"{folder.name}/{path.relative_to(folder).as_posix()}"
            listed = path.name in _HASHES
            if path.is_file() and path.suffix in _TEXTS and not listed and "/schemas/" not in name:
                if path.stat().st_size > _LARGE_TEXT:
                    raise OresmithError("too long a text to be searched", where=name)
                yield name, path.read_text("utf-8", "replace")
    for path in sorted((given.dataset / ROLLOUTS).glob("*.parquet")):
        table = pq.read_table(path, columns=["row_id", "query", "messages"])
        for number, row in enumerate(table.to_pylist(), 1):
            yield (
                f"{given.dataset.name}/{ROLLOUTS}/{path.name}: row {number}",
                {"query": row["query"], "messages": row["messages"]},
            )


def sizes(given: Given) -> str:
    """Whether the Hub takes both repositories in one commit each, and its viewer shows the rows."""
    told = []
    for folder in (given.dataset, given.model):
        files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path != folder / RELEASE_FILE]
        fullest = Counter(path.parent for path in files).most_common(1)
        large = [path for path in files if path.suffix in (".parquet", ".safetensors", ".zst", ".png")]
        regular = sum(path.stat().st_size for path in files if path not in set(large))
        for what, got, limit in (
            ("files in one folder", fullest[0][1] if fullest else 0, FOLDER_LIMIT),
            ("files", len(files), TREE_LIMIT),
            ("large files", len(large), LARGE_LIMIT),
            ("bytes beside the large files", regular, REGULAR_LIMIT),
            ("bytes of one file", max((path.stat().st_size for path in files), default=0), FILE_LIMIT),
        ):
            if got >= limit:
                raise OresmithError(
                    f"too many {what} for the Hub", where=str(folder), expected=f"fewer than {limit}", got=str(got)
                )
        told.append(f"{folder.name} {len(files)} files, {sum(path.stat().st_size for path in files)} bytes")
    for path in sorted(given.dataset.rglob("*.parquet")):
        metadata = _metadata(path)
        for place in range(metadata.num_row_groups):
            if metadata.row_group(place).total_byte_size > ROW_GROUP_LIMIT:
                raise OresmithError(
                    "a row group is too large for the Hub's viewer",
                    where=str(path),
                    expected=f"at most {ROW_GROUP_LIMIT} bytes",
                    todo="lower corpus.row_group_bytes",
                )
    return "; ".join(told)


def _metadata(path: Path) -> pq.FileMetaData:
    try:
        return pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise OresmithError("a Parquet file cannot be read", where=str(path), got=str(error)[:200]) from error


def _rows(path: Path) -> int:
    rows: int = _metadata(path).num_rows
    return rows
