"""The commands on files that nobody has seen before: `inspect`, `rescore`, `funnel`, `export`."""

import gzip
import json
import subprocess
import sys

import polars as pl
import pytest

from tests.pipeline.project import DEMO, STAGES, Project, environment
from tests.shared import ALL, CATALOGUE, PROBLEMS, REFERENCE, SN15, needs_shared

KEYS = {"rows", "readable", "unreadable", "formats", "statuses", "origin", "provenance", "reasons"}


def oresmith(*arguments, cwd=None):
    command = [sys.executable, "-m", "oresmith", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, check=False)


def inspected(*arguments):
    done = oresmith("inspect", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_inspect_describes_the_demo_traces_without_any_project(tmp_path):
    found = inspected(DEMO / "traces", "--problems", DEMO / "problems.jsonl", "--catalogue", DEMO / "catalogue.jsonl")
    assert set(found) >= KEYS
    assert found["rows"] == found["readable"] + found["unreadable"]
    assert sum(found["formats"].values()) == found["readable"]
    assert set(found["formats"]) == {
        "atif",
        "openai-messages",
        "shoppingbench-rollout",
        "sn15-envelope",
        "sn15-steps",
    }


def test_inspect_refuses_an_unknown_format_with_the_known_ones(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n[1, 2]\n')
    done = oresmith("inspect", path)
    assert done.returncode == 2
    assert "sn15-envelope" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["nowhere"], [], ["--nonsense"]])
def test_a_wrong_call_leaves_with_exit_code_2(arguments, tmp_path):
    done = oresmith("inspect", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_names_from_a_trace_cannot_control_the_terminal(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"problem_id": "p", "status": "\u001b[2J[bold]x", "dialogue": None}) + "\n")
    done = oresmith("inspect", path)
    assert done.returncode == 0, done.stderr
    assert "\u001b" not in done.stdout and "other" in done.stdout


def test_rescore_refuses_a_catalogue_without_gold_products_and_writes_nothing(tmp_path):
    (tmp_path / "catalogue.jsonl").write_text('{"product_id": "1"}\n')
    out = tmp_path / "scores.jsonl"
    done = oresmith(
        "rescore", DEMO / "traces", "--problems", DEMO / "problems.jsonl", "--catalogue", tmp_path / "catalogue.jsonl",
        "--out", out,
    )  # fmt: skip
    assert done.returncode == 2 and "gold" in done.stderr
    assert not out.exists()


def test_export_gives_what_is_published_and_nothing_that_is_held_out(tmp_path):
    project = Project(tmp_path)
    project.add_snapshot("demo")
    project.write_params(evidence={"tokenizer": "none"})
    shares = {"heldout_share": 0.2, "dev_share": 0.2, "held_out": "2026-05-02"}
    project.write_params(split=shares)
    project.run(*STAGES, "cluster", "split", "corpus")
    report = json.loads((tmp_path / "data/corpus/report.json").read_text())
    assert report["withheld"]
    held = tmp_path / "held.jsonl"
    paths = sorted((tmp_path / "data/corpus/heldout_gold").glob("*.parquet"))
    queries = pl.concat([pl.read_parquet(path) for path in paths])["query"].to_list()
    held.write_text("".join(json.dumps({"query": query}) + "\n" for query in queries))
    for target in ("openai-messages", "atif"):
        out = tmp_path / f"{target}.jsonl"
        done = oresmith("export", "--out", out, "--format", target, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        rows = [json.loads(line) for line in out.open()]
        assert len(rows) == report["trained"]
        leaks = oresmith("leakage", "check", "--train", out, "--heldout", held, cwd=tmp_path)
        assert leaks.returncode == 0, leaks.stdout
        again = inspected(out)
        assert again["formats"] == {target: len(rows)}
    for config, code in (("trajectories", 0), ("sft", 0), ("kto", 0), ("grpo", 0), ("heldout", 1), ("rejects", 2)):
        done = oresmith("leakage", "check", "--train", tmp_path / "data/corpus" / config, "--heldout", held)
        assert done.returncode == code, f"{config}: {done.stdout}{done.stderr}"
    rows = [json.loads(line) for line in (tmp_path / "openai-messages.jsonl").open()]
    for row in rows:
        calls = [call for message in row["messages"] for call in message.get("tool_calls") or []]
        assert len({call["id"] for call in calls}) == len(calls) > 0
        assert all(isinstance(call["function"]["arguments"], str) for call in calls)
        assert all("function" in tool for tool in row["tools"])
    funnel = json.loads(oresmith("funnel", "--json", cwd=tmp_path).stdout)
    assert funnel["corpus"]["withheld"] == report["withheld"]


@pytest.mark.parametrize("content", [b"PAR1", b"PAR1" + b"x" * 50, b"PAR1" + b"\x00" * 100 + b"PAR1"])
def test_a_damaged_parquet_file_is_refused(tmp_path, content):
    (tmp_path / "a.parquet").write_bytes(content)
    done = oresmith("leakage", "check", "--train", tmp_path / "a.parquet", "--heldout", DEMO / "problems.jsonl")
    assert done.returncode == 2 and "Traceback" not in done.stderr


@needs_shared
@pytest.mark.parametrize("name", ALL)
def test_rescore_reproduces_the_arenas_own_scores(name, tmp_path):
    out = tmp_path / "scores.jsonl"
    done = oresmith(
        "rescore", SN15 / f"traces_{name}.jsonl.gz", "--problems", PROBLEMS, "--catalogue", CATALOGUE, "--out", out
    )
    assert done.returncode == 0, done.stderr
    ours = [json.loads(line) for line in out.open()]
    with gzip.open(SN15 / f"scores_{name}.jsonl.gz", "rt") as reader:
        theirs = [json.loads(line) for line in reader]
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine["problem_id"] == other["problem_id"] and mine["status"] == other["status"]
        assert mine["score"] == pytest.approx(other["score"]) if other["score"] else mine["score"] is None
        assert mine["success"] == other["is_problem_successful"]
        assert mine["category"] == other["category"].lower()


@needs_shared
@pytest.mark.parametrize("name", REFERENCE)
def test_reference_agents_are_agentic_and_none_is_called_a_sub_task(name):
    found = inspected(SN15 / f"traces_{name}.jsonl.gz")
    assert found["origin"]["B"] == 0
    assert found["origin"]["A"] >= 0.95 * found["origin"]["full_text"]


@needs_shared
@pytest.mark.parametrize("name", ["miner_b", "probe_decoy", "probe_puppet"])
def test_programs_that_use_a_model_for_show_are_never_agentic(name):
    found = inspected(SN15 / f"traces_{name}.jsonl.gz")
    assert found["origin"]["A"] == 0
    assert found["origin"]["unknown"] <= 0.1 * found["rows"]


@needs_shared
def test_misbehaving_agents_are_all_accounted_for():
    found = inspected(SN15 / "traces_probe_failures.jsonl.gz")
    assert found["rows"] == found["readable"] == 47
    assert found["accepted"] == 0
