"""A journal keeps every sample that it said it keeps, drops what was torn, and takes nothing from another run."""

from __future__ import annotations

from pathlib import Path

import pytest

from oresmith.errors import OresmithError
from oresmith.evaluation.journal import Journal, digest_of, open_journal
from oresmith.evaluation.records import ChatReply, Rollout
from oresmith.records import Message

DIGEST = digest_of({"a": 1})


def rollout(problem: str = "p", sample: int = 0, ended: str = "stopped", text: str = "é\n\u2028") -> Rollout:
    reply = ChatReply(key=f"{problem}/{sample}/0", text=text, finish="stop", prompt_tokens=3)
    said = [Message(role="user", content="q"), Message(role="assistant", content=text)]
    return Rollout(
        problem=problem,
        problem_id=problem,
        sample=sample,
        seed=7,
        messages=said,
        results=[{"price": 1.5, "a": [None, "x"]}],
        replies=[reply],
        ended=ended,
    )


def fill(folder: Path, *rollouts: Rollout, digest: str = DIGEST) -> Path:
    with open_journal(folder, digest) as journal:
        for one in rollouts:
            journal.add(one)
        return journal.path


def found(folder: Path, digest: str = DIGEST) -> set[tuple[str, int]]:
    with open_journal(folder, digest) as journal:
        return set(journal.found)


def test_what_was_added_is_there_for_the_next_run(tmp_path: Path):
    first, second = rollout("p", 0), rollout("p", 1, text="b")
    fill(tmp_path, first, second)
    with open_journal(tmp_path, DIGEST) as journal:
        assert journal.found == {("p", 0), ("p", 1)}
        assert journal.get(("p", 0)) == first
        assert journal.get(("p", 1)) == second
        assert ("p", 2) not in journal
        third = rollout("q", 0)
        journal.add(third)
        assert journal.get(("q", 0)) == third
    assert found(tmp_path) == {("p", 0), ("p", 1), ("q", 0)}


def test_each_sample_is_in_the_file_before_the_next_is_played(tmp_path: Path):
    with open_journal(tmp_path, DIGEST) as journal:
        sizes = [journal.path.stat().st_size]
        for sample in range(3):
            journal.add(rollout("p", sample))
            sizes.append(journal.path.stat().st_size)
    assert sizes == sorted(set(sizes))


def test_a_line_torn_at_any_byte_costs_that_sample_alone(tmp_path: Path):
    path = fill(tmp_path, rollout("p", 0), rollout("p", 1))
    whole = path.read_bytes()
    head, first, _ = whole.splitlines(keepends=True)
    edges = {0, 1, len(head) - 1, len(head), len(head) + 1, len(head + first) - 1, len(head + first)}
    for cut in sorted(edges | set(range(5, len(whole), 37)) | {len(whole) - 2, len(whole) - 1}):
        path.write_bytes(whole[:cut])
        left = {("p", 0)} if cut >= len(head + first) else set()
        with open_journal(tmp_path, DIGEST) as journal:
            assert journal.found == left, cut
            journal.add(rollout("p", 1))
            assert journal.get(("p", 1)) == rollout("p", 1)
        assert found(tmp_path) == left | {("p", 1)}
    path.write_bytes(whole)
    assert found(tmp_path) == {("p", 0), ("p", 1)}


@pytest.mark.parametrize("old", [b'"seed":7', b'"sha256":"'])
def test_a_line_that_does_not_check_out_is_not_believed(tmp_path: Path, old: bytes):
    path = fill(tmp_path, rollout("p", 0), rollout("p", 1))
    head, first, second = path.read_bytes().splitlines(keepends=True)
    changed = second.replace(old, old[:-1] + b"8", 1)
    assert changed != second
    path.write_bytes(head + first + changed)
    assert found(tmp_path) == {("p", 0)}


def test_rubbish_in_place_of_a_journal_is_no_sample(tmp_path: Path):
    path = fill(tmp_path)
    for rubbish in (b"", b"\n", b"[]\n", b"\xff\xfe\n", b"null\n{}\n", b'{"journal":"oresmith.journal/2"}\n'):
        path.write_bytes(rubbish)
        assert found(tmp_path) == set()
        fill(tmp_path, rollout())
        assert found(tmp_path) == {("p", 0)}


def test_nothing_of_another_configuration_is_taken(tmp_path: Path):
    path = fill(tmp_path, rollout())
    other = digest_of({"a": 2})
    assert found(tmp_path, other) == set()
    # Not even where somebody renames the file.
    path.rename(tmp_path / f"{other}.jsonl")
    assert found(tmp_path, other) == set()


def test_a_sample_that_the_engine_failed_at_is_played_again(tmp_path: Path):
    with open_journal(tmp_path, DIGEST) as journal:
        journal.add(rollout("p", 0, ended="error"))
        assert ("p", 0) in journal
    with open_journal(tmp_path, DIGEST) as journal:
        assert journal.found == frozenset()
        journal.add(rollout("p", 0))
    assert found(tmp_path) == {("p", 0)}


def test_two_runs_cannot_share_a_journal(tmp_path: Path):
    with open_journal(tmp_path, DIGEST), pytest.raises(OresmithError, match="another run"):
        fill(tmp_path)
    assert found(tmp_path) == set()


def test_removing_takes_the_folder_where_nothing_else_is_in_it(tmp_path: Path):
    folder = tmp_path / "journal"
    other = fill(folder, rollout(), digest=digest_of({"b": 1}))
    remove(folder)
    assert list(folder.iterdir()) == [other]
    other.unlink()
    remove(folder)
    assert not folder.exists()


def remove(folder: Path) -> None:
    with open_journal(folder, DIGEST) as journal:
        kept: Journal = journal
    kept.remove()


def test_a_configuration_is_named_by_its_values_and_not_their_order():
    assert digest_of({"a": 1, "b": {"c": [1], "d": None}}) == digest_of({"b": {"d": None, "c": [1]}, "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 1.5}) != digest_of({"a": "1"})
