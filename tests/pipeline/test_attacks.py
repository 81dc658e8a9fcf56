"""What an attacker tried, kept as tests: strangers' rows, odd files, and parameters that were meant to hurt."""

import json
import os

import pytest

from tests.pipeline.project import DEMO, Project
from tests.pipeline.test_refusals import refused
from tests.worlds import envelope_line, honest, make_world, planted_secrets

SECRET = planted_secrets(1)


def rows(world, count=4):
    return [honest(world, problem, seed).envelope for seed, problem in enumerate(list(world.problems.values())[:count])]


def project_of(root, lines, **declared):
    project = Project(root)
    project.add_lines("x", {"a.jsonl": b"".join(line + b"\n" for line in lines)}, **declared)
    project.write_params(evidence={"tokenizer": "none"})
    return project


def texts(project):
    """What the pipeline wrote, by file, but for the trajectories, their index and the frozen source."""
    found = {}
    for path in (project.root / "data").rglob("*"):
        name = path.relative_to(project.root).as_posix()
        if (
            path.is_file()
            and "/trajectories/" not in name
            and "/index/" not in name
            and not name.startswith("data/snapshots/")
        ):
            found[name] = path.read_bytes()
    return found


def test_secrets_in_odd_places_reach_no_reject_and_no_table(tmp_path):
    secret = next(iter(SECRET.values()))
    world = make_world(3)
    first, second, third, fourth = rows(world)
    hostile = [
        first | {"status": secret},
        second | {"status": "FAILED", "error": {"type": secret, "message": "x"}, "dialogue": None},
        third | {"problem_id": secret},
        {"messages": [{"role": secret, "content": "x"}]},
        {"messages": [{"role": "user", "content": "x"}], "agent_version": secret, "scorer": secret},
        {"schema_version": secret, "agent": {"name": "a", secret: 1}, "steps": []},
        {secret: 1},
    ]
    fourth["dialogue"][0]["completion"]["message"]["tool_call"][0]["parameters"] = {"q": "x", secret: 1, "sort": secret}
    project = project_of(tmp_path, [json.dumps(row).encode() for row in [*hostile, fourth]])
    project.run()
    assert [name for name, text in texts(project).items() if secret.encode() in text] == []
    rejects = texts(project)["data/gate/rejects.jsonl"]
    assert rejects.count(b'"other"') == 1


def test_names_with_controls_reach_the_terminal_as_numbers(tmp_path):
    project = Project(tmp_path)
    project.add_lines("x", {"a\x1b[2J\n.jsonl": b'{"rows": 1}\n'})
    project.write_params()
    project.run("snapshots")
    done = refused(project.stage("normalize", "x"), "unknown_format")
    assert "\x1b" not in done.stderr + done.stdout
    broken = project.root / "snapshots/x/provenance.yaml"
    broken.write_text("source: x\nlicence: y\ntime_range: {from: '\x85\u202e', to: x}\n")
    assert "\u202e" not in refused(project.stage("snapshots", "--name", "x")).stderr


@pytest.mark.parametrize("kind", ["outside", "dangling", "fifo"])
def test_nothing_selected_is_passed_over_or_read_from_outside(tmp_path, kind):
    project = project_of(tmp_path, [envelope_line(rows(make_world(3))[0])])
    odd = project.root / "snapshots/x/traces/odd.jsonl"
    if kind == "fifo":
        os.mkfifo(odd)
    else:
        odd.symlink_to("/etc/hostname" if kind == "outside" else "nowhere")
    refused(project.stage("snapshots", "--name", "x"), "odd.jsonl")


def test_a_name_that_is_not_utf8_is_refused(tmp_path):
    project = project_of(tmp_path, [envelope_line(rows(make_world(3))[0])])
    (project.root / "snapshots/x/traces" / os.fsdecode(b"\xff.jsonl")).write_bytes(b"{}\n")
    refused(project.stage("snapshots", "--name", "x"), "UTF-8")


def test_hidden_files_are_read_like_others(tmp_path):
    project = project_of(tmp_path, [envelope_line(rows(make_world(3))[0])])
    (project.root / "snapshots/x/traces/.hidden.jsonl").write_bytes(b"\n")
    project.run("snapshots", "normalize")
    assert json.loads((tmp_path / "metrics/normalize-x.json").read_text())["reasons"] == {"blank_line": 1}


@pytest.mark.parametrize(
    "declared",
    [
        {"problems": "/etc/hostname"},
        {"problems": "../../params.yaml"},
        {"patterns": ["../../../../../etc/hostname"]},
        {"patterns": ["/etc/*"]},
        {"patterns": [""]},
        {"time_range": {"from": "banana", "to": "2026-05-01"}},
        {"time_range": {"from": "2026-05-02", "to": "2026-05-01"}},
        {"source": "a\x00b"},
    ],
)
def test_a_declaration_cannot_point_outside_or_at_nonsense(tmp_path, declared):
    project = project_of(tmp_path, [envelope_line(rows(make_world(3))[0])], **declared)
    refused(project.stage("snapshots", "--name", "x"))
    assert not (tmp_path / "data/snapshots/x").exists()


BOMB = (
    "gate: {max_tokens: [&a [1,1,1,1,1,1,1,1,1,1], "
    + ", ".join(f"&{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 10)}]" for n in range(9))
    + "]}"
)


@pytest.mark.parametrize(
    "text",
    [
        "gate: {outcome: any}\ngate: {outcome: any}",
        "gate: {max_tokens: !!int abc}",
        "gate: {max_tokens: !!bool maybe}",
        "gate: " + "[" * 3000,
        "gate: {max_tokens: " + "9" * 5000 + "}",
        BOMB,
        "normalize: {max_line_bytes: 9223372036854775807}",
        "gate: {unanimity_min_validators: 9223372036854775807}",
        "split: {held_out: 2026-13-45}",
    ],
)
def test_hurtful_yaml_is_refused_at_once(tmp_path, text):
    project = project_of(tmp_path, [envelope_line(rows(make_world(3))[0])])
    path = project.root / "params.yaml"
    path.write_text(path.read_text() + text + "\n")
    refused(project.stage("snapshots", "--name", "x"), "params.yaml")


def test_a_missing_tokenizer_is_no_silent_difference(tmp_path):
    (tmp_path / "shadow").mkdir()
    (tmp_path / "shadow/tokenizers.py").write_text("raise ImportError('not here')\n")
    project = Project(tmp_path / "project")
    project.add_snapshot("demo")
    project.write_params()
    project.run("snapshots", "normalize")
    shadow = os.pathsep.join([str(tmp_path / "shadow"), str(DEMO.parent.parent)])
    refused(project.stage("evidence", "demo", PYTHONPATH=shadow), "tokenizer", "none")


def test_queries_of_a_traces_own_making_join_no_cluster(tmp_path):
    world = make_world(3)
    problems = list(world.problems.values())
    base = honest(world, problems[0], 1).envelope
    glue = []
    for number in range(120):
        row = json.loads(json.dumps(base))
        row["problem_id"] = f"own-{number}"
        for step in row["dialogue"]:
            step["extra_info"] |= {"problem_id": f"own-{number}", "query": f"{problems[0]['query']} extra{number}"}
        glue.append(json.dumps(row).encode())
    project = project_of(tmp_path, [envelope_line(base), *glue], problems="problems.jsonl")
    listed = "".join(json.dumps(problem) + "\n" for problem in problems)
    (project.root / "snapshots/x/problems.jsonl").write_text(listed)
    project.run("snapshots", "normalize", "cluster")
    found = json.loads((tmp_path / "metrics/cluster.json").read_text())
    assert (found["problems"], found["attempts_without_problem"]) == (len(problems), 120)
