"""Workers that publish, one for a transport."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.release.publish.hubs import HUBD, Running, any_hub
from tests.release.publish.sweeping import Publisher, publisher

KINDS = [
    "embedded",
    pytest.param("hubd", marks=pytest.mark.skipif(not HUBD.is_file(), reason="../shared/tools/hubd.py is not here")),
]


@pytest.fixture(scope="session")
def lfs_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Publisher]:
    """Publishes without Xet."""
    with publisher(tmp_path_factory.mktemp("lfs"), xet=False) as worker:
        yield worker


@pytest.fixture(scope="session")
def xet_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Publisher]:
    """Publishes as installed: by Xet where the Hub knows it."""
    with publisher(tmp_path_factory.mktemp("xet"), xet=True) as worker:
        yield worker


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Running]:
    """An empty embedded Hub."""
    with any_hub("embedded", tmp_path / "hub") as running:
        yield running


@pytest.fixture(params=KINDS)
def each_hub(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    """An empty Hub of either kind."""
    with any_hub(request.param, tmp_path / "hub") as running:
        yield running


@pytest.fixture(scope="session", autouse=True)
def quiet_proxy() -> Iterator[None]:
    """Loopback is never asked for through a proxy."""
    before = os.environ.get("NO_PROXY")
    os.environ["NO_PROXY"] = "127.0.0.1,localhost"
    yield
    if before is None:
        del os.environ["NO_PROXY"]
    else:
        os.environ["NO_PROXY"] = before
