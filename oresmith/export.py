"""`oresmith export`: the published trajectories of the last run, in a format that others read.

What the corpus withholds (held-out, benchmarks, quarantine, vault) or rejects is never exported.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import polars as pl

from oresmith.arena.toolschema import tools
from oresmith.errors import OresmithError
from oresmith.lines.framing import BadLine, Limits, read_lines
from oresmith.params import Params
from oresmith.records import Format, Trajectory
from oresmith.traces import CodecError, encode, to_openai

FORMATS = (Format.OPENAI, Format.ATIF)
SPLITS = ("train", "dev")
_OWN = Limits(max_line_bytes=512 * 2**20, max_ratio=1e6)


def export_published(params: Params, data: Path, out: Path, target: str, split: str) -> int:
    """Write one JSON line a published trajectory, snapshots in their order, rows in theirs.

    Args:
        params: for the list of snapshots.
        data: the pipeline's data directory.
        out: appears whole or not at all.
        target: openai-messages or atif.
        split: of the config `trajectories`: train or dev.

    Returns:
        Rows written.

    Raises:
        OresmithError: an unknown format or split, no finished corpus, or a row that the format cannot carry.
    """
    for option, asked, known in (("--format", target, [one.value for one in FORMATS]), ("--split", split, SPLITS)):
        if asked not in known:
            raise OresmithError("there is no such choice", where=option, expected=", ".join(known), got=asked)
    published = _published(data / "corpus", split)
    out.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with tempfile.NamedTemporaryFile(dir=out.parent, prefix=f".{out.name}.", delete=False) as writer:
        temporary = Path(writer.name)
        try:
            for trajectory in _trajectories(params, data):
                source = trajectory.source
                if (source.snapshot, source.file, source.line) in published:
                    writer.write(msgspec.json.encode(_row(trajectory, Format(target))) + b"\n")
                    written += 1
            writer.flush()
            if written != len(published):
                raise OresmithError(
                    "published rows are missing from the normalised trajectories",
                    where=str(data),
                    expected=str(len(published)),
                    got=str(written),
                    todo="run `dvc repro`",
                )
            temporary.chmod(0o644)
            temporary.replace(out)
        finally:
            temporary.unlink(missing_ok=True)
    return written


def _published(corpus: Path, split: str) -> set[tuple[str, str, int]]:
    """Places of the rows of a split of `trajectories`; empty where the split has none."""
    if not (corpus / "manifest.json").is_file():
        raise OresmithError("there is no corpus", where=str(corpus), todo="run `dvc repro`")
    files = sorted((corpus / "trajectories").glob(f"{split}-*.parquet"))
    return set(pl.read_parquet(files, columns=["snapshot", "file", "line"]).iter_rows()) if files else set()


def _row(trajectory: Trajectory, target: Format) -> object:
    try:
        return to_openai(trajectory, tools()) if target is Format.OPENAI else encode(trajectory, target)
    except CodecError as error:
        source = trajectory.source
        where = f"{source.snapshot}/{source.file}:{source.line}, trajectory {trajectory.trajectory_id}"
        raise OresmithError(error.what, where=where, todo="choose another --format") from error


def _trajectories(params: Params, data: Path) -> Iterator[Trajectory]:
    decoder = msgspec.json.Decoder(Trajectory)
    for entry in params.snapshots:
        folder = data / "normalize" / entry.name / "trajectories"
        for path in sorted(folder.glob("*.jsonl*")):
            for line in read_lines(path, _OWN):
                if isinstance(line, BadLine):
                    raise OresmithError("a file of an earlier stage is damaged", where=f"{path}:{line.number}")
                yield decoder.decode(line.data)
