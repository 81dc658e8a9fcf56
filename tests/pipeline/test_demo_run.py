"""The default run: every row of the demo snapshot lands where its truth says, and again in the same bytes."""

import json

import polars as pl
import pytest

from oresmith.funnel import load_funnel
from oresmith.params import load_params
from tests.pipeline.project import Project


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("demo"))
    project.add_snapshot("demo")
    project.write_params()
    project.run()
    return project


def test_every_line_read_is_accepted_or_rejected_for_a_reason(done):
    funnel = load_funnel(load_params(done.root / "params.yaml"), done.root / "data")
    assert funnel.read == funnel.accepted + funnel.rejected
    assert funnel.accepted >= 12
    assert sum(funnel.reasons.values()) == funnel.rejected


def test_rejects_on_disk_are_as_many_as_the_report_says(done):
    data = done.root / "data"
    for folder, files in (("normalize/demo", "rejects/*.jsonl"), ("gate", "rejects.jsonl")):
        report = json.loads((data / folder / "report.json").read_text())
        lines = [json.loads(line) for path in (data / folder).glob(files) for line in path.open()]
        assert len(lines) == report["rejected"]
        assert all(line["source"]["line"] >= 1 and line["reasons"] for line in lines)


def test_accepted_trajectories_come_from_several_agents_and_all_three_categories(done):
    decisions = pl.read_parquet(done.root / "data/gate/decisions.parquet").filter("accepted")
    assert set(decisions["category"]) == {"product", "shop", "voucher"}
    assert (decisions["origin"] == "A").all()


def test_workers_input_order_and_shards_never_change_a_row(done, tmp_path):
    other = Project(tmp_path)
    other.add_snapshot("demo")
    other.write_params(run={"workers": 2}, normalize={"shard_bytes": 30_000})
    other.run()
    again = Project(tmp_path / "single")
    again.add_snapshot("demo")
    again.write_params(run={"workers": 1}, normalize={"shard_bytes": 30_000})
    again.run()
    assert other.tree() == again.tree()
    rows = [
        pl.concat([pl.read_parquet(path) for path in sorted((root / "data/evidence/demo/table").glob("*.parquet"))])
        for root in (done.root, other.root)
    ]
    assert rows[0].equals(rows[1])


def test_a_second_run_gives_the_same_bytes(done):
    before = done.tree()
    done.run()
    assert done.tree() == before


def test_a_gate_parameter_changes_decisions_and_no_evidence(done, tmp_path):
    before = done.tree("data/evidence")
    strict = Project(done.root)
    strict.params = done.params | {"gate": {"reasoning_min": 0.95}}
    strict.write_params()
    strict.run("gate")
    report = json.loads((done.root / "data/gate/report.json").read_text())
    done.write_params()
    done.run("gate")
    assert report["reasons"]["reasoning"] > 0
    assert done.tree("data/evidence") == before


@pytest.mark.slow
def test_ray_gives_the_same_bytes(done, tmp_path):
    ray = Project(tmp_path)
    ray.add_snapshot("demo")
    ray.write_params(run={"executor": "ray", "workers": 2})
    ray.run()
    assert ray.tree() == done.tree()
