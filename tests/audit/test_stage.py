"""Stage `audit` and `oresmith verify`, run as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.audit.world import SNAPSHOT, World, make_world
from tests.pipeline.project import environment


@pytest.fixture
def world(tmp_path: Path) -> World:
    found = make_world(tmp_path)
    (found.data / "cluster" / "clusters.json").write_text('{"params": {}}')
    params = {
        "snapshots": [{"name": SNAPSHOT, "path": "nowhere", "provenance": "nowhere"}],
        "release": {"version": "0.2.0"},
        "split": {"vault": "vault.txt", "vault_secret": "vault.key", "held_out": "2026-05-02"},
    }
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    return found


def run(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=root,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_stage_publishes_a_certificate_that_both_verifiers_accept(world: World, tmp_path: Path) -> None:
    done = run(tmp_path, "stages.audit")
    assert (done.returncode, done.stderr) == (0, "")
    metrics = json.loads((tmp_path / "metrics" / "audit.json").read_text())
    assert metrics["certificate_sha256"] in done.stdout
    assert metrics["matches"]["heldout@2026-05-02 quarantined"] == 2
    folder = world.data / "audit"
    assert {path.name for path in folder.iterdir()} == {
        "certificate",
        "contamination.tsv",
        "manifest.json",
        "verify_certificate.py",
    }
    checked = run(tmp_path, "oresmith", "verify", "data/audit", "--corpus", "data/corpus")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert metrics["certificate_sha256"] in checked.stdout


def test_the_certificate_says_nothing_of_where_files_lie(world: World, tmp_path: Path) -> None:
    assert run(tmp_path, "stages.audit").returncode == 0
    for path in sorted((world.data / "audit").rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            assert b"vault.txt" not in content
            assert b"vault.key" not in content
            assert str(tmp_path).encode() not in content


def test_a_refusal_leaves_the_earlier_output_and_says_why(world: World, tmp_path: Path) -> None:
    assert run(tmp_path, "stages.audit").returncode == 0
    before = {path: path.read_bytes() for path in (world.data / "audit").rglob("*") if path.is_file()}
    ledger = tmp_path / "releases" / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"pool":"dev"', b'"pool":"train"'))
    done = run(tmp_path, "stages.audit")
    assert done.returncode == 2
    assert "contradict the ledger" in done.stderr
    assert {path: path.read_bytes() for path in (world.data / "audit").rglob("*") if path.is_file()} == before


def test_the_command_leaves_with_one_and_names_the_place_where_a_byte_changed(world: World, tmp_path: Path) -> None:
    assert run(tmp_path, "stages.audit").returncode == 0
    shard = next((world.data / "corpus" / "sft").iterdir())
    content = bytearray(shard.read_bytes())
    content[100] ^= 1
    shard.write_bytes(content)
    done = run(tmp_path, "oresmith", "verify", "data/audit", "--corpus", "data/corpus")
    assert done.returncode == 1
    assert f"FAIL files: sft/{shard.name}" in done.stdout
    assert "Traceback" not in done.stderr
