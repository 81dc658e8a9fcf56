"""Bad input is refused with a clear message and exit code 2, nothing half-written, nothing computed lost."""

import gzip

import pytest

from tests.pipeline.project import Project
from tests.worlds import envelope_line, honest, make_world


@pytest.fixture
def project(tmp_path):
    world = make_world(3)
    problem = next(iter(world.problems.values()))
    project = Project(tmp_path)
    project.add_lines("small", {"a.jsonl": envelope_line(honest(world, problem, 1).envelope) + b"\n"})
    project.write_params()
    return project


def refused(done, *words):
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr
    return done


def no_output(project, stage, name="small"):
    folder = project.root / "data" / stage
    assert not (folder / name).exists()
    assert not [path for path in folder.glob(".*") if path.is_dir() and path.name.endswith(".new")]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gate": {"reasonning_min": 1}}, ["gate.reasonning_min", "did you mean reasoning_min"]),
        ({"gate": {"reasoning_min": "high"}}, ["gate.reasoning_min", "float"]),
        ({"normalise": {}}, ["normalise", "did you mean normalize"]),
        ({"gate": {"length_missing": "reject"}, "evidence": {"tokenizer": "none"}}, ["evidence.tokenizer"]),
    ],
)
def test_a_wrong_parameter_is_named_before_any_work(project, changes, words):
    project.write_params(**changes)
    refused(project.stage("snapshots", "--name", "small"), *words)
    no_output(project, "snapshots")


def test_a_missing_path_is_named(project):
    project.params["snapshots"][0]["path"] = "nowhere"
    project.write_params()
    refused(project.stage("snapshots", "--name", "small"), "nowhere", "does not exist")


def test_a_source_without_traces_is_refused(project):
    (project.root / "snapshots/small/traces/a.jsonl").write_bytes(b"")
    refused(project.stage("snapshots", "--name", "small"), "empty")
    no_output(project, "snapshots")


@pytest.mark.parametrize("text", ["source: x", "- a", "source: {", "source: a\nlicence: b\ntime_range: 1"])
def test_a_wrong_provenance_file_is_refused(project, text):
    (project.root / "snapshots/small/provenance.yaml").write_text(text)
    refused(project.stage("snapshots", "--name", "small"), "provenance.yaml")


def test_an_unknown_format_is_refused_with_the_known_ones(project):
    (project.root / "snapshots/small/traces/a.jsonl").write_bytes(b'{"rows": 1}\n{"rows": 2}\n')
    project.run("snapshots")
    refused(project.stage("normalize", "small"), "sn15-envelope", "atif", "unknown_format 2")
    no_output(project, "normalize")


def test_a_pinned_source_that_changed_is_refused(project):
    project.params["snapshots"][0]["sha256"] = "0" * 64
    project.write_params()
    refused(project.stage("snapshots", "--name", "small"), "pinned")


def test_a_truncated_stream_fails_unless_a_parameter_accepts_it(project):
    world = make_world(4)
    body = b"".join(
        envelope_line(honest(world, problem, 1).envelope) + b"\n" for problem in list(world.problems.values())[:6]
    )
    whole = gzip.compress(body, mtime=0)
    (project.root / "snapshots/small/traces/b.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    project.run("snapshots")
    refused(project.stage("normalize", "small"), "b.jsonl.gz", "accept_truncated")
    no_output(project, "normalize")
    project.write_params(normalize={"accept_truncated": True})
    project.run("normalize")
    report = (project.root / "data/normalize/small/report.json").read_text()
    assert "stream_truncated" in report


def test_a_catalogue_without_gold_products_is_refused(project):
    demo = Project(project.root / "other")
    source = demo.add_snapshot("demo")
    (source / "catalogue.jsonl").write_text('{"product_id": "1"}\n')
    demo.write_params()
    demo.run("snapshots", "normalize")
    refused(demo.stage("evidence", "demo"), "gold", "catalogue")
    no_output(demo, "evidence", "demo")


def test_a_stage_run_too_early_says_what_to_run(project):
    refused(project.stage("normalize", "small"), "snapshot")
    refused(project.stage("gate"), "dvc repro")


def test_an_unknown_snapshot_name_is_refused(project):
    refused(project.stage("normalize", "smal"), "no such snapshot", "small")
