"""The corpus as files: what stands in it, within the limits of the Hub and its viewer, and loadable by `datasets`."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from oresmith.corpus.shards import File, corpus_files
from oresmith.errors import OresmithError
from schemas.corpus import CONFIGS, arrow_schema

ROW_GROUP_LIMIT = 286 * 2**20
"""Uncompressed bytes; the Hub's viewer gives up above."""
FOLDER_LIMIT = 10_000
"""Files in one folder, as the Hub advises."""
TREE_LIMIT = 100_000
"""Files in one repository."""
BESIDE = {"README.md", "manifest.json", "report.json", "corpus.json"}
_NAME = re.compile(r"[a-z][a-z0-9_]*-\d{3,}-[a-z0-9][a-z0-9_-]{0,63}-\d{5,}\.parquet")


class SplitFiles(NamedTuple):
    """The files of one split of one config."""

    config: str
    split: str
    files: int
    rows: int
    bytes: int
    largest_row_group: int


def check_files(corpus: Path) -> list[SplitFiles]:
    """Check names, schemas, row groups and numbers of files.

    Returns:
        One entry a split, in the order of the configs.

    Raises:
        OresmithError: naming the file and the limit.
    """
    for path in sorted(corpus.rglob("*.parquet")):
        _metadata(path)
    found = corpus_files(corpus, CONFIGS)
    _check_tree(corpus, found)
    splits: dict[tuple[str, str], SplitFiles] = {}
    for file in found:
        rows, largest = _check_parquet(file)
        old = splits.get((file.config, file.split), SplitFiles(file.config, file.split, 0, 0, 0, 0))
        splits[file.config, file.split] = old._replace(
            files=old.files + 1,
            rows=old.rows + rows,
            bytes=old.bytes + file.path.stat().st_size,
            largest_row_group=max(old.largest_row_group, largest),
        )
    return list(splits.values())


def _check_tree(corpus: Path, found: Sequence[File]) -> None:
    known = {file.path for file in found}
    everything = [path for path in sorted(corpus.rglob("*")) if not path.is_dir() or path.is_symlink()]
    for path in everything:
        name = path.relative_to(corpus).as_posix()
        if path.is_symlink() or not (name in BESIDE or (path in known and _NAME.fullmatch(path.name))):
            raise OresmithError("a file that is no part of a corpus", where=str(path), todo="run `dvc repro corpus`")
    fullest = max(Counter(path.parent for path in everything).values(), default=0)
    for count, limit, what in ((fullest, FOLDER_LIMIT, "in one folder"), (len(everything), TREE_LIMIT, "in all")):
        if count >= limit:
            raise OresmithError(
                f"too many files {what} for the Hub",
                where=str(corpus),
                expected=f"fewer than {limit}",
                got=str(count),
                todo="raise corpus.shard_bytes",
            )


def _check_parquet(file: File) -> tuple[int, int]:
    """Rows, and bytes of the largest row group."""
    wanted = arrow_schema(file.config)
    metadata = _metadata(file.path)
    schema = metadata.schema.to_arrow_schema()
    stated = schema.metadata or {}
    same = all(stated.get(key) == value for key, value in (wanted.metadata or {}).items())
    if not schema.remove_metadata().equals(wanted.remove_metadata()) or not same:
        differing = [field.name for field in schema if field not in list(wanted)]
        raise OresmithError(
            "a file has another schema than its config",
            where=str(file.path),
            expected=f"{(wanted.metadata or {}).get(b'schema', b'').decode()}, config {file.config}",
            got=f"differing columns: {', '.join(differing) or 'none, but other metadata or order'}"[:300],
        )
    largest = max((metadata.row_group(place).total_byte_size for place in range(metadata.num_row_groups)), default=0)
    if largest > ROW_GROUP_LIMIT:
        raise OresmithError(
            "a row group is too large for the Hub's viewer",
            where=str(file.path),
            expected=f"at most {ROW_GROUP_LIMIT} bytes",
            got=str(largest),
            todo="lower corpus.row_group_bytes",
        )
    return metadata.num_rows, largest


def _metadata(path: Path) -> pq.FileMetaData:
    try:
        return pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise OresmithError("a Parquet file cannot be read", where=str(path), got=str(error)[:300]) from error


def check_loads(corpus: Path, files: Iterable[File], cache: Path) -> list[str]:
    """Open every config as its users do (`datasets`, streaming) and read the first row of each split.

    Args:
        corpus: a directory with the card's front matter.
        files: what must be found, by config and split.
        cache: takes what `datasets` caches.

    Returns:
        The configs that were opened.

    Raises:
        OresmithError: a config that does not open, or opens with other files or features.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when `datasets` is imported: nothing here is for the network
    os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
    import datasets

    wanted: dict[str, dict[str, list[str]]] = {}
    for file in files:
        wanted.setdefault(file.config, {}).setdefault(file.split, []).append(str(file.path.resolve()))
    for config, splits in wanted.items():
        where = f"{corpus}, config {config}"
        try:
            builder = datasets.load_dataset_builder(str(corpus.resolve()), config, cache_dir=str(cache))
            found = {str(split): sorted(map(str, paths)) for split, paths in builder.config.data_files.items()}
            opened = builder.as_streaming_dataset()
            first = {name: list(next(iter(rows))) for name, rows in opened.items()}
        except Exception as error:  # whatever `datasets` raises, its users would meet
            got = f"{type(error).__name__}: {error}"[:300]
            raise OresmithError("`datasets` does not load a config", where=where, got=got) from error
        if found != {split: sorted(paths) for split, paths in splits.items()}:
            raise OresmithError("`datasets` finds other splits or files", where=where, got=str(found)[:300])
        for name, columns in first.items():
            if not columns == list(opened[name].features) == list(CONFIGS[config]):
                raise OresmithError("`datasets` finds other columns", where=f"{where}, split {name}", got=str(columns))
    return list(wanted)
