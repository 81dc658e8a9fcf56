"""dvc.yaml lists every code file that a stage imports, and nothing that it does not."""

import subprocess
import sys

import yaml

from tests.code_deps import ROOT, closure, imports, is_code, stage_entries


def stages():
    return stage_entries(yaml.safe_load((ROOT / "dvc.yaml").read_text()))


def test_every_stage_lists_exactly_the_code_it_imports():
    for name, (definition, entry) in stages().items():
        listed = {dependency for dependency in definition["deps"] if is_code(dependency)}
        imported = closure(entry)
        assert listed == imported, f"stage {name}: run `python -m tests.code_deps --write`"


def test_the_walk_sees_imports_inside_functions(tmp_path):
    for name, text in {
        "stages/one.py": "def run():\n    from oresmith.traces import sn15\n",
        "oresmith/__init__.py": "",
        "oresmith/traces/__init__.py": "import oresmith.records\n",
        "oresmith/traces/sn15.py": "import json\n",
        "oresmith/records.py": "SCHEMA = 'tool.json'\n",
        "oresmith/unused.py": "",
        "schemas/tools/tool.json": "{}",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert closure(tmp_path / "stages/one.py", tmp_path) == {
        "stages/one.py",
        "oresmith/__init__.py",
        "oresmith/traces/__init__.py",
        "oresmith/traces/sn15.py",
        "oresmith/records.py",
        "schemas/tools/tool.json",
    }


def test_every_stage_is_at_most_200_lines():
    for path in (ROOT / "stages").glob("*.py"):
        assert len(path.read_text().splitlines()) <= 200, path.name


def test_the_library_never_imports_a_stage():
    for path in (ROOT / "oresmith").rglob("*.py"):
        assert not any(name.startswith("stages/") for name in imports(path)), path.name


def test_dvc_keeps_the_scores_of_a_model_repository_and_leaves_locks_and_unfinished_work():
    ignored = ["data/.bundle.lock", "data/score/.base.lock", "data/.teacher.sampled/x"]
    kept = ["data/bundle/model/.eval_results/heldout.yaml", "data/bundle/model/config.json"]
    asked = [sys.executable, "-m", "dvc", "check-ignore", *ignored, *kept]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ignored
