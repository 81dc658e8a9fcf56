"""The scores of two releases held against each other, with paired tests where both played the same problems alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from oresmith.errors import OresmithError


class ScoreChange(msgspec.Struct, frozen=True, kw_only=True):
    """One model's rate of success in both releases."""

    model: str
    old: str | None
    """`k of n (low to high %)`; None where it was not evaluated."""
    new: str | None
    difference: str
    """With its interval and the test's p, or why the two cannot be compared."""


def score_changes(old: Path, new: Path) -> list[ScoreChange]:
    """Compare the scores of each model that either release evaluated.

    Args:
        old: folder of NAME.json and NAME.parquet.
        new: the same of the later release.

    Raises:
        OresmithError: scores cannot be read.
    """
    before, after = _documents(old), _documents(new)
    return [
        ScoreChange(
            model=name,
            old=_rate(before.get(name)),
            new=_rate(after.get(name)),
            difference=_difference(old, new, name, before.get(name), after.get(name)),
        )
        for name in sorted(before.keys() | after.keys())
    ]


def _documents(folder: Path) -> dict[str, dict[str, Any]]:
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            found[path.stem] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        except (OSError, msgspec.MsgspecError) as error:
            raise OresmithError("scores cannot be read", where=str(path), got=str(error)[:200]) from error
    return found


def _rate(document: dict[str, Any] | None) -> str | None:
    if document is None:
        return None
    try:
        rate = document["overall"]["asr"]
        return f"{rate['k']} of {rate['n']} ({100 * rate['low']:.1f} to {100 * rate['high']:.1f}%)"
    except (KeyError, TypeError) as error:
        raise OresmithError("scores without a rate", got=repr(error)[:120]) from error


def _difference(old: Path, new: Path, name: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    if before is None or after is None:
        return "evaluated in one of them only"
    first, second = (_bytes(folder / f"{name}.parquet") for folder in (old, new))
    if first == second and before == after:
        return "the same rows"
    from oresmith.evaluation.comparing import conditions_apart

    apart = [
        one.partition(":")[0] for one in conditions_apart(before.get("conditions") or {}, after.get("conditions") or {})
    ]
    return f"not comparable: other {', '.join(apart)}" if apart else _paired(first, second)


def _paired(first: bytes, second: bytes) -> str:
    """The difference of the success rates on the problems that both played, with McNemar's test or swaps."""
    import polars as pl

    from oresmith.evaluation.paired import compare_paired

    try:
        tables = [pl.read_parquet(content, columns=["key", "cluster", "success"]) for content in (first, second)]
    except (pl.exceptions.PolarsError, OSError) as error:
        raise OresmithError("the rows of a score cannot be read", got=str(error)[:200]) from error
    samples = []
    for table in tables:
        grouped = table.group_by("key", maintain_order=True).agg(pl.col("success").fill_null(False).cast(pl.Float64))
        samples.append(dict(zip(grouped["key"].to_list(), grouped["success"].to_list(), strict=True)))
    clusters = dict(zip(tables[0]["key"].to_list(), tables[0]["cluster"].to_list(), strict=True))
    found = compare_paired(samples[0], samples[1], clusters, seed="release diff asr")
    return (
        f"{100 * (found.difference or 0):+.1f} points ({_points(found.low)} to {_points(found.high)}), "
        f"{found.n} problems, {found.test} p = {found.p:.4f}"
        if found.p is not None
        else f"{100 * (found.difference or 0):+.1f} points, {found.n} problems, not tested"
    )


def _points(value: float | None) -> str:
    return "?" if value is None else f"{100 * value:+.1f}"


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise OresmithError("the rows of a score cannot be read", where=str(path), got=str(error)[:200]) from error
