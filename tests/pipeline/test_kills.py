"""SIGKILL at any moment leaves the old output or none, and a rerun ends the same; a stage does not outlive `dvc`."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.code_deps import ROOT
from tests.pipeline.project import Project, dataset_pipeline, environment

ARGUMENTS = {"snapshots": ["--name", "demo"], "normalize": ["demo"], "evidence": ["demo"], "gate": []}
LATER = ("cluster", "split", "corpus", "audit", "validate")
QUICK = (3, 9, 15)
"""Changes of the file system at which `make test` kills; `make test-slow` takes every one."""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("kills"))
    project.add_snapshot("demo")
    project.write_params(evidence={"tokenizer": "none"})
    project.run(*ARGUMENTS, *LATER)
    return project


def kill_at(project, stage, change):
    """Whether the stage was killed at that change; False when it makes fewer."""
    command = [sys.executable, "-m", "tests.pipeline.killer", str(change), stage, *ARGUMENTS.get(stage, [])]
    done = subprocess.run(command, cwd=project.root, env=environment(), capture_output=True, check=False, timeout=240)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    return done.returncode != 0


def output(project, stage):
    folder = f"data/{stage}/demo" if ARGUMENTS.get(stage) else f"data/{stage}"
    return project.tree(folder)


def check_kill(project, stage, change):
    whole = output(project, stage)
    killed = kill_at(project, stage, change)
    assert output(project, stage) in (whole, {}), f"half an output after change {change}"
    project.run(stage)
    assert output(project, stage) == whole
    left = [path for path in (project.root / "data").rglob(".*") if path.is_dir()]
    assert left == []
    return killed


@pytest.mark.parametrize("stage", ARGUMENTS)
def test_a_killed_stage_leaves_the_old_output_or_none(project, stage):
    killed = [check_kill(project, stage, change) for change in QUICK]
    assert any(killed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("stage", [*ARGUMENTS, *LATER])
def test_every_single_change_may_be_the_last(project, stage):
    change = 1
    while check_kill(project, stage, change):
        change += 1
    assert change > 5


BLOCK = """
import os, sys
if os.environ.get("DVC_STAGE", "").startswith("normalize"):
    def hook(event, details):
        if event == "os.mkdir" and str(details[0]).endswith(".new"):
            with open(os.environ["RENDEZVOUS"], "w") as meeting:
                meeting.write(str(os.getpid()))
            open(os.environ["NEVER"]).read()
    sys.addaudithook(hook)
"""


def wait_for(*handles):
    """Whether one of the handles becomes readable within a minute."""
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    return poll.poll(60_000)


def test_killing_dvc_ends_the_running_stage_and_the_next_run_completes(tmp_path):
    """The stage stops at its first write and waits; then dvc is killed, and the stage must die by itself."""
    project = Project(tmp_path / "project")
    project.root.mkdir()
    project.add_snapshot("demo")
    # dvc refuses a stage whose namespace the file leaves out
    project.write_params(evidence={"tokenizer": "none"}, normalize={"max_depth": 64}, gate={"format_min": 1.0})
    for name in ("oresmith", "stages", "schemas"):
        (project.root / name).symlink_to(ROOT / name)
    (project.root / "dvc.yaml").write_text(dataset_pipeline())
    (project.root / ".dvcignore").write_bytes((ROOT / ".dvcignore").read_bytes())
    blocker = tmp_path / "blocker"
    blocker.mkdir()
    (blocker / "sitecustomize.py").write_text(BLOCK)
    meeting, never = tmp_path / "meeting", tmp_path / "never"
    os.mkfifo(meeting)
    os.mkfifo(never)
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    plain = environment(PATH=search, DVC_NO_ANALYTICS="1", CI="true")
    dvc = [sys.executable, "-m", "dvc"]
    subprocess.run([*dvc, "init", "--no-scm", "-q"], cwd=project.root, env=plain, check=True)
    blocked = plain | {
        "PYTHONPATH": os.pathsep.join([str(blocker), plain["PYTHONPATH"]]),
        "RENDEZVOUS": str(meeting),
        "NEVER": str(never),
    }
    reader = os.open(meeting, os.O_RDONLY | os.O_NONBLOCK)
    log = (tmp_path / "dvc.log").open("wb")
    running = subprocess.Popen([*dvc, "repro", "gate"], cwd=project.root, env=blocked, stdout=log, stderr=log)
    wait_for(reader, os.pidfd_open(running.pid))
    stage = os.read(reader, 32)
    assert stage, (tmp_path / "dvc.log").read_text()
    watched = os.pidfd_open(int(stage))
    running.kill()
    running.wait()
    assert wait_for(watched), "the stage outlived dvc"
    assert not (project.root / "data/normalize/demo").exists()
    for lock in (project.root / ".dvc/tmp").glob("rwlock*"):
        lock.unlink()  # nobody reaps the dead dvc in a container without init, so dvc would call it busy
    done = subprocess.run([*dvc, "repro", "-q", "gate"], cwd=project.root, env=plain, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert (project.root / "data/gate/manifest.json").exists()
