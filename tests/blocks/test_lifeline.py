from __future__ import annotations

import multiprocessing
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest

from oresmith.blocks import lifeline
from oresmith.blocks.lifeline import ORPHANED, end_with, end_with_parent, identity

FORK = multiprocessing.get_context("fork")
ROOT = Path(__file__).parents[2]
WAIT_MS = 60_000

STAGE = """
import os, signal, subprocess, sys
from oresmith.blocks.lifeline import end_with_parent
if "no pidfd" in sys.argv:
    del os.pidfd_open
end_with_parent()
helper = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL)
print(os.getpid(), helper.pid, flush=True)
signal.pause()
"""
RUNNER = """
import signal, subprocess, sys
subprocess.Popen(sys.argv[1:])
signal.pause()
"""
PIPELINE = """
import sys
from pathlib import Path
from oresmith.blocks.execute import run_pipeline
from tests.blocks.steps import Blocks
if __name__ == "__main__":
    folder = Path(sys.argv[1])
    run_pipeline([Blocks(folder)], 2, executor=sys.argv[2], workers=2, scratch=folder / "scratch")
"""


def ends(handle: int) -> bool:
    """Whether the process of a pidfd ends in the time allowed."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(WAIT_MS))


def still_runs(handle: int) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return not poll.poll(0)


@pytest.mark.parametrize("way", ["no pidfd", "pidfd"])
@pytest.mark.parametrize("shell", [True, False], ids=["through a shell", "directly"])
def test_a_stage_and_its_helpers_end_when_the_runner_is_killed(tmp_path: Path, shell: bool, way: str) -> None:
    script = tmp_path / "stage.py"
    script.write_text(STAGE)
    command = [sys.executable, str(script), way]
    if shell:  # the second command keeps the shell from becoming the stage by exec
        command = ["/bin/sh", "-c", f"{sys.executable} {script} '{way}'; true"]
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, *command], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert runner.stdout
    handles = [os.pidfd_open(int(pid)) for pid in runner.stdout.readline().split()]
    assert len(handles) == 2 and all(map(still_runs, handles))
    runner.kill()
    assert all(map(ends, handles))
    runner.wait()


@pytest.mark.parametrize("executor", ["local", pytest.param("ray", marks=pytest.mark.slow)])
def test_workers_end_when_the_stage_is_killed(tmp_path: Path, executor: str) -> None:
    script = tmp_path / "stage.py"
    script.write_text(PIPELINE)
    for name in ("started", "never"):
        os.mkfifo(tmp_path / name)
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    stage = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path), executor], env={**os.environ, "PYTHONPATH": paths}
    )
    with (tmp_path / "started").open() as started:
        handles = [os.pidfd_open(int(started.readline())) for _ in range(2)]
    assert all(map(still_runs, handles))
    stage.kill()
    assert all(map(ends, handles))
    stage.wait()


@pytest.fixture(autouse=True)
def no_rest_of_a_killed_ray() -> Iterator[None]:
    before = set(Path(tempfile.gettempdir()).glob("ore-ray-*"))
    yield
    for folder in set(Path(tempfile.gettempdir()).glob("ore-ray-*")) - before:
        shutil.rmtree(folder, ignore_errors=True)


def exit_code(work: Callable[[], None]) -> int | None:
    """Exit code of a child that does the work and then ends well."""
    child = FORK.Process(target=work)
    child.start()
    child.join(60)
    return child.exitcode


def test_a_process_ends_at_once_if_the_other_one_is_gone_already() -> None:
    gone = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    other = identity(gone.pid)
    assert exit_code(lambda: end_with(other)) == 0
    gone.communicate()
    assert exit_code(lambda: end_with(other)) == ORPHANED
    # Its number may have been given to another process since.
    assert exit_code(lambda: end_with(other._replace(pid=os.getpid()))) == ORPHANED


def test_a_stage_whose_runner_died_before_the_watch_began_ends_at_once() -> None:
    def changing_parent() -> None:
        with mock.patch.object(os, "getppid", side_effect=[os.getppid(), 1]):
            end_with_parent()

    def init_for_parent() -> None:
        words = {1: ["/sbin/init"]}
        with (
            mock.patch.object(os, "getppid", return_value=1),
            mock.patch.object(lifeline, "_command_line", lambda pid: words[pid]),
            mock.patch.dict(os.environ, DVC_STAGE="normalize"),
        ):
            end_with_parent()

    assert exit_code(changing_parent) == ORPHANED
    assert exit_code(init_for_parent) == ORPHANED


def test_a_stage_whose_runner_lives_goes_on() -> None:
    assert exit_code(end_with_parent) == 0


def test_a_process_of_another_machine_is_not_watched() -> None:
    other = identity()._replace(pid=2**22 - 1, started="1", host="elsewhere")
    assert exit_code(lambda: end_with(other)) == 0


def test_a_name_with_brackets_does_not_hide_the_fields_behind_it() -> None:
    text = "7 (a) b) (c) S 5 " + " ".join(str(number) for number in range(5, 30))
    with mock.patch.object(Path, "read_text", lambda self, errors: text):
        assert lifeline._parent_of(7) == 5 and lifeline._started(7) == "22"
