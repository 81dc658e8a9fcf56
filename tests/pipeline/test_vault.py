"""A vault problem is recognised without being named: nothing is assigned to it and nothing of it is published."""

import json

from tests.pipeline.project import DEMO, Project
from tests.pipeline.test_commands import oresmith


def test_problems_of_the_vault_are_withheld_and_appear_nowhere(tmp_path):
    project = Project(tmp_path)
    project.add_snapshot("demo")
    problems = [json.loads(line) for line in (DEMO / "problems.jsonl").open()]
    hidden = tmp_path / "hidden.jsonl"
    hidden.write_text("".join(json.dumps(problem) + "\n" for problem in problems[:3]))
    (tmp_path / "vault.key").write_text("a secret of more than sixteen bytes\n")
    done = oresmith("vault", "--problems", hidden, "--secret", tmp_path / "vault.key", "--out", tmp_path / "vault.txt")
    assert done.returncode == 0, done.stderr
    told = (tmp_path / "vault.txt").read_text()
    assert not any(problem["query"] in told or problem["problem_id"] in told for problem in problems)
    project.write_params(evidence={"tokenizer": "none"}, split={"vault": "vault.txt", "vault_secret": "vault.key"})
    project.run("snapshots", "normalize", "evidence", "gate", "cluster", "split", "corpus", "audit")
    split = json.loads((tmp_path / "metrics/split.json").read_text())
    assert split["problems"]["quarantine"] >= 3
    for config in ("trajectories", "sft", "kto", "grpo", "subtask"):
        folder = tmp_path / "data/corpus" / config
        if folder.is_dir():
            leaks = oresmith("leakage", "check", "--train", folder, "--heldout", hidden)
            assert leaks.returncode == 0, f"{config}: {leaks.stdout}"


def test_a_short_secret_is_refused(tmp_path):
    (tmp_path / "key").write_text("short")
    done = oresmith(
        "vault", "--problems", DEMO / "problems.jsonl", "--secret", tmp_path / "key", "--out", tmp_path / "vault.txt"
    )
    assert done.returncode == 2 and not (tmp_path / "vault.txt").exists()
