"""The stand-alone GPU check runs anywhere, on whatever it finds, and says what it did and did not do."""

import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.code_deps import ROOT

pytest.importorskip("torch", reason="the extra `train` is not installed")
FILES = ("gpu_smoke.py", "gpu_smoke_parts.py", "gpu_smoke_trl.py")
PLAIN = ("sft", "rollouts", "kto", "grpo", "sft_long")
TRL = ("trl_sft", "trl_kto", "trl_grpo")


def smoke(where, *options):
    env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    for name in FILES:
        shutil.copyfile(ROOT / "benchmarks" / name, where / name)
    command = [sys.executable, str(where / FILES[0]), *options]
    return subprocess.run(command, cwd=where, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    where = tmp_path_factory.mktemp("smoke")
    done = smoke(where, "--tiny", "--out", "figures.json")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads((where / "figures.json").read_text())


def test_every_part_runs_away_from_the_project_and_reports_its_speed(tiny):
    assert set(tiny["parts"]) == {*PLAIN, *TRL}
    for name, figures in tiny["parts"].items():
        assert figures["tokens_per_s"] > 0, name
        assert 0 <= figures["utilisation"] <= 1.5, name


def test_it_names_what_it_found(tiny):
    import torch
    import transformers

    assert tiny["packages"]["torch"] == torch.__version__
    assert tiny["packages"]["transformers"] == transformers.__version__
    assert tiny["model"] == "Qwen3ForCausalLM" and tiny["lora"] == "peft"


def test_without_time_every_part_says_that_it_was_left_out(tmp_path):
    done = smoke(tmp_path, "--tiny", "--seconds", "0", "--out", "figures.json")
    parts = json.loads((tmp_path / "figures.json").read_text())["parts"]
    assert done.returncode == 0
    assert set(parts) == {*PLAIN, *TRL} and all("left_out" in figures for figures in parts.values())


def test_without_a_gpu_the_full_size_is_refused(tmp_path):
    done = smoke(tmp_path)
    assert done.returncode != 0 and "no GPU" in done.stderr


def test_it_imports_nothing_of_the_project():
    for name in FILES:
        text = (ROOT / "benchmarks" / name).read_text()
        assert not [
            line for line in text.splitlines() if "import" in line and ("oresmith" in line or "benchmarks" in line)
        ]


def test_the_full_shape_is_that_of_qwen3_4b():
    from benchmarks import gpu_smoke_parts
    from oresmith.doctor.sizes import QWEN3_4B

    shape = gpu_smoke_parts.FULL.shape
    assert {key: shape[key] for key in QWEN3_4B if key != "model_type"} == {
        key: value for key, value in QWEN3_4B.items() if key != "model_type"
    }
    assert gpu_smoke_parts.FULL.long_row == 14_336


@pytest.mark.parametrize("adapters", ["peft", "own"])
def test_each_step_moves_only_the_adapters(adapters, monkeypatch):
    import torch

    from benchmarks import gpu_smoke_parts as parts

    if adapters == "own":
        monkeypatch.setattr(parts, "find_spec", lambda name: None)
    one = parts.Smoke(parts.TINY, "cpu", torch.float32)
    assert one.lora.by == adapters
    frozen = {name: value.clone() for name, value in one.model.named_parameters() if not value.requires_grad}
    for step in (one.sft, one.kto, one.grpo):
        before = [value.detach().clone() for value in one.lora.trained()]
        assert step() > 0
        assert any(bool((old != new).any()) for old, new in zip(before, one.lora.trained(), strict=True))
    assert all(bool((value == frozen[name]).all()) for name, value in one.model.named_parameters() if name in frozen)


@pytest.mark.parametrize("adapters", ["peft", "own"])
def test_the_reference_is_the_model_without_its_adapters(adapters, monkeypatch):
    import torch

    from benchmarks import gpu_smoke_parts as parts

    if adapters == "own":
        monkeypatch.setattr(parts, "find_spec", lambda name: None)
    one = parts.Smoke(parts.TINY, "cpu", torch.float32)
    ids, mask = one._rows(2, 16)

    def reference():
        with torch.no_grad(), one.lora.reference():
            return parts.logps(one.model.eval(), ids, mask)[0]

    before = reference()
    one.sft()
    with torch.no_grad():
        trained = parts.logps(one.model.eval(), ids, mask)[0]
    assert torch.equal(reference(), before)
    assert not torch.equal(trained, before)


def test_log_probabilities_are_those_of_the_whole_head():
    import torch

    from benchmarks import gpu_smoke_parts as parts

    one = parts.Smoke(parts.TINY, "cpu", torch.float32)
    ids, mask = one._rows(2, 12)
    with torch.no_grad():
        got, rows = parts.logps(one.model.eval(), ids, mask)
        whole = torch.log_softmax(one.model(input_ids=ids).logits.float(), -1)
    want = [whole[row, place - 1, ids[row, place]] for row in range(2) for place in range(12) if mask[row, place]]
    torch.testing.assert_close(got, torch.stack(want))
    assert rows.tolist() == [0, 0, 0, 1, 1, 1]


def test_wheels_fill_in_what_is_missing_and_nothing_else(tmp_path, monkeypatch):
    from benchmarks.gpu_smoke import unpack_wheels

    monkeypatch.setattr(sys, "path", list(sys.path))
    wheels, target = tmp_path / "wheels", tmp_path / "unpacked"
    wheels.mkdir()
    target.mkdir()
    for name, tag in (
        ("oresmith_absent_one", "py3-none-any"),
        ("torch", "py3-none-any"),
        ("other", "cp311-cp311-linux_x86_64"),
    ):
        with zipfile.ZipFile(wheels / f"{name}-1.0-{tag}.whl", "w") as packed:
            packed.writestr(f"{name}/__init__.py", "VALUE = 7\n")
            packed.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    assert unpack_wheels(wheels, target) == ["oresmith_absent_one-1.0-py3-none-any.whl"]
    from importlib import import_module, metadata

    assert import_module("oresmith_absent_one").VALUE == 7
    assert metadata.version("oresmith_absent_one") == "1.0"
    assert sorted(path.name for path in target.iterdir()) == [
        "oresmith_absent_one",
        "oresmith_absent_one-1.0.dist-info",
    ]
