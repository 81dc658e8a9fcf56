"""The ledger reads back what was written, and refuses whatever contradicts it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from oresmith.errors import OresmithError
from oresmith.leakage.keys import problem_keys
from oresmith.leakage.ledger import LedgerLine, earlier_lines, encode_ledger, read_ledger
from tests.leakage.examples import problem

A, B = (problem_keys(problem(query, query[-1])) for query in ("lamp a", "chair b"))
TRAIN = LedgerLine(release="0.1.0", cluster=A.problem, pool="train", category="product", problems=(A,))
HELD = LedgerLine(release="0.2.0", cluster=B.problem, pool="heldout", held_out="2026-05-01", problems=(B,))


def _write(tmp_path: Path, *lines: LedgerLine) -> Path:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(encode_ledger(lines))
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert read_ledger(_write(tmp_path, TRAIN, HELD)) == [TRAIN, HELD]
    assert read_ledger(tmp_path / "none.jsonl") == []


def test_each_line_carries_its_schema_and_the_version_of_the_keys() -> None:
    line = msgspec.json.decode(encode_ledger([TRAIN]))
    assert (line["schema"], line["keys"]) == ("oresmith.ledger/1", "oresmith.problem-keys/1")


def test_a_release_reads_the_lines_of_earlier_ones_only() -> None:
    assert earlier_lines([TRAIN, HELD], "0.2.0") == [TRAIN]
    assert earlier_lines([TRAIN, HELD], "0.10.0") == [TRAIN, HELD]
    assert earlier_lines([TRAIN, HELD], "0.1.0") == []


def _line(**changes: object) -> bytes:
    return encode_ledger([msgspec.structs.replace(TRAIN, **changes)])


@pytest.mark.parametrize(
    ("second", "what"),
    [
        (_line(pool="dev", problems=(B,)), "a cluster is in train by line 1 and in dev"),
        (_line(release="0.2.0", cluster=B.problem, pool="dev"), "a problem of line 1 is assigned again"),
        (_line(release="0.0.9", cluster=B.problem, problems=(B,)), "a release stands behind a later one"),
        (_line(pool="test"), "no such pool"),
        (_line(pool="heldout"), "needs a date"),
        (_line(held_out="2026-01-01"), "needs a date"),
        (_line(problems=()), "no problem"),
        (_line(cluster="../../etc"), "not the name of a problem"),
        (_line(release="next"), "not a release version"),
        (b"{}\n", "cannot be read"),
        (b"[1, 2\n", "cannot be read"),
        (b"\xff\n", "cannot be read"),
        (b"\n", "cannot be read"),
        (b"[" * 100_000 + b"\n", "cannot be read"),
        (_line().replace(b"problem-keys/1", b"problem-keys/0"), "cannot be read"),
        (_line().replace(b'"pool"', b'"extra":1,"pool"'), "cannot be read"),
        (_line()[:-1], "torn"),
    ],
)
def test_a_ledger_that_contradicts_itself_or_cannot_be_read_is_refused(
    tmp_path: Path, second: bytes, what: str
) -> None:
    path = _write(tmp_path, TRAIN)
    path.write_bytes(path.read_bytes() + second)
    with pytest.raises(OresmithError, match=what) as refusal:
        read_ledger(path)
    assert what == "torn" or what.startswith("not a release") or refusal.value.where.endswith(":2")


def test_the_same_line_twice_is_no_contradiction(tmp_path: Path) -> None:
    assert len(read_ledger(_write(tmp_path, TRAIN, TRAIN))) == 2


def test_a_ledger_that_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OresmithError, match="cannot be read"):
        read_ledger(tmp_path)
