"""The command, from the core install alone: a folder, and a tagged repository of a Hub; names are checked first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from oresmith import cli_verify
from oresmith.errors import OresmithError
from oresmith.release.hub.accounts import Account
from oresmith.release.hub.server import Served, serve_here
from oresmith.release.publish.target import Patience
from oresmith.release.verify import fetch
from tests.code_deps import ROOT
from tests.release.verify_world import bundle, mended, released

__all__ = ["bundle", "released"]
EXTRAS = (
    "torch transformers datatrove great_expectations dvc datasets tokenizers tantivy safetensors scipy statsmodels "
    "mlcroissant model_signing starlette uvicorn httpx duckdb ray gguf matplotlib peft trl lm_eval openai oro_sdk"
).split()
CORE_ONLY = f"""
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(f"blocked: {{name}}", name=name)
sys.meta_path.insert(0, Block())
import typer
from oresmith import cli_verify
from oresmith.stage import guarded
app = typer.Typer()
app.callback()(lambda: None)
cli_verify.register(app)
guarded(app)
"""
PUBLISH = """
import sys
from pathlib import Path
from huggingface_hub import CommitOperationAdd, HfApi
folder, kind, name, tag = sys.argv[1:]
api = HfApi()
api.create_repo(name, repo_type=kind, exist_ok=True)
files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
adds = [CommitOperationAdd(path.relative_to(folder).as_posix(), path.read_bytes()) for path in files]
made = api.create_commit(name, adds, commit_message=tag, repo_type=kind)
api.create_tag(name, tag=tag, revision=made.oid, repo_type=kind)
"""


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    fixed = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    return kept | fixed | {"HF_HUB_DISABLE_XET": "1", "COLUMNS": "200"} | more


def core_only(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CORE_ONLY, "verify", *arguments]
    return subprocess.run(command, env=environment(**more), capture_output=True, text=True, timeout=240, check=False)


def runner(*arguments: str) -> Any:
    app = typer.Typer()
    app.callback()(lambda: None)
    cli_verify.register(app)
    return CliRunner().invoke(app, ["verify", *arguments])


@pytest.fixture(scope="module")
def hub(released: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A Hub with both repositories of the release."""
    root = tmp_path_factory.mktemp("hub")
    with serve_here(root, [Account("acme", ("acme",))]) as served:
        for kind, name in (("dataset", "acme/shopping"), ("model", "acme/shopping-model")):
            publish(served, released / kind, [kind, name, "0.1.0"], root)
        yield served


def publish(served: Served, folder: Path, wanted: list[str], home: Path) -> None:
    """Commit a folder and tag it; `wanted` are the repository's kind and name, and the tag."""
    more = {"HF_ENDPOINT": served.endpoint, "HF_TOKEN": served.token, "HF_HOME": str(home / "client")}
    command = [sys.executable, "-c", PUBLISH, str(folder), *wanted]
    done = subprocess.run(command, env=environment(**more), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr


def test_a_bundle_is_verified_from_the_core_install_alone(released: Path):
    done = core_only(str(released))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the release holds; not computed: signature" in done.stdout


def test_a_stranger_verifies_both_repositories_by_url_and_tag(hub: Served, tmp_path: Path):
    home = {"HF_HOME": str(tmp_path), "HF_TOKEN": hub.token, "TMPDIR": str(tmp_path)}
    for name, kind in (("acme/shopping", "dataset"), ("models/acme/shopping-model", "model")):
        done = core_only(f"{name}@0.1.0", "--endpoint", hub.endpoint, "--json", **home)
        assert done.returncode == 0, done.stdout + done.stderr
        report = json.loads(done.stdout)
        assert (report["kind"], report["version"], report["held"], report["yanked"]) == (kind, "0.1.0", True, None)
    assert not list(tmp_path.glob("oresmith-verify-*"))


def test_a_withdrawn_release_still_verifies_and_says_why(hub: Served, bundle: Path, tmp_path: Path):
    path = bundle / "dataset/release.json"
    stated = json.loads(path.read_text()) | {"yanked": [{"version": "0.1.0", "reason": "a licence was wrong"}]}
    path.write_text(json.dumps(stated))
    publish(hub, bundle / "dataset", ["dataset", "acme/shopping", "yanked/0.1.0"], tmp_path)
    home = {"HF_HOME": str(tmp_path), "HF_TOKEN": hub.token}
    done = core_only("acme/shopping@0.1.0", "--endpoint", hub.endpoint, **home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "YANKED: this release was withdrawn: a licence was wrong" in done.stdout


def test_what_is_not_there_is_refused_in_a_sentence(hub: Served, tmp_path: Path):
    home = {"HF_HOME": str(tmp_path), "HF_TOKEN": hub.token}
    asked = {
        "acme/nothing@0.1.0": "no such repository",
        "acme/shopping@9.9.9": "no such tag",
        "acme/shopping": "a branch is no release",
    }
    for source, said in asked.items():
        done = core_only(source, "--endpoint", hub.endpoint, **home)
        assert done.returncode == 2, done.stdout + done.stderr
        assert said in done.stderr and "Traceback" not in done.stderr


def test_a_hub_that_is_not_there_is_not_said_to_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(fetch, "PATIENCE", Patience(timeout=1.0, tries=1))
    wanted = fetch.Repository("dataset", "acme/shopping", "0.1.0")
    with pytest.raises(OresmithError, match="could not be asked to find") as refused:
        fetch.fetch(wanted, tmp_path / "files", endpoint="http://127.0.0.1:1", tell=lambda line: None)
    assert "goes on where it stopped" not in str(refused.value) and "--endpoint" in str(refused.value)


def test_a_tombstone_is_named_before_the_files_it_misses(hub: Served, bundle: Path, tmp_path: Path):
    stated = json.loads((bundle / "dataset/release.json").read_text())
    (tmp_path / "tomb").mkdir()
    tomb = stated | {"yanked": [{"version": "0.1.0", "reason": "a licence was wrong"}]}
    (tmp_path / "tomb/release.json").write_text(json.dumps(tomb))
    publish(hub, tmp_path / "tomb", ["dataset", "acme/tomb", "gone"], tmp_path)
    done = core_only("acme/tomb@gone", "--endpoint", hub.endpoint, HF_HOME=str(tmp_path), HF_TOKEN=hub.token)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "this revision is a tombstone" in done.stderr and "0.1.0: a licence was wrong" in done.stderr


def test_a_failing_check_leaves_with_1_and_names_item_file_and_row(bundle: Path):
    (bundle / "dataset/funnel.json").write_text("{}")
    done = runner(str(mended(bundle)))
    assert done.exit_code == 1
    assert "FAIL funnel: funnel.json" in done.output


def test_text_of_a_release_reaches_no_terminal_as_control(bundle: Path):
    (bundle / "model/release.json").unlink()
    (bundle / "dataset/scores/\x1b[31mred.json").write_text("{}")
    done = runner(str(bundle))
    assert done.exit_code == 1
    assert "\x1b[31mred" not in done.output


def test_a_folder_with_a_certificate_alone_is_checked_as_before(released: Path, tmp_path: Path):
    audit = tmp_path / "audit"
    audit.mkdir()
    for name in ("certificate", "contamination.tsv", "verify_certificate.py"):
        (audit / name).symlink_to(released / "dataset" / name)
    (tmp_path / "corpus").symlink_to(released / "dataset")
    done = runner(str(audit))
    assert done.exit_code == 0, done.output
    assert "OK   derived" in done.output


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("a/b@1.0.0", (None, "a/b", "1.0.0")),
        ("datasets/a/b@v1", ("dataset", "a/b", "v1")),
        ("models/a/b@1", ("model", "a/b", "1")),
        ("a/b", None),
        ("a/b@", None),
        ("a/../b@1", None),
        ("a/b@refs/heads/main", None),
        ("https://x/a/b@1", None),
        ("a/b@1\n", None),
    ],
)
def test_a_source_is_a_name_and_a_tag(source: str, found: Any):
    repository = fetch.named(source)
    assert (None if repository is None else tuple(repository)) == found


@pytest.mark.parametrize(
    "paths",
    [["../x"], ["/etc/x"], ["a/../../x"], ["a\\b"], ["C:x"], [".."], ["a//b"], ["README.md", "readme.MD"], ["a\n"]],
)
def test_a_name_that_leads_elsewhere_is_refused_before_any_file_is_made(paths: list[str]):
    from huggingface_hub.hf_api import RepoFile

    entries = [RepoFile(path=path, size=1, oid="0" * 40) for path in paths]
    api = SimpleNamespace(list_repo_tree=lambda *names, **more: entries)
    with pytest.raises(OresmithError, match="name that no release has"):
        fetch._listed(fetch._Revision(api, "dataset", "a/b", "0" * 40))
