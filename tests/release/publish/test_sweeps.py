"""Whatever goes wrong at whichever request: a kill is mended by one more run, a fault within the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.release.publish.conftest import KINDS
from tests.release.publish.hubs import FAULTS, KILLS, Mode, needs_hubd
from tests.release.publish.sweeping import Publisher, strike

XET = "xet-write-token|/cas/"
"""Xet's own requests, most of them made by its Rust side."""
ENDS = {"kill_before": ["killed", "ok"], "kill_after": ["killed", "ok"]}
PUBLISHED = {"dataset": ["Release 1.0.0", "initial commit"], "model": ["Release 1.0.0", "initial commit"]}


def check_point(worker: Publisher, kind: str, root: Path, mode: Mode, at: int, only: str = "") -> str:  # noqa: PLR0917
    """One fault at one request; what it struck, empty where there are not so many."""
    outcome = strike(worker, kind, root, (mode, at), only)
    assert outcome.whole, f"{mode} at {outcome.struck}: main showed a part of the release"
    assert outcome.said == (ENDS.get(mode, ["ok"]) if outcome.struck else ["ok"]), f"{mode} at {outcome.struck}"
    for part, titles in PUBLISHED.items():
        stands = outcome.stands[part]
        assert stands["main"] == titles and stands["tags"] == {"1.0.0": titles}, f"{mode} at {outcome.struck}"
        assert (stands["branches"], stands["same"], stands["private"]) == (["main"], True, False)
    return outcome.struck


def sweep(worker: Publisher, kind: str, root: Path, mode: Mode, only: str = "") -> int:
    """Every request in turn; how many there were."""
    points = 0
    while check_point(worker, kind, root / str(points), mode, points, only):
        points += 1
    return points


SAMPLE: list[tuple[Mode, int]] = [
    ("kill_after", 3),  # the repository is made
    ("kill_before", 19),  # all is uploaded
    ("kill_after", 19),  # the commit is there
    ("kill_after", 22),  # .. and the tag
    ("kill_before", 45),  # both are shown and listed
    ("503", 0),
    ("429", 37),
    ("412", 50),
    ("409", 3),
    ("lost", 19),
    ("hang", 5),
]


@pytest.mark.parametrize(("mode", "at"), SAMPLE)
def test_one_thing_going_wrong_changes_nothing_in_the_end(
    lfs_worker: Publisher, tmp_path: Path, mode: Mode, at: int
) -> None:
    assert check_point(lfs_worker, "embedded", tmp_path, mode, at)


@needs_hubd
@pytest.mark.parametrize(("mode", "at"), [("kill_after", 8), ("lost", 7), ("503", 1)])
def test_the_same_holds_for_xet(xet_worker: Publisher, tmp_path: Path, mode: Mode, at: int) -> None:
    assert check_point(xet_worker, "hubd", tmp_path, mode, at, XET)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", [*KILLS, *FAULTS])
@pytest.mark.parametrize("kind", KINDS)
def test_every_request_may_fail_in_every_way(lfs_worker: Publisher, kind: str, tmp_path: Path, mode: Mode) -> None:
    assert sweep(lfs_worker, kind, tmp_path, mode) > 50


@pytest.mark.slow
@needs_hubd
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", [*KILLS, *FAULTS])
def test_every_request_of_xet_may_fail_in_every_way(xet_worker: Publisher, tmp_path: Path, mode: Mode) -> None:
    assert sweep(xet_worker, "hubd", tmp_path, mode, XET) > 10
