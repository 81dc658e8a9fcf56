"""Two publishers at one repository: one wins, the other refuses or finds its own release; `main` is always whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.release.publish.hubs import Running
from tests.release.publish.small import small_bundle
from tests.release.publish.sweeping import Publisher, main_is_whole, publisher, stands
from tests.release.publish.test_publishing import second_bundle

STAGE = "POST /api/datasets/acme/things/commit/staging"
TAG = "POST /api/datasets/acme/things/tag/"
MODEL = "POST /api/models/acme/things-model/commit/staging"
MAIN = "POST /api/datasets/acme/things/commit/main"
CREATE = "POST /api/repos/create"
CLEAN = "DELETE /api/datasets/acme/things/branch"


@pytest.fixture(scope="module")
def rival(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Publisher]:
    """Somebody else, who publishes while the other's request waits."""
    with publisher(tmp_path_factory.mktemp("rival"), xet=False) as worker:
        yield worker


def race(hub: Running, worker: Publisher, rival: Publisher, bundle: Path, at: str) -> tuple[str, str]:
    """What the publisher says whose request waits, and the one who does everything meanwhile."""
    said: list[str] = []
    hub.trouble.meanwhile = lambda: said.append(rival.run(hub, bundle, timeout=60))
    hub.trouble.reset("meanwhile", 0, at)
    first = worker.run(hub, timeout=600)
    return first, said[0]


@pytest.mark.parametrize("at", [CREATE, STAGE, TAG, MAIN, CLEAN])
def test_two_with_the_same_release_both_end_well(
    hub: Running, lfs_worker: Publisher, rival: Publisher, at: str
) -> None:
    assert race(hub, lfs_worker, rival, lfs_worker.bundle, at) == ("ok", "ok")
    found = stands(hub)
    for kind in ("dataset", "model"):
        assert found[kind]["main"] == found[kind]["tags"]["1.0.0"] == ["Release 1.0.0", "initial commit"]
        assert found[kind]["branches"] == ["main"]


@pytest.mark.parametrize(("at", "winner"), [(CREATE, 1), (STAGE, 1), (TAG, 0), (MODEL, 0), (MAIN, 0)])
def test_of_two_releases_of_one_version_one_wins(  # noqa: PLR0917
    hub: Running, lfs_worker: Publisher, rival: Publisher, tmp_path: Path, at: str, winner: int
) -> None:
    small_bundle(tmp_path / "other", rows=7)
    said = race(hub, lfs_worker, rival, tmp_path / "other", at)
    assert said[winner] == "ok"
    assert (
        "holds another release of this version" in said[1 - winner] or "exists with other content" in said[1 - winner]
    )
    found = stands(hub)["dataset"]
    assert found["main"] == found["tags"]["1.0.0"] == ["Release 1.0.0", "initial commit"]
    assert main_is_whole(hub, (lfs_worker.bundle, tmp_path / "other")[winner])


def test_a_newer_release_that_was_faster_stays_on_main(
    hub: Running, lfs_worker: Publisher, rival: Publisher, tmp_path: Path
) -> None:
    second_bundle(tmp_path / "second", lfs_worker.bundle)
    assert race(hub, lfs_worker, rival, tmp_path / "second", MAIN) == ("ok", "ok")
    found = stands(hub)
    assert found["dataset"]["main"][0] == "Release 1.1.0" and found["dataset"]["branches"] == ["main"]
    assert main_is_whole(hub, tmp_path / "second")
    assert set(found["model"]["tags"]) == {"1.0.0", "1.1.0"} and found["model"]["main"][0] == "Release 1.1.0"
