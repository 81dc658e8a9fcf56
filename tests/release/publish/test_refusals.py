"""What cannot end well is refused before anything is sent, with what to do."""

from __future__ import annotations

import dataclasses
import json
import shutil
import urllib.request
from pathlib import Path

import pytest

from oresmith.release.publish.target import PublishError, Target, target_from_environment
from tests.release.publish.hubs import Running
from tests.release.publish.small import small_bundle
from tests.release.publish.sweeping import Publisher, stands
from tests.release.publish.test_publishing import second_bundle, writes


def post(hub: Running, path: str, body: bytes, method: str = "POST") -> None:
    headers = {"Authorization": f"Bearer {hub.token}", "Content-Type": "application/json"}
    request = urllib.request.Request(hub.endpoint + path, body, headers, method=method)
    urllib.request.urlopen(request, timeout=30).close()


def create(hub: Running) -> None:
    post(hub, "/api/repos/create", json.dumps({"name": "things", "organization": "acme", "type": "dataset"}).encode())


def commit(hub: Running, path: str, text: str) -> None:
    lines = [
        {"key": "header", "value": {"summary": "by hand", "description": ""}},
        {"key": "file", "value": {"path": path, "content": text, "encoding": "utf-8"}},
    ]
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    post(hub, "/api/datasets/acme/things/commit/main", body)


def test_without_a_token_nothing_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    with pytest.raises(PublishError, match="no token"):
        target_from_environment("https://hub.example")


@pytest.mark.parametrize("url", ["ftp://hub.example", "hub.example", "http://hub.example", "https://me:pw@hub.example"])
def test_a_url_that_would_show_the_token_is_refused(url: str) -> None:
    with pytest.raises(PublishError) as error:
        Target(url, "hf_secret")
    assert "hf_secret" not in str(error.value)
    assert "hf_secret" not in repr(Target("https://hub.example/", "hf_secret"))


@pytest.mark.parametrize(
    ("token", "why"),
    [("read", "the token only reads"), ("other", "may not write what belongs to acme"), ("hf_nobody", "401")],
)
def test_a_token_without_the_right_is_refused(each_hub: Running, lfs_worker: Publisher, token: str, why: str) -> None:
    said = lfs_worker.run(each_hub, token=each_hub.tokens.get(token, token))
    assert why in said
    assert not writes(each_hub)


def test_a_version_with_other_content_is_refused(each_hub: Running, lfs_worker: Publisher, tmp_path: Path) -> None:
    assert lfs_worker.run(each_hub) == "ok"
    small_bundle(tmp_path / "other", rows=5)
    before = stands(each_hub)
    each_hub.trouble.reset()
    assert "tag 1.0.0 exists with other content" in lfs_worker.run(each_hub, tmp_path / "other")
    assert not writes(each_hub) and stands(each_hub) == before


def test_a_version_below_the_newest_is_refused(hub: Running, lfs_worker: Publisher, tmp_path: Path) -> None:
    second_bundle(tmp_path / "second", lfs_worker.bundle)
    assert lfs_worker.run(hub, tmp_path / "second") == "ok"
    hub.trouble.reset()
    assert "1.0.0 is below the newest release there" in lfs_worker.run(hub)
    assert not writes(hub)


def test_a_moved_tag_is_refused(hub: Running, lfs_worker: Publisher) -> None:
    published = lfs_worker.answer(hub)["published"]
    post(hub, "/api/datasets/acme/things/tag/1.0.0", b"", "DELETE")
    commit(hub, "extra.txt", "1")
    commit(hub, "extra.txt", "2")
    post(hub, "/api/datasets/acme/things/tag/main", b'{"tag": "1.0.0"}')
    assert "exists with other content" in lfs_worker.run(hub)
    # to a commit of the same content, as `published.json` alone can tell
    post(hub, "/api/datasets/acme/things/tag/1.0.0", b"", "DELETE")
    main = published["dataset"]["main"]
    other = {
        **published,
        "dataset": {**published["dataset"], "commit": hub.get("/api/datasets/acme/things/commits/main")[0]["id"]},
    }
    post(hub, f"/api/datasets/acme/things/tag/{main}", b'{"tag": "1.0.0"}')
    assert "tag 1.0.0 has moved" in lfs_worker.run(hub, earlier=other)


@pytest.mark.parametrize("harm", ["changed", "missing", "left over", "other manifest"])
def test_a_bundle_that_is_not_the_release_is_refused(
    hub: Running, lfs_worker: Publisher, tmp_path: Path, harm: str
) -> None:
    bundle = tmp_path / "b"
    small_bundle(bundle)
    file = bundle / "dataset/sft/train-00000.parquet"
    if harm == "changed":
        content = bytearray(file.read_bytes())
        content[10] ^= 1
        file.write_bytes(content)
    elif harm == "missing":
        file.unlink()
    elif harm == "left over":
        shutil.copy(file, bundle / "dataset/sft/train-00009.parquet")
    else:
        small_bundle(tmp_path / "other", "2.0.0")
        shutil.copy(tmp_path / "other/dataset/release.json", bundle / "dataset/release.json")
    assert "the bundle is not the release that was cut" in lfs_worker.run(hub, bundle)
    assert not hub.trouble.seen


def test_a_repository_with_files_of_others_is_refused(hub: Running, lfs_worker: Publisher) -> None:
    create(hub)
    commit(hub, "notes.txt", "mine")
    hub.trouble.reset()
    assert "holds files that no release put there" in lfs_worker.run(hub)
    assert not writes(hub)


def test_a_pause_of_a_day_is_not_waited_for(hub: Running, lfs_worker: Publisher) -> None:
    hub.trouble.headers = {"Retry-After": "86400"}
    hub.trouble.reset("429", 0, "preupload")  # the client's own repetition would sleep that long
    assert "the Hub asks for a pause of 86400 seconds" in lfs_worker.run(hub)
    hub.trouble.reset()
    assert lfs_worker.run(hub) == "ok"


def test_a_hub_that_is_not_there_is_given_up(hub: Running, lfs_worker: Publisher) -> None:
    absent = dataclasses.replace(hub, endpoint="http://127.0.0.1:1")
    assert "the Hub could not be asked to say whose token this is" in lfs_worker.run(absent)


def test_an_offline_client_is_told_so(monkeypatch: pytest.MonkeyPatch, lfs_worker: Publisher) -> None:
    from huggingface_hub import constants

    from oresmith.release.publish.session import patient_requests

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(PublishError, match="HF_HUB_OFFLINE"), patient_requests(Target("https://hub.example", "t")):
        pass
    with patient_requests(Target("http://127.0.0.1:1", "t")):
        assert not constants.HF_HUB_OFFLINE
    assert constants.HF_HUB_OFFLINE
