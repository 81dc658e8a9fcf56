"""The stages `sft` and `control`: what they publish, what stops them, and how they go on after a kill."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

from oresmith.blocks.atomic import load_manifest
from oresmith.errors import OresmithError
from oresmith.models.directory import check_directory
from oresmith.param_models import Model
from oresmith.params import load_params
from oresmith.training import step as steps
from oresmith.training.artefact import adapter_sha256
from oresmith.training.manifest import read_rows
from oresmith.training.step import OpenStep, Spec, find_model, open_step, skip_step
from oresmith.training.trained import TRAINING_SCHEMA, Training, read_training, write_training
from stages import control, sft
from stages.rollout import model_directory
from tests.pipeline.project import Project
from tests.training.project import copied, inside

SFT = Path("data/sft/1")


def training_of(directory: Path) -> Training:
    found = read_training(directory)
    assert found is not None
    return found


def spec_of(name: str = "sft/1", step: str = "sft", start: str = "base") -> Spec:
    return Spec(name, step, start, 1, load_params().sft)


def checkpoints(name: str = "sft-1") -> list[Path]:
    return sorted(Path("data").glob(f".{name}.checkpoints/*/checkpoint-*"))


@pytest.fixture(scope="module")
def finished(certified: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose stage `sft` was run for seed 1, as a user runs it. Not to be changed."""
    made = copied(certified, tmp_path_factory.mktemp("finished"))
    done = made.stage("sft", "1")
    assert (done.returncode, "2 updates" in done.stdout) == (0, True), done.stderr
    return made


@pytest.fixture
def trained(finished: Project, tmp_path: Path) -> Iterator[Project]:
    """A copy of it that is the working directory."""
    made = copied(finished, tmp_path / "trained")
    with inside(made):
        yield made


def test_the_directory_holds_the_model_its_adapter_and_where_all_of_it_came_from(trained: Project):
    assert {path.name for path in SFT.iterdir()} == {
        "adapter",
        "model",
        "rows.jsonl.zst",
        "training.json",
        "curve.csv",
        "manifest.json",
    }
    training = training_of(SFT)
    base = find_model("base", "test")
    assert (training.schema, training.step, training.name, training.seed) == (TRAINING_SCHEMA, "sft", "sft/1", 1)
    assert (training.steps, training.skipped) == (2, None)
    assert training.start["from"] == "base"
    weights = hashlib.sha256(Path("data/base/model.safetensors").read_bytes()).hexdigest()
    assert training.start["weights_sha256"] == weights
    assert training.start["facts"]["template"] == base.facts.template
    assert training.chat == base.chat.identity()
    assert training.parameters["sft"]["max_steps"] == 2
    assert training.parameters["train"]["rank"] == 4
    assert not {"seeds", "enabled"} & set(training.parameters["sft"])
    assert {"torch", "transformers", "trl", "peft"} <= set(training.versions)
    certificate = hashlib.sha256(Path("data/audit/certificate/certificate.json").read_bytes()).hexdigest()
    assert training.data["certificate_sha256"] == certificate
    assert training.adapter_sha256 == adapter_sha256(SFT)
    assert training.probe["changed_max"] > 0
    assert training.leaks[0]["conversations"] > 0
    assert load_manifest(SFT, TRAINING_SCHEMA)["params"] == training.parameters
    assert training.rendering["rejected"]["too_long"] == training.rendering["rows"] - training.rendering["kept"]


def test_the_data_manifest_names_every_row_that_was_trained_on(trained: Project):
    training, rows = training_of(SFT), list(read_rows(SFT))
    assert len(rows) == training.rows["rows"] == training.rendering["kept"]
    assert sum(row.tokens for row in rows) == training.rows["tokens"]
    assert {row.origin for row in rows} == {"corpus"}
    entry = next(one for one in load_manifest(SFT, TRAINING_SCHEMA)["files"] if one["path"] == "rows.jsonl.zst")
    assert entry["rows"] == len(rows)


def test_the_curve_has_a_row_an_update_here_and_where_dvc_looks(trained: Project):
    with (SFT / "curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["1", "2"]
    assert all(float(row["loss"]) > 0 for row in rows)
    assert list(rows[0])[:3] == ["step", "loss", "learning_rate"]
    assert list(Path("plots/training/sft-1").rglob("loss.tsv"))
    metrics = json.loads(Path("metrics/sft-1.json").read_bytes())
    assert metrics["steps"] == 2
    assert metrics["loss"] == training_of(SFT).loss


def test_what_a_run_took_is_told_outside_of_the_artefact(trained: Project):
    observed = json.loads(Path("data/observed/sft-1.json").read_bytes())
    assert {"seconds", "peak_rss_mib", "resumed_from_step", "starts"} <= set(observed)
    assert "seconds" not in (SFT / "training.json").read_text()


def test_no_checkpoints_are_left_and_nothing_but_the_output(trained: Project):
    left = {path.name for path in Path("data").iterdir()} | {path.name for path in Path("data/sft").iterdir()}
    assert not [name for name in left if "checkpoints" in name or ".new" in name or ".scratch" in name]


def test_the_model_can_be_played_and_trained_on(trained: Project):
    directory = model_directory(Model(name="sft-1", stage="sft/1"))
    assert directory == SFT / "model"
    assert check_directory(SFT / "model", min_context=4096).template.id == find_model("base", "test").facts.template
    with open_step(load_params(), spec_of("teacher", "teacher", "sft/1")) as step:
        outcome = step.fit(step.corpus_rows(4))
        step.publish(outcome, cost=3)
    training = training_of(Path("data/teacher"))
    assert training.start["facts"]["model"] == "sft/1"
    assert training.extra["cost"] == 3
    assert training.model["origin"].endswith("then step sft/1, seed 1; then step teacher, seed 1")


def test_the_same_seed_gives_the_same_bytes_and_another_seed_another_adapter(trained: Project, finished: Project):
    before = finished.tree("data/sft")
    trained.write_params(sft={"seeds": [1, 2]})
    sft.run(load_params(), 1)
    assert trained.tree("data/sft") == before
    sft.run(load_params(), 2)
    assert adapter_sha256(SFT) != adapter_sha256(Path("data/sft/2"))


class KilledError(Exception):
    """Stands for a kill: the stage's own code has no say in what follows."""


def test_a_run_that_died_goes_on_from_its_checkpoint_to_the_same_bytes(
    project: Project, finished: Project, monkeypatch: pytest.MonkeyPatch
):
    def die(*args: Any, **more: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(steps, "finish_model", die)
        sft.run(load_params(), 1)
    assert [path.name for path in checkpoints()] == ["checkpoint-2"]
    assert not SFT.exists()
    sft.run(load_params(), 1)
    observed = json.loads(Path("data/observed/sft-1.json").read_bytes())
    assert (observed["starts"], observed["resumed_from_step"]) == (2, 2)
    assert project.tree("data/sft") == finished.tree("data/sft")
    assert checkpoints() == []


def test_a_full_disk_at_the_model_is_a_clear_end_that_keeps_the_checkpoint(
    project: Project, monkeypatch: pytest.MonkeyPatch
):
    def fill(*args: Any, **more: Any) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(steps, "finish_model", fill)
    with pytest.raises(OresmithError, match="disk refused a write"):
        sft.run(load_params(), 1)
    assert len(checkpoints()) == 1
    assert not SFT.exists()


def test_checkpoints_belong_to_parameters_rows_and_start_but_not_to_how_often_they_are_made(project: Project):
    def place(**changes: Any) -> Path:
        project.write_params(**changes)
        params = load_params()
        spec = Spec("sft/1", "sft", "base", 1, params.sft)
        step = OpenStep(params, spec, find_model("base", "test"), Path("scratch"))
        step.take(step.corpus_rows(params.sft.max_rows))
        return step.checkpoints()

    Path("scratch").mkdir()
    first = place()
    (first / "checkpoint-2").mkdir()
    assert place(train={"save_dtype": "bfloat16", "checkpoint_steps": 5}) == first
    assert (first / "checkpoint-2").is_dir()
    found = [first, place(sft={"learning_rate": 0.001}), place(sft={"max_rows": 9}), place(train={"rank": 8})]
    assert len(set(found)) == 4
    assert not first.exists()
    assert list(found[-1].parent.iterdir()) == [found[-1]]


def test_a_corpus_whose_certificate_fails_is_not_trained_on(project: Project):
    path = next(Path("data/corpus/sft").glob("train-*.parquet"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(OresmithError, match="certificate fails"):
        sft.run(load_params(), 1)
    assert not SFT.exists()
    assert checkpoints() == []


def test_a_leak_in_what_is_trained_on_stops_the_step_before_it_trains(project: Project):
    import polars as pl

    assigned = pl.read_parquet("data/split/assignments.parquet").filter(pl.col("pool") == "heldout")
    problems = pl.read_parquet("data/cluster/problems.parquet").filter(
        pl.col("problem").is_in(assigned["problem"].implode())
    )
    query = problems["query"].drop_nulls()[0]
    with (
        pytest.raises(OresmithError, match="holds what is held out"),
        open_step(load_params(), spec_of()) as step,
    ):
        step.check_text([("row", [{"role": "user", "content": query}])])
    assert not SFT.exists()


def test_too_few_rows_are_refused_with_their_counts(project: Project):
    project.write_params(train={"min_rows": 5000})
    with pytest.raises(OresmithError, match=r"(?s)too few rows.*train\.min_rows"):
        sft.run(load_params(), 1)
    project.write_params(train={"min_rows": 8, "max_tokens": 100})
    with pytest.raises(OresmithError, match=r"(?s)too few rows.*too_long"):
        sft.run(load_params(), 1)


@pytest.mark.parametrize(("start", "words"), [("teacher", "teacher is switched off"), ("kto", "no model to start")])
def test_a_step_without_a_model_is_no_start(project: Project, start: str, words: str):
    skip_step(spec_of("teacher", "teacher"))
    assert {path.name for path in Path("data/teacher").iterdir()} == {"training.json", "manifest.json"}
    assert json.loads(Path("data/teacher/training.json").read_bytes()) == {
        "schema": TRAINING_SCHEMA,
        "step": "teacher",
        "name": "teacher",
        "skipped": "switched off",
    }
    project.write_params(sft={"from": start})
    with pytest.raises(OresmithError, match=rf"(?s)sft\.from.*{words}"):
        sft.run(load_params(), 1)


def test_a_step_that_ends_without_a_model_publishes_nothing(project: Project):
    with pytest.raises(OresmithError, match="ended without a model"), open_step(load_params(), spec_of()) as step:
        step.take(step.corpus_rows())
    assert not SFT.exists()


def test_other_ranks_of_a_distributed_run_write_nothing(project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RANK", "1")
    with open_step(load_params(), spec_of()) as step:
        assert not step.main
        step.take(step.corpus_rows())
        folder = step.path
    assert not folder.exists()
    assert not SFT.exists()
    assert not Path("metrics/sft-1.json").exists()


def test_a_control_makes_the_updates_of_its_step_on_the_corpus_from_the_same_start(trained: Project):
    Path("data/teacher").mkdir()
    write_training(Path("data/teacher"), Training(step="teacher", name="teacher", steps=3))
    trained.write_params(
        teacher={"max_steps": 9, "batch": 2, "microbatch": 1, "learning_rate": 0.02}, sft={"max_rows": 5}
    )
    control.run(load_params(), "teacher")
    own = training_of(Path("data/control/teacher"))
    assert (own.step, own.name, own.start["from"], own.steps) == ("control", "control/teacher", "sft/1", 3)
    assert own.parameters["control"]["batch"] == 2
    assert own.parameters["control"]["learning_rate"] == 0.02
    assert set(own.rows["origins"]) == {"corpus"}
    assert len({row.row_id for row in read_rows(Path("data/control/teacher"))}) == 5
    assert own.extra["control_of"] == "teacher"
    assert Path("metrics/control-teacher.json").is_file()


def test_a_step_that_is_switched_off_has_no_control_and_one_that_has_not_run_is_asked_for(project: Project):
    with pytest.raises(OresmithError, match=r"(?s)needs its step.*stages\.kto"):
        control.run(load_params(), "kto")
    skip_step(spec_of("kto", "kto"))
    assert control.run(load_params(), "kto") is None
    assert training_of(Path("data/control/kto")).skipped == "not trained, as kto is switched off"


@pytest.mark.parametrize(
    ("stage", "arguments", "words"),
    [("sft", ["7"], "no such seed"), ("sft", [], "one argument"), ("control", ["sft"], "no such step")],
)
def test_wrong_arguments_are_refused(certified: Project, stage: str, arguments: list[str], words: str):
    done = certified.stage(stage, *arguments)
    assert (done.returncode, words in done.stderr) == (2, True)
