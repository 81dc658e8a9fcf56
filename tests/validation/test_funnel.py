"""Every line read stands in exactly one place; whatever breaks that stops the stage with the numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oresmith.errors import AccountingError
from oresmith.validation.funnel import NO_PROBLEM, Placed, full_funnel

FILE = {"snapshot": "s", "file": "f.jsonl"}
PLACE = {"snapshot": pl.String, "file": pl.String, "line": pl.Int64}


def places(*lines: int, **more: object) -> pl.DataFrame:
    return pl.DataFrame([FILE | {"line": line} | more for line in lines], schema=PLACE | dict.fromkeys(more, pl.String))


def decision(line: int, pool: str | None, *reasons: str) -> dict[str, object]:
    published = pool in ("train", "dev")
    return FILE | {
        "line": line,
        "accepted": not reasons,
        "reasons": list(reasons),
        "pool": pool,
        "published": published,
    }


def world() -> Placed:
    """Lines 1..8: unreadable, train, dev, heldout, sub-task of train, failed, over the cap, of no known problem."""
    decided = [
        decision(2, "train"),
        decision(3, "dev"),
        decision(4, "heldout@2026-05-02"),
        decision(5, "train", "origin_subtask"),
        decision(6, "train", "outcome", "reasoning"),
        decision(7, "train"),
        decision(8, None),
    ]
    rejects = pl.concat(
        [
            places(1, stage="normalize", reason="blank_line"),
            places(6, stage="gate", reason="outcome"),
            places(7, stage="corpus", reason="over_cluster_cap"),
        ]
    )
    withheld = [FILE | {"pool": pool, "rows": 1} for pool in ("heldout@2026-05-02", NO_PROBLEM)]
    return Placed(
        read=pl.DataFrame([FILE | {"read": 8}]),
        unreadable=places(1, reason="blank_line"),
        decided=pl.DataFrame(decided),
        trajectories=places(2, 3),
        subtask=places(5),
        rejects=rejects,
        withheld=pl.DataFrame(withheld),
    )


def test_the_funnel_of_a_file_adds_up_and_names_every_place() -> None:
    funnel = full_funnel(world())
    (file,) = funnel.files
    assert (file.read, file.trajectories, file.subtask) == (8, 2, 1)
    assert file.withheld == {"heldout@2026-05-02": 1, NO_PROBLEM: 1}
    assert list(file.rejects.items()) == [("blank_line", 1), ("outcome", 1), ("over_cluster_cap", 1)]
    assert (funnel.read, funnel.withheld, funnel.rejects) == (file.read, file.withheld, file.rejects)


def test_rejects_of_a_code_nobody_knows_are_counted_last() -> None:
    placed = world()
    strange = placed.rejects.with_columns(pl.col("reason").replace("over_cluster_cap", "aaa_new_code"))
    assert list(full_funnel(placed._replace(rejects=strange)).rejects) == ["blank_line", "outcome", "aaa_new_code"]


def without(frame: pl.DataFrame, line: int) -> pl.DataFrame:
    return frame.filter(pl.col("line") != line)


BREAKS: dict[str, tuple[Callable[[Placed], Placed], str]] = {
    "a hidden reject of the gate": (
        lambda p: p._replace(rejects=without(p.rejects, 6)),
        "rejected rows have vanished",
    ),
    "a hidden reject of normalize": (lambda p: p._replace(rejects=without(p.rejects, 1)), "have vanished"),
    "a hidden reject of the corpus": (lambda p: p._replace(rejects=without(p.rejects, 7)), "have vanished"),
    "a train row left out": (lambda p: p._replace(trajectories=places(3)), "have vanished"),
    "a dev row left out": (lambda p: p._replace(trajectories=places(2)), "have vanished"),
    "a row in two configs": (lambda p: p._replace(subtask=places(5, 2)), "published twice"),
    "a row twice in one config": (lambda p: p._replace(trajectories=places(2, 3, 3)), "published twice"),
    "a row that was never read": (lambda p: p._replace(trajectories=places(2, 3, 9)), "never read"),
    "a held-out row published and not counted as withheld": (
        lambda p: p._replace(trajectories=places(2, 3, 4)),
        "not what stage corpus states",
    ),
    "two rows swapped, so that every sum stays": (
        lambda p: p._replace(trajectories=places(2, 3, 5), subtask=places()),
        "the gate did not accept",
    ),
    "a swap between subtask and rejects": (
        lambda p: p._replace(
            subtask=places(6),
            rejects=p.rejects.with_columns(
                pl.when(pl.col("line") == 6).then(pl.lit(5)).otherwise("line").alias("line")
            ),
        ),
        "only reject reason is not its origin",
    ),
    "a reject under another reason": (
        lambda p: p._replace(rejects=p.rejects.with_columns(pl.col("reason").replace("outcome", "reasoning"))),
        "another reason than the one that decided",
    ),
    "a reject of corpus that the gate had not accepted": (
        lambda p: p._replace(rejects=p.rejects.with_columns(pl.col("stage").replace("gate", "corpus"))),
        "had not accepted",
    ),
    "a line that no stage decided": (
        lambda p: p._replace(read=p.read.with_columns(read=pl.lit(9))),
        "no stage decided",
    ),
    "a line that two stages decided": (lambda p: p._replace(unreadable=places(1, 2, reason="x")), "read twice"),
    "withheld rows of another pool": (
        lambda p: p._replace(withheld=p.withheld.with_columns(pl.col("pool").replace(NO_PROBLEM, "quarantine"))),
        "not what stage corpus states",
    ),
    "withheld rows of a file that is not there": (
        lambda p: p._replace(
            withheld=pl.concat([p.withheld, pl.DataFrame([FILE | {"file": "g", "pool": "dev", "rows": 1}])])
        ),
        "never read are withheld",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_row_in_no_place_or_a_wrong_one_stops_the_stage(name: str) -> None:
    change, message = BREAKS[name]
    with pytest.raises(AccountingError, match=message):
        full_funnel(change(world()))


def test_a_refusal_names_the_row_and_how_many() -> None:
    with pytest.raises(AccountingError, match=r"s/f.jsonl:6.*\n.*\n.*1 rows, this first"):
        full_funnel(world()._replace(rejects=without(world().rejects, 6)))


def test_an_input_without_any_published_row_adds_up() -> None:
    placed = Placed(
        read=pl.DataFrame([FILE | {"read": 1}]),
        unreadable=places(1, reason="blank_line"),
        decided=pl.DataFrame([decision(2, "train")]).clear(),
        trajectories=places(),
        subtask=places(),
        rejects=places(1, stage="normalize", reason="blank_line"),
        withheld=pl.DataFrame(schema={"snapshot": pl.String, "file": pl.String, "pool": pl.String, "rows": pl.Int64}),
    )
    assert full_funnel(placed).rejects == {"blank_line": 1}


FATES = ["blank_line", "outcome", "over_cluster_cap", "trajectories", "subtask", "heldout@2026-05-02"]


def placed(fates: list[str]) -> Placed:
    """Line n + 1 has the n-th fate."""
    lines = {fate: [line for line, own in enumerate(fates, 1) if own == fate] for fate in FATES}
    reasons = {"outcome": ["outcome"], "subtask": ["origin_subtask"]}
    stages = {"blank_line": "normalize", "outcome": "gate", "over_cluster_cap": "corpus"}
    decided = [
        decision(line, fate if fate.startswith("heldout") else "train", *reasons.get(fate, []))
        for line, fate in enumerate(fates, 1)
        if fate != "blank_line"
    ]
    held = len(lines["heldout@2026-05-02"])
    return Placed(
        read=pl.DataFrame([FILE | {"read": len(fates)}]),
        unreadable=places(*lines["blank_line"], reason="blank_line"),
        decided=pl.DataFrame([*decided, decision(0, "train", "x")]).head(len(decided)),
        trajectories=places(*lines["trajectories"]),
        subtask=places(*lines["subtask"]),
        rejects=pl.concat([places(*lines[code], stage=stage, reason=code) for code, stage in stages.items()]),
        withheld=pl.DataFrame([FILE | {"pool": "heldout@2026-05-02", "rows": held}]),
    )


@given(st.lists(st.sampled_from(FATES), min_size=1, max_size=12))
def test_any_input_adds_up(fates: list[str]) -> None:
    funnel = full_funnel(placed(fates))
    counted = {"trajectories": funnel.trajectories, "subtask": funnel.subtask, **funnel.withheld, **funnel.rejects}
    assert {fate: count for fate, count in counted.items() if count} == Counter(fates)


@given(st.data())
def test_one_row_in_a_wrong_place_is_always_found(data: st.DataObject) -> None:
    fates = data.draw(st.lists(st.sampled_from(FATES), min_size=1, max_size=8))
    line = data.draw(st.integers(1, len(fates)))
    sound = placed(fates)
    wrong = data.draw(st.sampled_from(["trajectories", "subtask", "rejects", None]))
    tables = {name: without(getattr(sound, name), line) for name in ("trajectories", "subtask", "rejects")}
    if wrong == "rejects":
        tables["rejects"] = pl.concat([tables["rejects"], places(line, stage="gate", reason="outcome")])
    elif wrong:
        tables[wrong] = pl.concat([tables[wrong], places(line)])
    fate = fates[line - 1]
    # Whether a row under the cap was cut, or one over it was not, is for the check of the caps.
    fits = {"outcome": ["rejects"], "subtask": ["subtask"], "heldout@2026-05-02": [None]}.get(fate, [])
    if wrong in fits or (wrong == "trajectories" and fate in ("trajectories", "over_cluster_cap")):
        full_funnel(sound._replace(**tables))
    else:
        with pytest.raises(AccountingError):
            full_funnel(sound._replace(**tables))
