from __future__ import annotations

import importlib.util
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from datatrove.pipeline.filters import LambdaFilter

from oresmith.blocks.accounts import InputFile, shard_files
from oresmith.blocks.execute import run_pipeline
from oresmith.errors import OresmithError, ParameterError
from tests.blocks.files import CODECS, inputs, row, tree, write
from tests.blocks.steps import Fails, OddProblems, UnpicklableError, normaliser

BAD = (b"", b"nope", b'{"a": 1, "a": 2}')


def world(folder: Path) -> list[InputFile]:
    files = []
    for number in range(6):
        lines = [row(1000 * number + line) for line in range(40)]
        lines[number:number] = BAD
        files.append(write(folder / f"f{number}", b"\n".join(lines), CODECS[number % 3]))
    return inputs(*files)


def run(out: Path, files: list[InputFile], **how: Any) -> dict[str, bytes]:
    """A stage with a lambda filter and a class filter; returns its output."""
    shards = shard_files(files, 1200)
    sevens = partial(LambdaFilter, lambda doc: not doc.metadata["trajectory"].problem.problem_id.endswith("8"))
    steps = normaliser(out, shards, sevens, OddProblems)
    stats = run_pipeline(steps, len(shards), scratch=out.parent / "scratch", **how)
    assert stats[0].counts["read"] == 6 * 43
    assert all(step.seconds >= 0 for step in stats)
    return tree(out)


def test_output_is_the_same_for_any_number_of_workers_and_order_of_files(tmp_path: Path) -> None:
    files = world(tmp_path / "in")
    first = run(tmp_path / "one", files)
    assert len(first) == 3 * len(shard_files(files, 1200)) > 6
    assert run(tmp_path / "again", files) == first  # nothing is skipped as "already completed"
    assert run(tmp_path / "two", files[::-1], workers=2) == first


def test_output_is_the_same_on_ray_and_errors_come_back_from_it(tmp_path: Path) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("ray is not installed (extra `data`)")
    files = world(tmp_path / "in")
    first = run(tmp_path / "one", files)
    assert run(tmp_path / "ray", files, executor="ray", workers=2) == first
    with pytest.raises(ParameterError, match="1: of shard"):
        run_pipeline([Fails("refusal")], 3, executor="ray", scratch=tmp_path / "scratch")


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_a_worker_is_raised_as_it_was(tmp_path: Path, workers: int) -> None:
    with pytest.raises(ParameterError) as caught:
        run_pipeline([Fails("refusal")], 2, workers=workers, scratch=tmp_path)
    assert (caught.value.what, caught.value.where, caught.value.todo) == ("of shard", "1", "y")
    with pytest.raises(OSError, match="No space") as full:
        run_pipeline([Fails("disk")], 2, workers=workers, scratch=tmp_path)
    assert full.value.errno == 28


def test_a_killed_worker_ends_the_run_instead_of_hanging_it(tmp_path: Path) -> None:
    with pytest.raises(OresmithError, match="a worker process was killed"):
        run_pipeline([Fails("killed")], 3, workers=2, scratch=tmp_path)


def test_an_error_that_cannot_leave_its_process_still_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="UnpicklableError"):
        run_pipeline([Fails("unpicklable")], 3, workers=2, scratch=tmp_path)
    with pytest.raises(UnpicklableError):
        run_pipeline([Fails("unpicklable")], 3, scratch=tmp_path)


def test_a_fault_of_a_worker_says_what_it_is_and_where_it_arose_and_no_value(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError) as caught:
        run_pipeline([Fails("fault")], 2, workers=2, scratch=tmp_path)
    told = str(caught.value)
    assert told.startswith("shard 1: JSONDecodeError: Expecting value: line 1 column 4")
    assert re.search(r"\(at [\w./]*json/decoder\.py:\d+ in \w+, from .*tests/blocks/steps\.py:\d+ in run,", told)
    (noted,) = tmp_path.rglob("failures/*.json")
    assert "of-a-trace" not in noted.read_text() + told and str(Path(__file__).parents[2]) not in told


def test_steps_start_afresh_in_every_shard(tmp_path: Path) -> None:
    seen: list[int] = []

    def step(data: Any, rank: int, world_size: int) -> Any:
        seen.append(rank)
        assert len(seen) == 1 and world_size == 3
        return data

    run_pipeline([step], 3, scratch=tmp_path)
    assert seen == []


@pytest.mark.parametrize("wrong", [{"executor": "slurm"}, {"workers": 0}, {"tasks": 0}])
def test_impossible_parameters_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    how: dict[str, Any] = {"tasks": 1, "scratch": tmp_path} | wrong
    with pytest.raises(ParameterError):
        run_pipeline([], **how)


def test_progress_is_a_few_lines_where_there_is_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_pipeline([], 100, scratch=tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "shards 100/100" and 5 <= len(lines) <= 11
    run_pipeline([], 1, scratch=tmp_path)
    assert capsys.readouterr().err == ""
