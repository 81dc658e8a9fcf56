"""docs/releasing.md is true: its commands exist, its tables are the code's, and its blocks run in their order."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from typer.main import get_command

from oresmith.cli import app
from oresmith.param_release import Gate
from oresmith.params import check_params
from oresmith.profiles import merged
from oresmith.release.history import known_releases
from oresmith.release.publish.publication import State
from oresmith.release.publish.released import PORT
from tests.code_deps import ROOT
from tests.pipeline.project import Project, environment
from tests.release.bundle_world import SECOND, VERSION, another, git
from tests.release.publish.hubs import free_port

PAGE = (ROOT / "docs/releasing.md").read_text("utf-8")
BLOCK = re.compile(r"^<!-- (run|run beside) -->\n```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OTHERS = frozenset({"--follow-tags"})
"""Options that the page names outside of a command, and that are not ours."""
SAID = "\x1e"
"""Begins the line that names a command, in what the whole page prints."""


def blocks(kind: str) -> list[list[str]]:
    """Commands of each marked block, in the order of the page."""
    return [
        [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
        for marked, text in BLOCK.findall(PAGE)
        if marked == kind
    ]


def spans() -> list[str]:
    """What stands in code spans."""
    return re.findall(r"`([^`\n]+)`", CODE.sub("", PAGE))


def options(command: Any) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts if name.startswith("--")}


def every_option(command: Any) -> set[str]:
    """Options of a command and of all below it."""
    below = getattr(command, "commands", {}).values()
    return options(command).union(*map(every_option, below))


def check(words: list[str], *, whole: bool) -> None:
    """A command line of ours: its command, options, and (where it is `whole`) arguments are there."""
    command: Any = get_command(app)
    rest = iter(words[1:])
    given = 0
    for word in rest:
        if getattr(command, "commands", None):
            assert word in command.commands, words
            command = command.commands[word]
        elif word.startswith("--"):
            assert word in options(command), words
            [option] = [one for one in command.params if word in one.opts]
            if not option.is_flag:
                assert next(rest, None) is not None, words
        else:
            given += 1
    assert not getattr(command, "commands", None) or not whole, words
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    assert given <= len(arguments), words
    assert not whole or given >= sum(one.required for one in arguments), words


def test_every_command_and_option_that_the_page_names_is_there() -> None:
    lines = [line.removeprefix("$ ") for text in CODE.findall(PAGE) for line in text.splitlines()]
    shown = [shlex.split(line, comments=True) for line in lines if line.removeprefix("$ ").startswith("oresmith ")]
    assert len(shown) > 15
    for words in shown:
        check(words, whole=True)
    named = [re.sub(r"[\[\]]", "", span) for span in spans()]
    for span in named:
        if span.startswith("oresmith "):
            check(span.split(), whole=False)
    known = every_option(get_command(app)) | OTHERS
    loose = {word for span in named for word in span.split() if word.startswith("--")}
    assert loose <= known, loose - known


def test_the_blocks_go_through_every_verb_of_a_release() -> None:
    lines = [line for block in blocks("run") for line in block]
    for verb in ("plan", "cut", "list", "diff", "yank", "unyank"):
        assert any(line.startswith(f"oresmith release {verb}") for line in lines), verb
    for start in ("dvc repro", "oresmith publish 0.1.0", "oresmith publish 0.2.0", "oresmith verify "):
        assert any(line.startswith(start) for line in lines), start
    unmarked = [text for text in CODE.findall(BLOCK.sub("", PAGE)) if text.startswith("$ ")]
    assert not unmarked, "a block of commands that no test runs"


def test_gates_and_states_are_those_of_the_code() -> None:
    gates = re.findall(r"^\| `(\w+)` \| ", PAGE.partition("### Gates")[2].partition("\n## ")[0], re.MULTILINE)
    assert gates == list(get_args(Gate))
    for state in State:
        assert re.search(rf"\b{state.name}\b", PAGE), state
    assert f"port {PORT}" in PAGE and f"http://127.0.0.1:{PORT}" in PAGE


def test_the_parameters_shown_are_accepted() -> None:
    shown = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]
    assert len(shown) == 2
    for part in shown:
        params = yaml.safe_load((ROOT / "params.yaml").read_text())
        added = part.pop("snapshots", [])
        params["snapshots"] += added
        check_params(merged(params, part), "docs/releasing.md")


@contextmanager
def beside(command: str, root: Path, told: dict[str, str]) -> Iterator[None]:
    """A command that runs while the others do, once it has said something."""
    with subprocess.Popen(["sh", "-c", f"exec {command}"], cwd=root, env=told, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith(b"A Hub in hub")
            yield
        finally:
            process.terminate()


def script(commands: list[str]) -> str:
    """All of them in one shell, which ends at the first that fails."""
    return "\n".join(f"echo {shlex.quote(SAID + one)}\n{{ {one}; }} || exit 1" for one in commands)


def programs(folder: Path) -> Path:
    """`oresmith` of this interpreter, and `dvc` that runs the small project's stages in its stead."""
    folder.mkdir()
    for name, module in (("oresmith", "oresmith"), ("dvc", "tests.release.page_stages")):
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m {module} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the page's key, is not installed")
def test_the_page_leads_from_nothing_to_two_releases_and_a_yank(finished: Project, tmp_path: Path) -> None:
    root = another(finished, tmp_path / "project").root
    shutil.copy(ROOT / ".gitignore", root)
    git(root, "commit", "--quiet", "--all", "--message", "what git ignores")
    home, port = tmp_path / "home", str(free_port())
    home.mkdir()
    path = f"{programs(tmp_path / 'bin')}:{Path(sys.executable).parent}:{environment()['PATH']}"
    told = environment(PATH=path, HOME=str(home), HF_HOME=str(home / "hf"), NO_PROXY="*", PYTHONUNBUFFERED="1")
    told = {name: value for name, value in told.items() if name not in ("HF_ENDPOINT", "HF_TOKEN")}
    [[serve]] = blocks("run beside")
    commands = [line.replace(str(PORT), port) for block in blocks("run") for line in block]
    with beside(f"{serve} --port {port}", root, told):
        done = subprocess.run(
            ["sh", "-c", script(commands)],
            cwd=root,
            env=told,
            capture_output=True,
            text=True,
            timeout=1700,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    said = [part.split("\n", 1) for part in done.stdout.split(SAID)[1:]]
    assert [command for command, _ in said] == commands

    def output(start: str) -> list[str]:
        return [text for command, text in said if command.startswith(start)]

    assert "0 faults" in output("oresmith cards check")[0]
    assert [
        f"nothing stops it: oresmith release cut {one}" in text
        for one, text in zip((VERSION, SECOND), output("oresmith release plan"), strict=True)
    ] == [True, True]
    verified = output("oresmith verify ")
    assert len(verified) >= 4 and all("the release holds" in text for text in verified)
    signed = [text for command, text in said if "--public-key" in command]
    assert signed and all("signature" not in text.rpartition("not computed")[2] for text in signed)
    assert ["YANKED: this release was withdrawn: two rows leak" in text for text in verified][-1]
    assert all("snapshot two is new" in text for text in output("oresmith release diff"))
    assert "published" in output("oresmith release list")[0] and "yanked" in output("oresmith release list")[-1]
    assert [(one.version, one.state) for one in known_releases(root)] == [
        (VERSION, "published"),
        (SECOND, "published"),
    ]
    assert git(root, "status", "--porcelain") == ""
