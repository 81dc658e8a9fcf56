"""A release arrives whole, loads back, and ends the same however often it is published."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from oresmith.release.manifest import Release
from tests.release.publish.hubs import Running
from tests.release.publish.small import sealed, small_bundle, tiny_model
from tests.release.publish.sweeping import Publisher, main_is_whole, stands

WRITES = ("POST", "PUT", "DELETE", "PATCH")


def writes(hub: Running) -> list[str]:
    return [key for key in hub.trouble.seen if key.startswith(WRITES) and "/paths-info/" not in key]


def second_bundle(folder: Path, first: Path) -> Release:
    shutil.copytree(first, folder)
    return small_bundle(folder, "1.1.0", shards=3, previous="1.0.0")


def test_a_release_arrives_whole_and_loads_back(each_hub: Running, xet_worker: Publisher, tmp_path: Path) -> None:
    tiny_model(tmp_path / "b/model")
    small_bundle(tmp_path / "b", shards=2)
    answer = xet_worker.answer(each_hub, tmp_path / "b", load="real")
    assert answer["said"] == "ok"
    found = stands(each_hub)
    assert main_is_whole(each_hub, tmp_path / "b") and found["dataset"]["tree"]
    for kind in ("dataset", "model"):
        assert found[kind]["branches"] == ["main"]
        assert found[kind]["main"] == found[kind]["tags"]["1.0.0"] == ["Release 1.0.0", "initial commit"]
        assert found[kind]["same"] and not found[kind]["private"]
        assert f"{kind} acme/things{'-model' * (kind == 'model')}: load it back by tag 1.0.0" in answer["told"]
    slug = answer["published"]["collection"]
    items = each_hub.get(f"/api/collections/{slug}")["items"]
    assert {(item["type"], item["id"]) for item in items} == {
        ("dataset", "acme/things"),
        ("model", "acme/things-model"),
    }


def test_a_second_run_changes_nothing(each_hub: Running, lfs_worker: Publisher) -> None:
    first = lfs_worker.answer(each_hub)
    before = stands(each_hub)
    each_hub.trouble.reset()
    second = lfs_worker.answer(each_hub, earlier=first["published"])
    assert (second["said"], second["published"], stands(each_hub)) == ("ok", first["published"], before)
    assert all("/collections" in key for key in writes(each_hub)[:3])
    assert not [key for key in writes(each_hub) if "commit" in key or "tag" in key or "branch" in key]


def test_a_dry_run_names_every_operation_and_does_none(hub: Running, lfs_worker: Publisher, tmp_path: Path) -> None:
    for bundle in (lfs_worker.bundle, tmp_path / "second"):
        if bundle != lfs_worker.bundle:
            second_bundle(bundle, lfs_worker.bundle)
        hub.trouble.reset()
        planned = lfs_worker.answer(hub, bundle, dry_run=True)
        assert planned["published"] is None and not writes(hub)
        assert planned["told"] and planned["told"] == lfs_worker.answer(hub, bundle)["told"]


def test_a_second_release_sends_no_old_shard_again(each_hub: Running, lfs_worker: Publisher, tmp_path: Path) -> None:
    assert lfs_worker.run(each_hub) == "ok"
    release = second_bundle(tmp_path / "second", lfs_worker.bundle)
    each_hub.trouble.reset()
    assert lfs_worker.run(each_hub, tmp_path / "second") == "ok"
    old = {file.sha256 for file in json_release(lfs_worker.bundle).dataset.files}
    new = {file.sha256 for file in release.dataset.files if file.path.endswith(".parquet")} - old
    assert {
        re.split(r"[/?]", key)[-1] for key in each_hub.trouble.seen if key.startswith("PUT /") and "settings" not in key
    } == new
    found = stands(each_hub)["dataset"]
    assert found["main"][:2] == ["Release 1.1.0", "Release 1.0.0"]
    assert found["tags"]["1.0.0"] == ["Release 1.0.0", "initial commit"]
    assert main_is_whole(each_hub, tmp_path / "second")


def json_release(bundle: Path) -> Release:
    from oresmith.release.manifest import read_release

    return read_release(bundle)


def test_publishing_an_older_release_again_leaves_main_alone(
    hub: Running, lfs_worker: Publisher, tmp_path: Path
) -> None:
    second_bundle(tmp_path / "second", lfs_worker.bundle)
    assert [lfs_worker.run(hub), lfs_worker.run(hub, tmp_path / "second")] == ["ok", "ok"]
    before = stands(hub)
    again = lfs_worker.answer(hub)
    assert again["said"] == "ok" and again["published"]["dataset"]["main"] is None
    assert stands(hub) == before


def test_a_release_that_does_not_load_stays_hidden_and_off_main(hub: Running, lfs_worker: Publisher) -> None:
    assert "does not load back" in lfs_worker.run(hub, load="fails")
    found = stands(hub)
    for kind in ("dataset", "model"):
        assert found[kind]["private"] and found[kind]["main"] == ["initial commit"]
        assert list(found[kind]["tags"]) == ["1.0.0"]
    assert lfs_worker.run(hub) == "ok"
    assert stands(hub)["dataset"]["main"] == ["Release 1.0.0", "initial commit"]


def test_what_was_not_sent_is_noticed_when_it_is_loaded(hub: Running, lfs_worker: Publisher, tmp_path: Path) -> None:
    from oresmith.release.publish.loading import load_back
    from oresmith.release.publish.remote import Remote
    from oresmith.release.publish.target import PublishError, Target
    from tests.release.publish.small import HASTY

    assert lfs_worker.run(hub) == "ok"
    small_bundle(tmp_path / "other", rows=4, shards=2)
    remote = Remote(Target(hub.endpoint, hub.token, patience=HASTY), "dataset", "acme/things")
    with pytest.raises(PublishError, match=r"does not load back by its tag[\s\S]*rows"):
        load_back(remote, tmp_path / "other/dataset", "1.0.0")


def test_the_token_is_written_nowhere(hub: Running, xet_worker: Publisher, tmp_path: Path) -> None:
    tiny = tmp_path / "b"
    small_bundle(tiny)
    answers = [xet_worker.answer(hub, tiny, load="real"), xet_worker.answer(hub, tiny, token=hub.tokens["other"])]
    secrets = [hub.token, hub.tokens["other"]]
    assert not any(secret in json.dumps(answers) for secret in secrets)
    kept = [path for root in (xet_worker.scratch, tmp_path) for path in root.rglob("*") if path.is_file()]
    assert len(kept) > 10
    assert not [path for path in kept if any(secret.encode() in path.read_bytes() for secret in secrets)]


def test_a_signature_travels_although_the_manifest_cannot_list_it(
    hub: Running, lfs_worker: Publisher, tmp_path: Path
) -> None:
    small_bundle(tmp_path / "b")
    (tmp_path / "b/dataset/release.json.sig").write_text("{}")
    assert lfs_worker.run(hub, tmp_path / "b") == "ok"
    assert "release.json.sig" in stands(hub)["dataset"]["tree"]
    assert lfs_worker.run(hub, tmp_path / "b") == "ok"


def test_a_file_name_that_git_reads_is_refused(hub: Running, lfs_worker: Publisher, tmp_path: Path) -> None:
    (tmp_path / "b/dataset").mkdir(parents=True)
    (tmp_path / "b/dataset/.gitignore").write_text("*.parquet\n")
    small_bundle(tmp_path / "b")
    sealed(tmp_path / "b", "1.0.0", "acme")
    assert "a name that git or the Hub reads as its own" in lfs_worker.run(hub, tmp_path / "b")
    assert not hub.trouble.seen
