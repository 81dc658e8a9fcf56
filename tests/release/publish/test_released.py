"""`oresmith publish X.Y.Z`: from `releases/` and `data/bundle` to the embedded Hub, which is started and stopped."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from oresmith.errors import OresmithError
from oresmith.release.layout import PUBLISHED_FILE, YANKED_FILE
from oresmith.release.manifest import Published, Yanked, encode, read_record
from oresmith.release.publish import publishing
from oresmith.release.publish.released import publish_release
from oresmith.release.publish.target import PublishError
from tests.release.publish.small import small_bundle


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one release that was cut; the loading back is left out (test_publishing has it)."""
    small_bundle(tmp_path / "data/bundle")
    (tmp_path / "releases/1.0.0").mkdir(parents=True)
    shutil.copy(tmp_path / "data/bundle/release.json", tmp_path / "releases/1.0.0/release.json")
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr(publishing, "load_back", lambda *_: None)
    return tmp_path


def test_the_embedded_hub_takes_it_and_keeps_it(project: Path) -> None:
    told: list[str] = []
    first = publish_release("1.0.0", project, port=0, tell=told.append)
    assert first is not None
    assert told[-4].startswith(f"published 1.0.0 at {first.endpoint}")
    assert "acme/things@1.0.0" in told[-1]
    assert read_record(project / "releases/1.0.0" / PUBLISHED_FILE, Published) == first
    again = publish_release("1.0.0", project, port=0, tell=told.append)
    assert again is not None and (again.dataset, again.model) == (first.dataset, first.model)


def test_a_dry_run_writes_nothing_down(project: Path) -> None:
    told: list[str] = []
    assert publish_release("1.0.0", project, port=0, dry_run=True, tell=told.append) is None
    assert told[0] == "dataset acme/things: create it, private"
    assert not (project / "releases/1.0.0" / PUBLISHED_FILE).exists()


def test_what_was_not_cut_or_is_yanked_is_refused(project: Path) -> None:
    with pytest.raises(OresmithError, match="no such release"):
        publish_release("2.0.0", project)
    (project / "releases/1.0.0" / YANKED_FILE).write_bytes(encode(Yanked(version="1.0.0", reason="a leak")))
    with pytest.raises(OresmithError, match="this release is yanked"):
        publish_release("1.0.0", project)
    assert not (project / "hub").exists()


def test_a_bundle_of_another_release_is_refused(project: Path) -> None:
    shutil.rmtree(project / "data/bundle")
    small_bundle(project / "data/bundle", rows=9)
    with pytest.raises(OresmithError, match="the bundle is not the release that was cut"):
        publish_release("1.0.0", project)
    assert not (project / "hub").exists()


def test_the_command_is_there(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import typer
    from typer.testing import CliRunner

    from oresmith.cli_publish import register

    app = typer.Typer()
    register(app)
    app.command()(lambda: None)
    monkeypatch.chdir(project)
    done = CliRunner().invoke(app, ["publish", "1.0.0", "--port", "0", "--dry-run"])
    assert done.exit_code == 0 and "delete branch staging/1.0.0" in done.stdout


def test_a_yank_finds_the_embedded_hub_again(project: Path) -> None:
    from oresmith.release.publish.released import open_target
    from tests.release.publish.hubs import free_port

    port = free_port()
    found = publish_release("1.0.0", project, port=port)
    assert found is not None and found.endpoint == f"http://127.0.0.1:{port}"
    release = small_bundle(project / "same")
    with open_target(release, found.endpoint, hub=project / "hub", port=port) as target:
        assert target.endpoint == found.endpoint and target.token


def test_another_hub_than_that_of_the_note_is_refused_before_it_is_asked(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert publish_release("1.0.0", project, port=0) is not None
    note = project / "releases/1.0.0" / PUBLISHED_FILE
    before = note.read_bytes()
    monkeypatch.setenv("HF_TOKEN", "hf_any")
    with pytest.raises(PublishError, match=r"(?s)published on another Hub.*remove releases/1.0.0/published.json"):
        publish_release("1.0.0", project, endpoint="https://hub.example")
    assert note.read_bytes() == before


def test_an_embedded_hub_of_another_folder_is_another_hub(project: Path) -> None:
    assert publish_release("1.0.0", project, port=0) is not None
    with pytest.raises(PublishError, match="published on another Hub"):
        publish_release("1.0.0", project, hub=Path("elsewhere"), port=0)
    (project / "releases/1.0.0" / PUBLISHED_FILE).unlink()
    assert publish_release("1.0.0", project, hub=Path("elsewhere"), port=0) is not None
