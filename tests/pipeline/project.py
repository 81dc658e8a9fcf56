"""A small project in a temporary directory, and its stages run there as a user's `dvc repro` would run them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.code_deps import ROOT

DEMO = ROOT / "snapshots" / "demo"
STAGES = ("snapshots", "normalize", "evidence", "gate")


OF_MODELS = {
    "index",
    "base",
    "sft",
    "rejection",
    "teacher",
    "kto",
    "grpo",
    "control",
    "rollout",
    "score",
    "compare",
    "lmeval",
    "cards",
    "bundle",
}


def dataset_pipeline() -> str:
    """dvc.yaml without the stages around models: they load a real one, and ask nothing else of DVC."""
    pipeline = yaml.safe_load((ROOT / "dvc.yaml").read_text())
    pipeline["stages"] = {name: stage for name, stage in pipeline["stages"].items() if name not in OF_MODELS}
    return str(yaml.safe_dump(pipeline, sort_keys=False))


def environment(**more: str) -> dict[str, str]:
    """The environment of a stage: the repository importable, no telemetry."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONDONTWRITEBYTECODE": "1"} | more


class Project:
    """One working directory with its own params.yaml and snapshots."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.params: dict[str, Any] = {"snapshots": [], "run": {"workers": 1}}

    def add_snapshot(self, name: str, source: Path = DEMO) -> Path:
        """Copy a source into the project and append it to the parameters."""
        target = self.root / "snapshots" / name
        shutil.copytree(source, target)
        entry = {"name": name, "path": f"snapshots/{name}", "provenance": f"snapshots/{name}/provenance.yaml"}
        self.params["snapshots"].append(entry)
        return target

    def add_lines(self, name: str, files: dict[str, bytes], **declared: Any) -> Path:
        """A source of these raw files, declared in a few words."""
        target = self.root / "snapshots" / name
        for file, content in files.items():
            (target / "traces" / file).parent.mkdir(parents=True, exist_ok=True)
            (target / "traces" / file).write_bytes(content)
        declaration = {
            "source": name,
            "licence": "CC-BY-4.0",
            "time_range": {"from": "2026-05-01T00:00:00Z", "to": "2026-05-02T00:00:00Z"},
            "patterns": ["traces/**"],
        } | declared
        (target / "provenance.yaml").write_text(yaml.safe_dump(declaration))
        entry = {"name": name, "path": f"snapshots/{name}", "provenance": f"snapshots/{name}/provenance.yaml"}
        self.params["snapshots"].append(entry)
        return target

    def write_params(self, **changes: dict[str, Any]) -> None:
        """Write params.yaml, with namespaces changed."""
        for namespace, values in changes.items():
            self.params[namespace] = self.params.get(namespace, {}) | values
        (self.root / "params.yaml").write_text(yaml.safe_dump(self.params, sort_keys=False))

    def stage(self, name: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run one stage as a process."""
        command = [sys.executable, "-m", f"stages.{name}", *arguments]
        return subprocess.run(
            command, cwd=self.root, env=environment(**more), capture_output=True, text=True, timeout=240, check=False
        )

    def run(self, *stages: str) -> None:
        """Run stages of the whole pipeline in order (all by default); every one must succeed."""
        for stage in stages or STAGES:
            each = stage in {"snapshots", "normalize", "evidence"}
            for name in [entry["name"] for entry in self.params["snapshots"]] if each else [""]:
                arguments = [] if not each else ["--name", name] if stage == "snapshots" else [name]
                done = self.stage(stage, *arguments)
                assert done.returncode == 0, f"{stage} {name}: {done.stdout}\n{done.stderr}"

    def tree(self, folder: str = "data") -> dict[str, str]:
        """sha256 of every published file, by path; observed facts and locks are not outputs."""
        found = {}
        for path in sorted((self.root / folder).rglob("*")):
            name = path.relative_to(self.root).as_posix()
            hidden = any(part.startswith(".") for part in path.relative_to(self.root).parts)
            if path.is_file() and not hidden and "data/observed/" not in name:
                found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found
