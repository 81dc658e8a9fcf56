"""Whether rows are believed is the owner's word in the provenance file, and reaches the codecs from there."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from oresmith.anyfile import read_any
from oresmith.errors import SnapshotError
from oresmith.frozen import Frozen, read_frozen
from oresmith.param_data import Snapshot
from oresmith.records import Trajectory
from oresmith.sources import freeze, open_source
from oresmith.traces import decode
from stages.normalize import contexts

ROW = {"messages": [{"role": "user", "content": "a mug"}], "agent_version": "v9", "category": "shop", "score": 1.0}


def frozen(root: Path, **declared: Any) -> Frozen:
    (root / "traces").mkdir(parents=True)
    (root / "traces" / "a.jsonl").write_text(json.dumps(ROW) + "\n")
    times = {"from": "2026-05-01T00:00:00Z", "to": "2026-05-02T00:00:00Z"}
    text = yaml.safe_dump({"source": "s", "licence": "MIT", "time_range": times, "patterns": ["traces/**"]} | declared)
    (root / "provenance.yaml").write_text(text)
    entry = Snapshot(name="s", path=str(root), provenance=str(root / "provenance.yaml"))
    (root / "frozen").mkdir()
    return freeze(entry, open_source(entry, root), root / "frozen")


@pytest.mark.parametrize(
    ("declared", "version"), [({}, None), ({"trust_rows": False}, None), ({"trust_rows": True}, "v9")]
)
def test_a_row_is_believed_only_where_the_owner_says_so(
    tmp_path: Path, declared: dict[str, bool], version: str | None
) -> None:
    t = decode(ROW, contexts(frozen(tmp_path, **declared))["traces/a.jsonl"])
    assert t.provenance.agent_version == version
    assert (t.problem.category, t.outcome is not None) == (("shop", True) if version else (None, False))


def test_a_declared_field_wins_over_a_trusted_row(tmp_path: Path) -> None:
    declared = {"trust_rows": True, "files": {"traces/a.jsonl": {"agent_version": "v1"}}}
    t = decode(ROW, contexts(frozen(tmp_path, **declared))["traces/a.jsonl"])
    assert (t.provenance.agent_version, t.extra["columns"]) == ("v1", {"agent_version": "v9"})


def test_trust_is_part_of_a_snapshots_hash_and_its_absence_is_not(tmp_path: Path) -> None:
    plain, untrusted, trusted = (
        frozen(tmp_path / name, **declared)
        for name, declared in (("a", {}), ("b", {"trust_rows": False}), ("c", {"trust_rows": True}))
    )
    assert plain.tree_sha256 == untrusted.tree_sha256 != trusted.tree_sha256
    (tmp_path / "snapshot.json").write_bytes(msgspec.json.encode(trusted))
    assert read_frozen(tmp_path) == trusted
    assert b"trust_rows" not in msgspec.json.encode(plain)


def test_trust_is_yes_or_no(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="trust_rows"):
        frozen(tmp_path, trust_rows="maybe")


def test_a_users_own_file_is_read_with_what_its_rows_say(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(ROW) + "\n")
    (t,) = read_any(tmp_path / "a.jsonl")
    assert isinstance(t, Trajectory)
    assert (t.provenance.agent_version, t.problem.category) == ("v9", "shop")
