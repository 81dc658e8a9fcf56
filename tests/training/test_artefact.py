"""A trained model as files: adapter and merged model are complete, equal, unpickled, and the same every time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file

from oresmith.errors import OresmithError
from oresmith.models.base import write_base
from oresmith.models.directory import CheckedModel, check_directory, load_model
from oresmith.models.facts import ModelFacts, read_facts
from oresmith.models.rendering import Chat, render
from oresmith.param_models import Base
from oresmith.training import artefact
from oresmith.training.artefact import Probe, adapter_sha256, finish_model, save_trained

QUESTION = [{"role": "user", "content": "A wireless mouse, black"}]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> CheckedModel:
    path = tmp_path_factory.mktemp("base") / "base"
    path.mkdir()
    write_base(Base(model="tiny", dtype="bfloat16"), path)
    return check_directory(path)


def facts_of(start: CheckedModel) -> ModelFacts:
    facts = read_facts(start.path)
    assert facts is not None
    return facts


def adapted(start: CheckedModel, size: float = 0.3, seed: int = 1) -> PeftModel:
    """A LoRA model whose adapter is random, as if it had been trained."""
    torch.manual_seed(seed)
    model = get_peft_model(
        load_model(start.path),
        LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=True),
    )
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_B" in name:
                value.normal_(std=size)
    return model


def finish(start: CheckedModel, target: Path, dtype: str = "bfloat16") -> tuple[ModelFacts, Probe]:
    return finish_model(start, facts_of(start), target, dtype=dtype, step="sft/1", seed=1)


def logits(model: Any, start: CheckedModel) -> torch.Tensor:
    ids = render(QUESTION, None, Chat(start.template, start.tokenizer)).ids
    with torch.inference_mode():
        found: torch.Tensor = model(input_ids=torch.tensor([ids])).logits[0].float()
    return found


@pytest.fixture(scope="module")
def made(start: CheckedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("made")
    save_trained(adapted(start), target)
    finish(start, target)
    return target


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("bfloat16", 0.1)])
def test_the_merged_model_answers_as_base_with_adapter_does_whoever_loads_them(
    start: CheckedModel, tmp_path: Path, dtype: str, tolerance: float
):
    trained = adapted(start)
    save_trained(trained, tmp_path)
    _, probe = finish(start, tmp_path, dtype)
    expected, plain = logits(trained, start), logits(load_model(start.path), start)
    read = PeftModel.from_pretrained(load_model(start.path), str(tmp_path / "adapter"))
    assert torch.allclose(logits(read, start), expected, atol=1e-5)
    merged = logits(load_model(tmp_path / "model"), start)
    assert (merged - expected).abs().max() < tolerance * (expected - plain).abs().max()
    assert probe.changed_max > 10 * probe.rounded_max
    assert probe.merged_max < 1e-4


def test_the_directory_is_a_whole_model_that_the_next_step_can_start_from(start: CheckedModel, made: Path):
    checked = check_directory(made / "model")
    assert checked.dtypes == ["BF16"]
    assert checked.parameters == start.parameters
    assert checked.template == start.template
    assert checked.tokenizer.sha256 == start.tokenizer.sha256
    assert (made / "model" / "chat_template.jinja").read_bytes() == (start.path / "chat_template.jinja").read_bytes()
    assert json.loads((made / "model" / "config.json").read_bytes()) == start.config | {"dtype": "bfloat16"}
    facts, own = read_facts(made / "model"), facts_of(start)
    assert facts is not None
    assert (facts.model, facts.origin) == ("sft/1", f"{own.origin}; then step sft/1, seed 1")
    assert (facts.licence, facts.notes, facts.parameters) == (own.licence, own.notes, own.parameters)


def test_only_safetensors_json_and_text_are_written_readable_by_all(made: Path):
    files = [path for path in made.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".safetensors", ".json", ".jinja"}
    assert {path.stat().st_mode & 0o777 for path in files} == {0o644}
    assert {path.name for path in (made / "adapter").iterdir()} == {"adapter_config.json", "adapter_model.safetensors"}
    assert (made / "adapter" / "adapter_model.safetensors").stat().st_size < sum(
        path.stat().st_size for path in (made / "model").iterdir()
    )


def test_the_same_training_gives_the_same_bytes(start: CheckedModel, made: Path, tmp_path: Path):
    save_trained(adapted(start), tmp_path)
    finish(start, tmp_path)
    names = {path.relative_to(made) for path in made.rglob("*") if path.is_file()}
    assert names == {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert [name for name in names if (made / name).read_bytes() != (tmp_path / name).read_bytes()] == []
    assert adapter_sha256(made) == adapter_sha256(tmp_path)
    other = tmp_path / "other"
    save_trained(adapted(start, seed=2), other)
    assert adapter_sha256(other) != adapter_sha256(made)


def test_the_adapter_names_its_base_in_the_projects_own_words(start: CheckedModel, made: Path):
    config = json.loads((made / "adapter" / "adapter_config.json").read_bytes())
    assert config["base_model_name_or_path"] == start.path.as_posix()
    assert config["target_modules"] == sorted(config["target_modules"])


def test_all_weights_trained_are_stored_whole_without_an_adapter(start: CheckedModel, tmp_path: Path):
    model = load_model(start.path)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(0.02 * torch.randn(value.shape, generator=torch.Generator().manual_seed(1)))
    save_trained(model, tmp_path)
    facts, probe = finish(start, tmp_path, "float32")
    assert adapter_sha256(tmp_path) is None
    assert facts.dtypes == ["F32"]
    assert (probe.merged_max, probe.rounded_max) == (0, 0)
    assert torch.equal(logits(load_model(tmp_path / "model"), start), logits(model, start))


def test_an_adapter_that_changes_nothing_is_refused(start: CheckedModel, tmp_path: Path):
    save_trained(adapted(start, size=0), tmp_path)
    with pytest.raises(OresmithError, match="training changed nothing"):
        finish(start, tmp_path)


def test_a_merge_that_is_not_base_and_adapter_is_refused(
    start: CheckedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    save_trained(adapted(start), tmp_path)
    monkeypatch.setattr(PeftModel, "merge_and_unload", lambda model: load_model(start.path), raising=False)
    with pytest.raises(OresmithError, match=r"not base \+ adapter"):
        finish(start, tmp_path)


def test_files_that_are_not_the_merged_weights_are_refused(
    start: CheckedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def write(model: Any, folder: Path, dtype: str) -> None:
        real(model, folder, dtype)
        weights = load_file(folder / "model.safetensors")
        name = sorted(weights)[0]
        save_file(weights | {name: weights[name] + 1}, folder / "model.safetensors", metadata={"format": "pt"})

    real = artefact._write
    save_trained(adapted(start), tmp_path)
    monkeypatch.setattr(artefact, "_write", write)
    with pytest.raises(OresmithError, match="files are not the merged weights"):
        finish(start, tmp_path)


def test_a_change_too_small_for_the_stored_type_is_refused_and_kept_by_a_wider_one(start: CheckedModel, tmp_path: Path):
    for name, dtype in (("narrow", "bfloat16"), ("wide", "float32")):
        save_trained(adapted(start, size=1e-5), tmp_path / name)
        if dtype == "bfloat16":
            with pytest.raises(OresmithError, match="would lose what it was trained"):
                finish(start, tmp_path / name, dtype)
        else:
            assert finish(start, tmp_path / name, dtype)[1].rounded_max == 0


def test_weights_that_are_no_numbers_are_refused(start: CheckedModel, tmp_path: Path):
    model = adapted(start)
    with torch.no_grad():
        next(value for name, value in model.named_parameters() if "lora_B" in name)[0, 0] = float("nan")
    save_trained(model, tmp_path)
    with pytest.raises(OresmithError, match="no numbers"):
        finish(start, tmp_path)


@pytest.mark.parametrize("missing", ["adapter_config.json", "adapter_model.safetensors"])
def test_half_an_adapter_and_none_are_refused(start: CheckedModel, tmp_path: Path, missing: str):
    with pytest.raises(OresmithError, match="left no weights"):
        finish(start, tmp_path)
    save_trained(adapted(start), tmp_path)
    (tmp_path / "adapter" / missing).unlink()
    with pytest.raises(OresmithError, match=f"(?s)not whole.*{missing}"):
        finish(start, tmp_path)


def test_a_probe_survives_its_file(made: Path, start: CheckedModel):
    _, probe = finish(start, made)
    assert msgspec.json.decode(msgspec.json.encode(probe), type=Probe) == probe
