"""A model directory is checked before anything of it is used, and every refusal says what and where."""

import json
import pickle
import shutil

import pytest
from safetensors.numpy import load_file, save_file

from oresmith.errors import OresmithError
from oresmith.models import HERMES, QWEN3, Chat
from oresmith.models.directory import PICKLES, check_directory, load_model, template_of
from oresmith.models.facts import FACTS_FILE


@pytest.fixture
def model(tiny_dir, tmp_path):
    path = tmp_path / "model"
    shutil.copytree(tiny_dir, path)
    return path


def change(path, **values):
    config = json.loads(path.read_text()) | values
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def refused(path, *words, **wishes):
    with pytest.raises(OresmithError) as error:
        check_directory(path, **wishes)
    assert error.value.exit_code == 2
    for word in words:
        assert word in str(error.value)


def test_a_sound_directory_is_measured(model):
    checked = check_directory(model, min_context=16_384)
    assert checked.template is QWEN3
    assert 100_000 < checked.parameters < 1_000_000
    assert (checked.dtypes, checked.context) == (["F32"], 16_384)


def test_a_missing_directory_is_refused(tmp_path):
    refused(tmp_path / "none", "no such model directory", "hub:ORG/NAME@SHA")
    refused(tmp_path, "no config")


@pytest.mark.parametrize("ending", sorted(PICKLES))
def test_a_pickle_is_refused_wherever_it_lies(model, ending):
    place = model / "checkpoint-5"
    place.mkdir()
    (place / f"optimizer{ending}").write_bytes(pickle.dumps({}))
    refused(model, "pickle", f"optimizer{ending}", "safetensors")


@pytest.mark.parametrize("name", ["modeling.py", "custom_generate/generate.py", "kernel.so", "x.PY"])
def test_code_of_the_models_own_is_refused(model, name):
    (model / name).parent.mkdir(exist_ok=True)
    (model / name).write_text("raise SystemExit")
    refused(model, "code of its own", name)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "processor_config.json"])
def test_a_map_to_code_is_refused(model, name):
    if not (model / name).exists():
        (model / name).write_text("{}")
    change(model / name, auto_map={"AutoModel": "elsewhere--modeling.Model"})
    refused(model, "code of its own", name, "auto_map")


def test_a_pickle_under_the_name_of_safetensors_is_refused(model):
    (model / "model.safetensors").write_bytes(pickle.dumps({"a": [1] * 100}))
    refused(model, "not a sound safetensors file", "model.safetensors")


def test_cut_off_weights_are_refused(model):
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    refused(model, "not a sound safetensors file")


@pytest.mark.parametrize(
    ("weight_map", "words"),
    [
        ({"a": "../model.safetensors"}, "outside"),
        ({"a": "weights.bin"}, "outside"),
        ({"a": "model-2.safetensors"}, "lacks weights"),
        ({}, "lacks weights"),
        (["x"], "lacks weights"),
    ],
)
def test_an_index_names_safetensors_beside_it_only(model, weight_map, words):
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    refused(model, words)


def test_an_index_of_several_files_is_followed(model):
    tensors = load_file(model / "model.safetensors")
    total = check_directory(model).parameters
    (model / "model.safetensors").unlink()
    names = sorted(tensors)
    halves = {"model-1.safetensors": names[:5], "model-2.safetensors": names[5:]}
    for name, keys in halves.items():
        save_file({key: tensors[key] for key in keys}, model / name)
    weight_map = {key: name for name, keys in halves.items() for key in keys}
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert check_directory(model).parameters == total


@pytest.mark.parametrize("model_type", ["none-such", None, "vit", 5, ["qwen3"]])
def test_a_config_that_transformers_does_not_know_is_refused(model, model_type):
    change(model / "config.json", model_type=model_type)
    refused(model, "knows no such language model", "config.json")


@pytest.mark.parametrize("text", ["{", "[]", "\xff", "[" * 100_000])
def test_a_config_that_is_no_json_object_is_refused(model, text):
    (model / "config.json").write_text(text, "latin-1")
    refused(model, "JSON", "config.json")


@pytest.mark.parametrize("values", [{"num_attention_heads": "x"}, {"hidden_act": 5}, {"rope_parameters": "x"}])
def test_a_config_whose_values_make_no_sense_is_refused(model, values):
    change(model / "config.json", **values)
    refused(model, "transformers refuses", "config.json")


def test_quantised_weights_are_refused(model):
    change(model / "config.json", quantization_config={"quant_method": "gptq"})
    refused(model, "quantised")


def test_too_short_a_context_is_refused(model):
    refused(model, "context is too short", "at least 16385", "16384", min_context=16_385)
    change(model / "config.json", max_position_embeddings=None)
    refused(model, "max_position_embeddings")


def test_an_adapter_alone_is_refused(model):
    (model / "config.json").rename(model / "adapter_config.json")
    refused(model, "adapter alone", "merged")


def test_a_tokenizer_is_needed(model):
    (model / "tokenizer.json").unlink()
    refused(model, "no readable tokenizer", "tokenizer.json")


@pytest.mark.parametrize("text", ["", "{}", '{"added_tokens": 5}', '{"added_tokens": [], "model": {"type": "x"}}'])
def test_a_tokenizer_that_is_none_is_refused(model, text):
    (model / "tokenizer.json").write_text(text)
    refused(model, "not a tokenizer")


def test_a_model_that_no_template_of_ours_fits_is_refused(model):
    path = model / "tokenizer.json"
    path.write_text(path.read_text().replace("<|im_start|>", "<|start|>"))
    refused(model, "no chat template of ours fits", "<|im_start|>", "ChatML")


def test_a_tokenizer_that_changes_text_is_refused(model):
    path = model / "tokenizer.json"
    change(path, normalizer={"type": "Lowercase"}, pre_tokenizer=None, decoder=None)
    refused(model, "does not keep text")


def test_more_tokens_than_embeddings_are_refused(model):
    change(model / "config.json", vocab_size=300)
    refused(model, "no embedding", "300")


def test_the_template_that_a_directory_names_rules_over_its_family(model):
    assert Chat.load(model).template is QWEN3
    change(model / FACTS_FILE, template="hermes/1")
    assert template_of(model) is HERMES
    assert template_of(model, "qwen3") is QWEN3
    (model / FACTS_FILE).unlink()
    (model / "chat_template.jinja").write_text(HERMES.text())
    assert template_of(model) is HERMES
    (model / "chat_template.jinja").write_text("{{ messages }}")
    assert template_of(model) is QWEN3
    (model / FACTS_FILE).write_text("{}")
    refused(model, "facts")


def test_weights_that_are_missing_are_never_filled_at_random(model):
    tensors = load_file(model / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(OresmithError, match="not those of the config") as error:
        load_model(model)
    assert "model.layers.1.mlp.up_proj.weight" in str(error.value)


def test_weights_of_other_shapes_are_refused(model):
    tensors = load_file(model / "model.safetensors")
    tensors["model.norm.weight"] = tensors["model.norm.weight"][:5].copy()
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(OresmithError, match="cannot be loaded"):
        load_model(model)
