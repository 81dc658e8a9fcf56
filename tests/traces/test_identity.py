"""What makes two trajectories the same attempt, and what the same content."""

from typing import Any

import pytest

from oresmith.records import Provenance, Trajectory
from oresmith.traces import Context, decode
from tests.traces.build import CTX, SOURCE, call, envelope, step

ROW = envelope(step("I look.", [call(q="mug", result=[])]))


def read(raw: Any = ROW, *, line: int = 3, name: str = "here", snapshot: str = "s", **provenance: str) -> Trajectory:
    place = type(SOURCE)(snapshot=snapshot, file="f", file_sha256="", line=line, offset=0, length=0)
    return decode(raw, Context(source=SOURCE, source_name=name, provenance=Provenance(**provenance)), place)


def test_a_declared_attempt_is_the_same_wherever_it_stands() -> None:
    assert read(line=1, run_id="r").identity == read(line=2, run_id="r").identity
    assert read(line=1, run_id="r").trajectory_id == read(line=2, run_id="r").trajectory_id


def test_an_undeclared_attempt_is_told_by_its_place() -> None:
    assert read(line=1).identity != read(line=2).identity
    assert read(line=1).content == read(line=2).content
    assert read(line=1).trajectory_id != read(line=2).trajectory_id


def test_two_snapshots_of_one_source_do_not_share_places() -> None:
    assert read(snapshot="one").identity != read(snapshot="two").identity
    assert read(snapshot="one", run_id="r").identity == read(snapshot="two", run_id="r").identity


def test_without_a_problem_a_run_does_not_tell_attempts_apart_so_the_place_does() -> None:
    lost = envelope(status="FAILED", dialogue=None, problem_id=None)
    assert read(lost, line=1, run_id="r").identity != read(lost, line=2, run_id="r").identity


@pytest.mark.parametrize(
    "other",
    [{"run_id": "r2"}, {"agent_version": "v"}, {"run_id": "r", "validator": "w"}, {"run_id": "r", "name": "there"}],
)
def test_every_declared_part_counts(other: dict[str, str]) -> None:
    assert read(run_id="r").identity != read(**other).identity  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "other",
    [
        ROW | {"status": "FAILED"},
        ROW | {"problem_id": "p2"},
        envelope(step("I look!", [call(q="mug", result=[])])),
        envelope(step("I look.", [call(q="cup", result=[])])),
        envelope(step("I look.", [call(q="mug", result=[1])])),
        envelope(step("I look.", [call(q="mug", result=[])]), None),
    ],
)
def test_every_part_of_the_content_counts(other: dict[str, Any]) -> None:
    assert read(other).content != read().content


def test_what_differs_between_validators_is_no_content() -> None:
    again = envelope(step("I look.", [call(q="mug", result=[])], timestamp=5), execution_time=9.0, inference_total=1)
    assert read(again).content == read().content


def test_malformed_dialogues_that_read_alike_differ_in_content() -> None:
    assert read(envelope(step(), 1)).content != read(envelope(step(), 2)).content


def test_hashes_do_not_change_between_versions() -> None:
    t = decode(ROW, CTX)
    assert (t.identity[:16], t.content[:16], t.trajectory_id[:16]) == (
        "5284ff43938efa80",
        "af80d0c898b1dc01",
        "5090adbf3b403d93",
    )
