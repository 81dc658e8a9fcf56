"""`oresmith export`: the accepted trajectories of the last run, in a format that others read."""

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

FORMATS = (Format.OPENAI, Format.ATIF, Format.SN15_ENVELOPE)
_OWN = Limits(max_line_bytes=512 * 2**20, max_ratio=1e6)


def export_accepted(params: Params, data: Path, out: Path, target: str) -> int:
    """Write one JSON line an accepted trajectory, snapshots in their order, rows in theirs.

    Args:
        params: for the list of snapshots.
        data: the pipeline's data directory.
        out: appears whole or not at all.
        target: openai-messages, atif or sn15-envelope.

    Returns:
        Rows written.

    Raises:
        OresmithError: an unknown target format, no finished run, or a row that the target format cannot carry.
    """
    if target not in {known.value for known in FORMATS}:
        known = ", ".join(known.value for known in FORMATS)
        raise OresmithError("no such export format", where="--format", expected=known, got=target)
    decisions = data / "gate" / "decisions.parquet"
    if not decisions.is_file():
        raise OresmithError("there are no decisions", where=str(decisions), todo="run `dvc repro`")
    accepted = set(pl.read_parquet(decisions).filter("accepted").select("snapshot", "file", "line").iter_rows())
    out.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with tempfile.NamedTemporaryFile(dir=out.parent, prefix=f".{out.name}.", delete=False) as writer:
        temporary = Path(writer.name)
        try:
            for trajectory in _trajectories(params, data):
                source = trajectory.source
                if (source.snapshot, source.file, source.line) in accepted:
                    writer.write(msgspec.json.encode(_row(trajectory, Format(target))) + b"\n")
                    written += 1
            writer.flush()
            if written != len(accepted):
                raise OresmithError(
                    "accepted rows are missing from the normalised trajectories",
                    where=str(data),
                    expected=str(len(accepted)),
                    got=str(written),
                    todo="run `dvc repro`",
                )
            temporary.chmod(0o644)
            temporary.replace(out)
        finally:
            temporary.unlink(missing_ok=True)
    return written


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
