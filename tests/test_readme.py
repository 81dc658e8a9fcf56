"""The README says what the committed run gave, and its commands are ones that exist."""

import json
import re

from typer.main import get_command

from oresmith.cli import app
from oresmith.param_checks import check_combinations
from oresmith.params import load_params
from tests.code_deps import ROOT

README = (ROOT / "README.md").read_text("utf-8")


def metrics(name):
    return json.loads((ROOT / "metrics" / f"{name}.json").read_text())


def test_the_funnel_shown_is_that_of_the_committed_run():
    gate = metrics("gate")
    read, accepted = f"{gate['read']:,}", f"{gate['accepted']:,}"
    assert f"{read} read = {accepted} accepted + {gate['rejected']:,} rejected" in README
    assert re.search(rf"gate\s+│ all\s+│ {read}\s+│ {accepted} ", README)


def test_every_oresmith_command_shown_exists():
    known = get_command(app)
    shown = set(re.findall(r"^\$ oresmith (\w+)(?: (\w+))?", README, re.MULTILINE))
    assert shown
    for name, below in shown:
        command = known.commands.get(name)
        assert command is not None, name
        if getattr(command, "commands", None):
            assert below in command.commands, (name, below)


def test_the_parameters_that_experiments_change_are_there():
    params = load_params(ROOT / "params.yaml")
    for place, key in re.findall(r"-S snapshots\.(\d)\.(\w+)=", README):
        assert hasattr(params.snapshots[int(place)], key)
    check_combinations(params, "params.yaml")
