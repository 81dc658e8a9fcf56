"""The bundle: what is published, and only that; its manifests; the hash of the code; the least version."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from oresmith.errors import OresmithError
from oresmith.params import load_params
from oresmith.release.bundle import check_bundle, copy_file
from oresmith.release.codetree import CODE, code_tree, tree_hash
from oresmith.release.columns import column_changes
from oresmith.release.layout import BUNDLE, PARTS, RELEASE_FILE, inside, safe_path
from oresmith.release.manifest import File, Release, content_sha256, encode, list_files, read_part, read_release
from oresmith.release.versions import least
from oresmith.validation.versions import RowChanges
from stages import bundle as stage
from tests.code_deps import ROOT
from tests.release.bundle_world import Project, git, rewritten
from tests.release.verify_world import edit_json
from tests.training.project import inside as within


def test_a_bundle_holds_what_its_manifest_lists_and_nothing_else(finished: Project) -> None:
    release = read_release(finished.root / BUNDLE)
    check_bundle(finished.root / BUNDLE, release)
    for kind in PARTS:
        assert release.part(kind).files == list_files(finished.root / BUNDLE / kind)
        paths = {file.path for file in release.part(kind).files}
        assert {"README.md", RELEASE_FILE} <= paths
    dataset = {file.path.split("/")[0] for file in release.dataset.files}
    assert {"heldout_rollouts", "heldout_gold", "certificate", "verify_certificate.py", "params.yaml"} <= dataset
    assert not {"manifest.json", "report.json", "corpus.json"} & dataset
    assert {"model.safetensors", "config.json", "tokenizer.json", ".eval_results/shopping.yaml"} <= {
        file.path for file in release.model.files
    }


def test_each_part_tells_the_same_and_names_its_counterpart(finished: Project) -> None:
    whole = read_release(finished.root / BUNDLE)
    parts = {kind: read_part(finished.root / BUNDLE / kind) for kind in PARTS}
    for kind, other in (("dataset", "model"), ("model", "dataset")):
        part = parts[kind]
        assert (part.version, part.code_tree, part.gates) == (whole.version, whole.code_tree, whole.gates)
        assert part.release_sha256 == whole.content_sha256
        assert [file for file in whole.part(kind).files if file.path != RELEASE_FILE] == list(part.files)
        assert part.counterpart.repository == whole.part(other).repository
        assert part.counterpart.content_sha256 == parts[other].content_sha256
        assert not part.yanked


def test_the_same_inputs_give_the_same_bytes(project: Project) -> None:
    before = project.tree("data/bundle")
    with within(project):
        stage.run(load_params())
    assert project.tree("data/bundle") == before


def test_what_is_published_shares_no_inode_with_the_pipeline(finished: Project) -> None:
    for path in (finished.root / BUNDLE).rglob("*"):
        if path.is_file():
            assert path.stat().st_nlink == 1 and path.stat().st_mode & 0o777 in (0o644, 0o664)


def test_a_read_only_link_of_a_cache_becomes_a_file_of_its_own(tmp_path: Path) -> None:
    cached, linked, target = tmp_path / "cached", tmp_path / "linked", tmp_path / "target"
    cached.write_bytes(os.urandom(100_000))
    cached.chmod(0o444)
    os.link(cached, linked)
    copy_file(linked, target)
    assert target.read_bytes() == cached.read_bytes()
    target.write_bytes(b"changed")
    assert cached.stat().st_size == 100_000 and cached.stat().st_mode & 0o777 == 0o444


def test_the_certificates_own_verifier_holds_in_the_published_folder_alone(finished: Project, tmp_path: Path) -> None:
    shutil.copytree(finished.root / BUNDLE / "dataset", tmp_path / "downloaded")
    command = [sys.executable, "-I", "verify_certificate.py"]
    done = subprocess.run(command, cwd=tmp_path / "downloaded", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_published_parameters_name_no_place_of_the_machine(project: Project) -> None:
    project.write_params(split={"vault": "secret/vault.txt", "vault_secret": "secret/key"})
    from oresmith.release.contents import public_params

    told = yaml.safe_dump(public_params(load_params(project.root / "params.yaml")))
    assert "secret/" not in told and "vault" not in told and "run:" not in told
    assert "held_out" in told


def test_a_release_whose_step_is_switched_off_is_refused(project: Project) -> None:
    project.params["models"] = [*project.params["models"], {"name": "off", "from": "kto"}]
    project.write_params(release={"model": "off"})
    (project.root / "data/kto").mkdir()
    skipped = {"schema": "oresmith.training/1", "step": "kto", "name": "kto", "skipped": "switched off"}
    (project.root / "data/kto/training.json").write_text(json.dumps(skipped))
    with within(project), pytest.raises(OresmithError, match="switched off"):
        stage.run(load_params())
    assert read_release(project.root / BUNDLE).version == "0.1.0"


def test_an_input_that_is_missing_is_named(project: Project) -> None:
    (project.root / "data/cards/croissant.json").unlink()
    with within(project), pytest.raises(OresmithError, match=r"croissant\.json"):
        stage.run(load_params())


def test_a_manifest_with_a_path_out_of_its_folder_is_refused(project: Project) -> None:
    release = read_release(project.root / BUNDLE)
    for path in ("../x", "/etc/passwd", "a/../../x", "a//b", "", ".", "a\\b", "con\0", "x" * 500, "a/\u202egnp.x"):
        bad = msgspec.structs.replace(release.dataset, files=(File(path=path, bytes=1, sha256="0" * 64),))
        altered = msgspec.structs.replace(release, dataset=bad)
        (project.root / BUNDLE / RELEASE_FILE).write_bytes(encode(altered))
        with pytest.raises(OresmithError):
            read_release(project.root / BUNDLE)
        with pytest.raises(OresmithError):
            inside(project.root, path)


@given(st.text(max_size=40))
def test_a_safe_path_stays_below_its_folder(text: str) -> None:
    if safe_path(text):
        place = os.path.normpath(f"/a/b/{text}")
        assert place.startswith("/a/b/") and "\\" not in text and text.isprintable()


def test_a_manifest_that_was_edited_is_refused(project: Project) -> None:
    path = project.root / BUNDLE / RELEASE_FILE
    edit_json(path, lambda told: told["dataset"]["files"][0].update(sha256="0" * 64))
    with pytest.raises(OresmithError, match="content hash"):
        read_release(path)
    path.write_text("[" * 100_000)
    with pytest.raises(OresmithError, match="cannot be read"):
        read_release(path)


def test_a_changed_missing_or_strange_file_is_named(project: Project) -> None:
    bundle = project.root / BUNDLE
    release = read_release(bundle)
    for path, fault in (("dataset/funnel.json", "has changed"), ("model/config.json", "is missing")):
        content = (bundle / path).read_bytes()
        (bundle / path).unlink() if fault == "is missing" else (bundle / path).write_bytes(content + b" ")
        with pytest.raises(OresmithError, match=rf"{path}.*{fault}|{fault}"):
            check_bundle(bundle, release)
        (bundle / path).write_bytes(content)
    (bundle / "dataset/more.txt").write_text("x")
    with pytest.raises(OresmithError, match="not listed"):
        check_bundle(bundle, release)


def test_lists_and_hashes_can_be_made_anew(project: Project) -> None:
    (project.root / BUNDLE / "dataset/funnel.json").write_text("{}")
    made: Release = rewritten(project.root)
    check_bundle(project.root / BUNDLE, made)


def test_the_content_hash_is_what_sha256sum_would_give(tmp_path: Path) -> None:
    for name in ("b.txt", "a/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    files = list_files(tmp_path)
    done = subprocess.run(["sha256sum", "a/c.txt", "b.txt"], cwd=tmp_path, capture_output=True, check=True)
    assert content_sha256(reversed(files)) == hashlib.sha256(done.stdout).hexdigest()


def test_the_code_goes_by_the_hash_that_git_gives_it(tmp_path: Path) -> None:
    for name, content in {
        "oresmith/a.py": "x = 1\n",
        "oresmith/b/c.py": "",
        "oresmith/b.py": "y\n",
        "schemas/tool.json": "{}",
        "stages/__init__.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "oresmith/b/c.py").chmod(0o755)
    (tmp_path / "oresmith/link.py").symlink_to("a.py")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    wanted = git(tmp_path, "write-tree")
    (tmp_path / "oresmith/__pycache__").mkdir()
    (tmp_path / "oresmith/__pycache__/a.cpython-311.pyc").write_bytes(b"x")
    (tmp_path / "oresmith/empty").mkdir()
    assert code_tree(tmp_path) == wanted
    assert tree_hash([]).hex() == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    assert all((ROOT / name).is_dir() for name in CODE)


OLD = {"sft": {"row_id": "string", "tools": "json"}}


@pytest.mark.parametrize(
    ("new", "rows", "version"),
    [
        (OLD, RowChanges(), "1.2.4"),
        (OLD | {"more": {"row_id": "string"}}, RowChanges(), "1.3.0"),
        ({"sft": OLD["sft"] | {"note": "string"}}, RowChanges(), "1.3.0"),
        ({"sft": {"row_id": "string"}}, RowChanges(), "2.0.0"),
        ({"sft": OLD["sft"] | {"tools": "string"}}, RowChanges(added=(("sft", "1"),)), "2.0.0"),
        ({"sft": OLD["sft"] | {"note": "string"}}, RowChanges(moved=(("sft", "1"),)), "2.0.0"),
    ],
)
def test_the_least_version_also_follows_the_schema(new: dict, rows: RowChanges, version: str) -> None:
    assert least("1.2.3", rows, column_changes(OLD, new), True) == version


def test_nothing_new_needs_no_new_version() -> None:
    assert least("1.2.3", RowChanges(), column_changes(OLD, OLD), False) == "1.2.3"
