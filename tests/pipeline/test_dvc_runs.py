"""What a user sees of DVC: a no-op is one, a changed gate runs nothing before it, an appended snapshot only itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.code_deps import ROOT
from tests.pipeline.project import Project, dataset_pipeline, environment

BEFORE_GATE = ("snapshots", "normalize", "evidence")


class Repository(Project):
    """A project under git and DVC, with the repository's own code, dvc.yaml and parameters."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.params = yaml.safe_load((ROOT / "params.yaml").read_text()) | {"snapshots": []}
        self.params["evidence"]["tokenizer"] = "none"
        files = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
        )
        for name in files.stdout.decode().splitlines():
            wanted = name.split("/")[0] in {"oresmith", "stages", "schemas", "cards", "releases"}
            if wanted or name in {"dvc.yaml", ".dvcignore", ".gitignore"}:
                target = root / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes((ROOT / name).read_bytes())
        (root / "dvc.yaml").write_text(dataset_pipeline())
        self.command("git", "init", "-q", ".")
        self.command("git", "config", "user.email", "user@example.invalid")
        self.command("git", "config", "user.name", "user")
        self.dvc("init", "-q")
        self.dvc("config", "core.analytics", "false")

    def command(self, *words):
        search = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        plain = environment(PATH=search, DVC_NO_ANALYTICS="1") | {"PYTHONPATH": str(self.root)}
        done = subprocess.run(words, cwd=self.root, env=plain, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def dvc(self, *words):
        return self.command(sys.executable, "-m", "dvc", *words)

    def commit(self):
        self.command("git", "add", "-A")
        self.command("git", "commit", "-qm", "state")


def ran(output):
    """Names of the stages that a run of dvc executed."""
    return [line.split("'")[1] for line in output.splitlines() if line.startswith("Running stage")]


@pytest.mark.timeout(600)
def test_only_what_a_change_touches_runs_again(tmp_path):
    repository = Repository(tmp_path)
    repository.add_snapshot("demo")
    repository.write_params()
    repository.commit()
    first = ran(repository.dvc("repro"))
    assert first[:4] == ["snapshots@0", "normalize@0", "evidence@0", "gate"] or set(first) >= {"gate", "evidence@0"}
    assert ran(repository.dvc("repro")) == []
    repository.commit()
    again = ran(repository.dvc("exp", "run", "-S", "gate.reasoning_min=0.95"))
    assert "gate" in again
    assert not [stage for stage in again if stage.split("@")[0] in BEFORE_GATE]
    report = json.loads((tmp_path / "metrics/gate.json").read_text())
    assert report["deciding_reasons"]["reasoning"] > 4
    repository.command("git", "checkout", "-q", ".")
    repository.dvc("checkout", "-q")
    repository.add_snapshot("second")
    repository.write_params()
    appended = ran(repository.dvc("repro"))
    assert {"snapshots@1", "normalize@1", "evidence@1", "gate"} <= set(appended)
    assert not [stage for stage in appended if stage.endswith("@0")]
