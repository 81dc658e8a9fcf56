"""The doctor says before anything starts what a run needs and what will not fit, and a plan asks for no hardware."""

import json
import math
import re
from importlib import metadata

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from oresmith.cli import app
from oresmith.doctor import diagnose, rates
from oresmith.doctor.checks import check_access, check_installed, check_launch
from oresmith.doctor.estimates import Estimator, Setting
from oresmith.doctor.facts import DataFacts, data_facts
from oresmith.doctor.machine import Gpu, Machine, read_gpus, read_machine
from oresmith.doctor.packages import check_packages, read_pins
from oresmith.doctor.shown import told, verdict
from oresmith.doctor.sizes import QWEN3_4B, base_size, size_of
from oresmith.errors import OresmithError
from oresmith.param_models import Base
from oresmith.params import check_params
from oresmith.profiles import load_profile
from tests.code_deps import ROOT

LAPTOP = Machine("Linux x86_64", "3.11.7", 2, 16.0, 40.0, [])
SERVER = Machine("Linux x86_64", "3.11.7", 64, 900.0, 4000.0, [Gpu("NVIDIA H100 80GB HBM3", 79.6, 79.1, "570.1")] * 8)
ARENA = {
    "name": "a", "source": "arena", "path": "suites", "provenance": "p.yaml", "suite": "s", "seed": 1, "products": 100,
    "day": "2026-06-01", "days": 2, "miners": {"expert": 2, "quick": 1},
}  # fmt: skip
FACTS = DataFacts("given", 1000, 500, 700, 100, 2000.0, 4000)
GPU_TRAIN = {"device": "cuda", "dtype": "bfloat16", "activation_checkpointing": True}


def params(**changes):
    return check_params({"snapshots": [ARENA], "teacher": {"enabled": False}, **changes}, "here")


def needs(size=None, setting=None, facts=FACTS, **changes):
    estimator = Estimator(params(**changes), size or base_size(Base()), facts, setting or Setting(2, None))
    return {need.stage: need for need in estimator.all()}


def project(root, **changes):
    """A project with parameters and one suite of 7 problems."""
    (root / "suites").mkdir()
    (root / "suites" / "s.yaml").write_text("counts: {product: {L1: 3, L2: 2}}\nvariants: {paraphrase: 2}\n")
    raw = {"snapshots": [ARENA], "base": {"model": "tiny"}, "train": {"max_tokens": 2000}, **changes}
    (root / "params.yaml").write_text(yaml.safe_dump(raw))
    (root / "constraints.txt").write_text((ROOT / "constraints.txt").read_text())
    return root


def of(found, topic):
    return [one for one in found.findings if one.topic == topic]


class TestMachine:
    def test_gpus_come_from_the_drivers_own_list(self):
        answer = 'NVIDIA H200, 143771, 143000, 570.86.15\n"Odd, name", 81920, 80000, 1.0\n'
        assert [(gpu.name, gpu.memory_gib) for gpu in read_gpus(answer)] == [
            ("NVIDIA H200", 140.4),
            ("Odd, name", 80.0),
        ]

    @given(st.text(max_size=80))
    def test_whatever_nvidia_smi_says_is_read_or_left_out(self, answer):
        for gpu in read_gpus(answer):
            assert isinstance(gpu.memory_gib, float)

    def test_a_container_may_take_less_than_the_machine_has(self, tmp_path):
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc" / "meminfo").write_text("MemTotal:       33554432 kB\nMemFree: 1 kB\n")
        assert read_machine(tmp_path, ask=str, system=tmp_path).memory_gib == 32.0
        (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
        limit = tmp_path / "sys/fs/cgroup/memory.max"
        limit.write_text("8589934592\n")
        assert read_machine(tmp_path, ask=str, system=tmp_path).memory_gib == 8.0
        limit.write_text("max\n")
        assert read_machine(tmp_path, ask=str, system=tmp_path).memory_gib == 32.0

    def test_a_system_that_says_nothing_of_its_memory_leaves_it_unknown(self, tmp_path):
        assert read_machine(tmp_path, ask=str, system=tmp_path).memory_gib is None

    def test_without_nvidia_smi_there_is_no_gpu(self, monkeypatch, tmp_path):
        monkeypatch.setenv("PATH", str(tmp_path))
        assert read_machine().gpus == []


class TestPackages:
    def test_this_environment_is_the_tested_one(self):
        found = check_packages(["data", "arena", "train", "eval"], ROOT)
        assert found.checked > 30
        assert (found.missing, found.wrong, found.untested) == ([], [], [])

    def test_missing_wrong_and_untested_versions_are_told_apart(self):
        real = metadata.version

        def version(name):
            if name == "trl":
                raise metadata.PackageNotFoundError(name)
            return {"peft": "0.1.0", "orjson": "99.0"}.get(name) or real(name)

        found = check_packages(["train"], ROOT, version=version)
        assert [(one.name, one.extra) for one in found.missing] == [("trl", "train")]
        assert [(one.name, one.found) for one in found.wrong] == [("peft", "0.1.0")]
        assert [(one.name, one.found) for one in found.untested] == [("orjson", "99.0")]

    def test_an_extra_that_is_not_asked_for_is_not_looked_at(self):
        names = []
        check_packages([], ROOT, version=lambda name: names.append(name) or metadata.version(name))
        assert "trl" not in names and "orjson" in names

    def test_names_are_compared_as_pypi_does(self, tmp_path):
        (tmp_path / "c.txt").write_text("# head\nRuamel_Yaml==0.19.1\nb==1 # why\n")
        assert read_pins(tmp_path / "c.txt") == {"ruamel-yaml": "0.19.1", "b": "1"}
        assert read_pins(tmp_path / "none.txt") == {}


class TestSizes:
    def test_a_shape_counts_what_a_model_of_it_has(self, tmp_path):
        torch = pytest.importorskip("torch", reason="the extra `train` is not installed")
        from peft import LoraConfig, get_peft_model
        from transformers import Qwen3Config, Qwen3ForCausalLM

        from oresmith.models.tiny import tiny_config

        config = tiny_config({"<|im_end|>": 1, "<|endoftext|>": 0})
        with torch.device("meta"):
            model = Qwen3ForCausalLM(Qwen3Config(**config))
        size = size_of(config, "tiny")
        assert size.parameters == pytest.approx(sum(one.numel() for one in model.parameters()), rel=0.01)  # norms
        model = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
        assert size.lora(4) == sum(one.numel() for one in model.parameters() if one.requires_grad)

    def test_qwen3_4b_has_four_billion_parameters(self):
        assert size_of(QWEN3_4B, "q").parameters == pytest.approx(4.02e9, rel=0.01)
        assert base_size(Base()).parameters == pytest.approx(134.5e6, rel=0.01)

    def test_a_hub_model_is_known_without_a_network_or_left_unknown(self, monkeypatch, tmp_path):
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        assert base_size(Base(model=f"hub:Qwen/Qwen3-4B@{'a' * 40}")).layers == 36
        assert base_size(Base(model=f"hub:nobody/nothing@{'a' * 40}")) is None

    @pytest.mark.parametrize(
        "text", ["", "[]", "{}", '{"hidden_size": "x"}', '{"num_attention_heads": 0, "hidden_size": 4}']
    )
    def test_a_config_that_states_no_shape_is_refused(self, tmp_path, text):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(OresmithError):
            base_size(Base(model=str(tmp_path)))


class TestEstimates:
    def test_every_step_that_is_switched_on_and_its_control_is_reckoned(self):
        on = {"enabled": True}
        steps = dict.fromkeys(("rejection", "teacher", "kto", "grpo"), on)
        found = needs(**steps, sft={"seeds": [1, 2]}, control={"steps": ["kto", "grpo"]})
        want = ["data", "base", "sft/1", "sft/2", "rejection", "teacher", "kto", "grpo", "control/kto", "control/grpo"]
        assert list(found)[: len(want)] == want
        assert "rollout@base" in found
        assert set(needs()) == {"data", "base", "sft/1", "rollout@base", "lmeval@base"}

    @given(st.integers(1, 5000), st.integers(1, 5000))
    def test_more_rows_never_take_less_time(self, few, more):
        low, high = (
            needs(sft={"max_rows": count}, facts=msgspec.structs.replace(FACTS, rows=5000))["sft/1"].seconds
            for count in sorted((few, more))
        )
        assert low <= high

    def test_max_steps_rules_over_epochs(self):
        assert needs(sft={"max_steps": 7})["sft/1"].what == "500 rows, 7 updates of 4"

    def test_a_larger_microbatch_takes_more_memory_where_its_rows_are_computed_together(self):
        one, four = (needs(train={"packing": "none"}, sft={"microbatch": count})["sft/1"] for count in (1, 4))
        assert four.memory_gib > one.memory_gib
        one, four = (needs(sft={"microbatch": count})["sft/1"] for count in (1, 4))
        assert four.memory_gib == one.memory_gib

    def test_shared_beginnings_spare_time_only_where_they_are_shared(self):
        plain, shared = (needs(train={"packing": packing})["sft/1"] for packing in ("none", "prefix"))
        assert plain.seconds > shared.seconds
        plain, shared = (
            needs(train={"packing": packing, "activation_checkpointing": True})["sft/1"]
            for packing in ("none", "prefix")
        )
        assert plain.seconds == shared.seconds

    def test_the_embedded_model_is_reckoned_at_its_measured_speed(self):
        """150 tokens a core and second, in rows of 2,000 that are not packed."""
        need = needs(train={"packing": "none", "threads": 1})["sft/1"]
        assert 500 * 2000 / (need.seconds - rates.STAGE_START_S) == pytest.approx(150, rel=0.05)

    def test_full_training_takes_more_than_lora_in_time_memory_and_disk(self):
        lora, full = (needs(train={"method": method})["sft/1"] for method in ("lora", "full"))
        assert full.seconds > lora.seconds and full.memory_gib > lora.memory_gib and full.disk_gib > lora.disk_gib

    def test_more_gpus_share_weights_and_time(self):
        size, device = size_of(QWEN3_4B, "q"), rates.PLANNED
        one, eight = (needs(size, Setting(16, device, count), train=GPU_TRAIN)["sft/1"] for count in (1, 8))
        assert eight.seconds < one.seconds and eight.device_gib < one.device_gib

    def test_a_teacher_behind_an_endpoint_takes_nobody_knows_how_long(self):
        teacher = {"enabled": True, "teacher": "openai", "url": "http://127.0.0.1:1/v1"}
        assert needs(teacher=teacher)["teacher"].seconds is None

    @given(
        st.sampled_from(["lora", "full"]),
        st.sampled_from(["prefix", "none"]),
        st.integers(1, 8),
        st.integers(2, 20_000),
    )
    def test_every_estimate_is_a_positive_finite_number(self, method, packing, microbatch, longest):
        facts = msgspec.structs.replace(FACTS, tokens=longest / 2, longest=longest)
        train = {"method": method, "packing": packing}
        for need in needs(train=train, sft={"microbatch": microbatch, "batch": microbatch}, facts=facts).values():
            assert need.seconds is not None and need.seconds > 0 and math.isfinite(need.seconds)
            assert need.memory_gib > 0 and need.disk_gib >= 0

    def test_rows_are_counted_where_a_corpus_lies_and_else_reckoned_from_the_suites(self, tmp_path):
        root = project(tmp_path)
        guessed = data_facts(params(), root / "data", root)
        assert guessed.traces == 7 * 3 * 2 and guessed.basis.startswith("assumed")
        (root / "data" / "corpus").mkdir(parents=True)
        split = {name: {"train": {"rows": rows}} for name, rows in (("sft", 11), ("kto", 12), ("grpo", 13))}
        (root / "data" / "corpus" / "corpus.json").write_text(json.dumps({"configs": split}))
        counted = data_facts(params(), root / "data", root)
        assert (counted.rows, counted.kto_rows, counted.problems) == (11, 12, 13) and counted.basis.startswith(
            "counted"
        )
        (root / "data" / "corpus" / "corpus.json").write_text('{"configs": 1}')
        assert data_facts(params(), root / "data", root) == guessed


class TestDiagnosis:
    def test_a_run_that_fits_is_told_so(self, tmp_path):
        found = diagnose(None, root=project(tmp_path), machine=LAPTOP)
        assert not found.failed, found.findings
        assert verdict(found) == "this can run here"

    @pytest.mark.parametrize(
        ("changed", "topic"),
        [({"memory_gib": 0.2}, "memory"), ({"disk_free_gib": 0.0}, "disk"), ({"python": "3.10.2"}, "python")],
    )
    def test_what_will_not_fit_fails_before_anything_starts(self, tmp_path, changed, topic):
        machine = msgspec.structs.replace(LAPTOP, **changed)
        found = diagnose(None, root=project(tmp_path), machine=machine)
        assert [one.topic for one in found.findings if one.status == "fail"] == [topic]
        assert of(found, topic)[0].todo

    def test_a_gpu_that_is_asked_for_and_absent_fails_and_is_later_in_a_plan(self, tmp_path):
        root = project(tmp_path, train={"device": "cuda", "dtype": "bfloat16", "max_tokens": 2000})
        assert of(diagnose(None, root=root, machine=LAPTOP), "gpu")[0].status == "fail"
        planned = diagnose(None, plan=True, root=root, machine=LAPTOP)
        assert not planned.failed and of(planned, "gpu")[0].status == "later"
        assert rates.PLANNED.name in planned.reckoned_on

    def test_a_model_too_large_for_the_planned_gpu_fails_the_plan_itself(self, tmp_path):
        root = project(tmp_path, train={"device": "cuda", "packing": "none"}, sft={"microbatch": 64, "batch": 64})
        raw = yaml.safe_load((root / "params.yaml").read_text())
        raw["base"] = {"model": f"hub:Qwen/Qwen3-4B@{'a' * 40}"}
        (root / "params.yaml").write_text(yaml.safe_dump(raw))
        found = diagnose(None, plan=True, root=root, machine=LAPTOP)
        assert [one.topic for one in found.findings if one.status == "fail"] == ["gpu"]

    def test_a_context_shorter_than_the_rows_fails(self, tmp_path):
        root = project(tmp_path, base={"model": "tiny", "min_context": 20_000})
        assert [one.topic for one in diagnose(None, root=root, machine=LAPTOP).findings if one.status == "fail"] == [
            "model"
        ]

    def test_a_missing_package_is_named_with_its_extra(self, monkeypatch):
        real = metadata.version

        def version(name):
            if name == "peft":
                raise metadata.PackageNotFoundError(name)
            return real(name)

        from oresmith.doctor import checks

        monkeypatch.setattr(
            checks, "check_packages", lambda extras, root: check_packages(extras, root, version=version)
        )
        found = [one for one in check_installed(params(), plan=True, root=ROOT) if one.status == "fail"]
        assert len(found) == 1 and "train" in found[0].what and "peft" in found[0].what

    def test_an_absent_source_and_an_uncached_model_are_named(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        raw = {"name": "f", "path": "traces", "provenance": "traces.yaml"}
        root = project(tmp_path, snapshots=[raw], base={"model": f"hub:Qwen/Qwen3-4B@{'a' * 40}"})
        found = of(diagnose(None, root=root, machine=SERVER), "pins")
        assert {one.what for one in found if one.status == "fail"} == {
            "Qwen/Qwen3-4B is not in the local cache",
            "snapshot f: traces is not there",
            "snapshot f: traces.yaml is not there",
        }
        assert [one.what for one in found if one.status == "warn"] == ["snapshot f is not pinned"]

    def test_keys_are_looked_for_and_never_shown(self, monkeypatch):
        teacher = {"enabled": True, "teacher": "openai", "url": "http://127.0.0.1:1/v1", "key_env": "SOME_KEY"}
        monkeypatch.delenv("SOME_KEY", raising=False)
        assert [one.status for one in check_access(params(teacher=teacher), plan=False)] == ["fail"]
        assert [one.status for one in check_access(params(teacher=teacher), plan=True)] == ["later"]
        monkeypatch.setenv("SOME_KEY", "s3cret-value")
        found = list(check_access(params(teacher=teacher), plan=False))
        assert [one.status for one in found] == ["ok"]
        assert "s3cret-value" not in str(found)

    def test_the_hubs_token_is_looked_for_where_a_model_must_be_downloaded_and_never_shown(self, monkeypatch):
        base = {"model": f"hub:Qwen/Qwen3-4B@{'b' * 40}", "download": True}
        monkeypatch.setenv("HF_TOKEN", "hf_thisisnotatoken")
        found = list(check_access(params(base=base), plan=False))
        assert [one.status for one in found] == ["ok"] and "hf_this" not in str(found)
        assert list(check_access(params(base={**base, "download": False}), plan=False)) == []


class TestLaunch:
    def launch(self, root, text, machine=SERVER, plan=False, **changes):
        (root / "fsdp.yaml").write_text(text)
        run = {"launch": "accelerate launch --config_file fsdp.yaml"}
        return check_launch(params(run=run, **changes), machine, root, plan=plan)

    def test_processes_come_from_accelerates_configuration(self, tmp_path):
        found, processes = self.launch(tmp_path, "num_processes: 2\ndistributed_type: FSDP\n", sft={"microbatch": 2})
        assert processes == 2 and [one.status for one in found] == ["ok"]

    def test_a_batch_that_the_processes_cannot_share_fails(self, tmp_path):
        found, _ = self.launch(tmp_path, "num_processes: 3\ndistributed_type: FSDP\n")
        assert [one.status for one in found] == ["ok", "fail"] and found[1].what.startswith("sft.batch 4")

    def test_more_processes_than_gpus_fail(self, tmp_path):
        text = "num_processes: 16\ndistributed_type: FSDP\n"
        changes = {"train": GPU_TRAIN, "sft": {"batch": 16, "microbatch": 1}}
        assert "16 processes on 8 GPUs" in [one.what for one in self.launch(tmp_path, text, **changes)[0]]
        assert all(one.status == "ok" for one in self.launch(tmp_path, text, plan=True, **changes)[0])

    @pytest.mark.parametrize("text", ["", "- 1\n", "num_processes: many\n", "{", "distributed_type: FSDP\n"])
    def test_a_file_that_is_no_configuration_fails(self, tmp_path, text):
        found, processes = self.launch(tmp_path, text)
        assert processes == 1 and [one.status for one in found] == ["fail"]

    @pytest.mark.parametrize("launch", ["bash", "python; rm x", "accelerate launch --config_file a;b", "python -m x"])
    def test_only_the_two_launchers_are_taken(self, launch):
        with pytest.raises(OresmithError):
            params(run={"launch": launch})


class TestCommand:
    def test_the_plan_of_sn15_holds_without_a_gpu(self, monkeypatch):
        monkeypatch.chdir(ROOT)
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        done = CliRunner().invoke(app, ["doctor", "--profile", "sn15", "--plan", "--json"])
        assert done.exit_code == 0, done.output
        found = json.loads(done.output)
        assert {one["status"] for one in found["findings"]} <= {"ok", "warn", "later"}
        stages = {need["stage"] for need in found["needs"]}
        assert {"sft/1", "rejection", "teacher", "kto", "grpo"} <= stages

    def test_sn15_itself_fails_where_there_is_no_gpu_and_leaves_with_2(self, monkeypatch, tmp_path):
        monkeypatch.chdir(ROOT)
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        monkeypatch.setenv("PATH", str(tmp_path))  # without nvidia-smi
        done = CliRunner().invoke(app, ["doctor", "--profile", "sn15"])
        assert done.exit_code == 2
        assert "must be changed before this can run" in done.output

    def test_the_default_is_diagnosed_in_words(self, monkeypatch):
        monkeypatch.chdir(ROOT)
        done = CliRunner().invoke(app, ["doctor"])
        assert done.exit_code in {0, 2}
        assert re.search(r"Estimates for \d+ cores", done.output)

    def test_a_profile_that_is_none_is_refused(self, monkeypatch):
        monkeypatch.chdir(ROOT)
        done = CliRunner().invoke(app, ["doctor", "--profile", "nothing"])
        assert isinstance(done.exception, OresmithError) and done.exception.exit_code == 2

    def test_the_parameters_of_a_profile_are_printed_whole(self, monkeypatch):
        monkeypatch.chdir(ROOT)
        done = CliRunner().invoke(app, ["params", "--profile", "sn15"])
        assert yaml.safe_load(done.output)["base"]["model"] == load_profile("sn15").base.model

    @pytest.mark.parametrize(
        ("seconds", "text"),
        [(None, "unknown"), (0.4, "0 s"), (119, "119 s"), (120, "2.0 min"), (9000, "2.5 h"), (2e5, "2.3 d")],
    )
    def test_times_are_told_in_the_unit_that_fits(self, seconds, text):
        assert told(seconds) == text
