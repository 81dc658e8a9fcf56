"""A profile is params.yaml with what differs, and its run leaves the project as it was."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from oresmith.errors import ParameterError
from oresmith.profiles import load_profile, merged, prepare, read_profile, rebased
from tests.code_deps import ROOT

BASE = {"snapshots": [{"name": "a", "path": "p", "provenance": "p/provenance.yaml"}], "gate": {"reasoning_min": 0.5}}
PIPELINE = """\
stages:
  one:
    cmd: python -m stages.one
    deps:
    - stages/one.py
    params:
    - gate
    outs:
    - data/one
"""
STAGE = """\
from pathlib import Path
import yaml
Path("data").mkdir(exist_ok=True)
Path("data/one").write_text(str(yaml.safe_load(Path("params.yaml").read_text())["gate"]["reasoning_min"]))
"""


def project(root, profiles, base=None):
    (root / "profiles").mkdir(parents=True)
    (root / "params.yaml").write_text(yaml.safe_dump(base or BASE))
    for name, content in profiles.items():
        text = content if isinstance(content, str) else yaml.safe_dump(content)
        (root / "profiles" / f"{name}.yaml").write_text(text)
    return root


def dvc(root, *arguments):
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "DVC_NO_ANALYTICS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "dvc", *arguments], cwd=root, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def piped(tmp_path):
    """A project with a pipeline of one stage, under git and DVC, that has run."""
    root = project(
        tmp_path / "project", {"strict": {"gate": {"reasoning_min": 0.9}}, "same": {"gate": {"reasoning_min": 0.5}}}
    )
    for path, text in (
        ("dvc.yaml", PIPELINE),
        ("stages/__init__.py", ""),
        ("stages/one.py", STAGE),
        (".gitignore", "/data/\n/runs/\n"),
    ):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    dvc(root, "init", "-q")
    dvc(root, "repro", "-q")
    return root


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)
MAPPINGS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


@given(MAPPINGS, MAPPINGS)
def test_what_a_profile_states_holds_and_what_it_leaves_out_stays(base, over):
    got = merged(base, over)
    assert set(got) == set(base) | set(over)
    for key in got:
        if key not in over:
            assert got[key] == base[key]
        elif isinstance(over[key], dict) and isinstance(base.get(key), dict):
            assert got[key] == merged(base[key], over[key])
        else:
            assert got[key] == over[key]


@given(MAPPINGS)
def test_a_profile_without_a_difference_changes_nothing(base):
    assert merged(base, base) == base
    assert merged(base, {}) == base


def test_lists_are_replaced_whole(tmp_path):
    other = [{"name": "b", "path": "q", "provenance": "q.yaml"}]
    root = project(tmp_path / "p", {"other": {"snapshots": other}})
    assert read_profile("other", root)["snapshots"] == other
    assert [entry.name for entry in load_profile("other", root).snapshots] == ["b"]
    assert [entry.name for entry in load_profile(None, root).snapshots] == ["a"]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({"gaet": {}}, "profiles/x.yaml: gaet"),
        ({"gate": {"reasoning_mni": 1}}, "profiles/x.yaml: gate.reasoning_mni"),
        ({"gate": {"reasoning_min": "much"}}, "profiles/x.yaml: gate.reasoning_min"),
        ({"gate": None}, "profiles/x.yaml: gate"),
        ({"gate": {"origin": []}}, "gate.origin"),
        ("", "profiles/x.yaml"),
        ("- 1\n", "profiles/x.yaml"),
        ("gate: {reasoning_min: 1, reasoning_min: 2}\n", "profiles/x.yaml"),
        ("gate: [\n", "profiles/x.yaml"),
    ],
)
def test_a_wrong_profile_is_refused_by_file_and_key(tmp_path, content, named):
    root = project(tmp_path / "p", {"x": content})
    with pytest.raises(ParameterError) as refused:
        load_profile("x", root)
    assert named in refused.value.where


@pytest.mark.parametrize("name", ["absent", "", "../params", "/etc/passwd", "X", "strict.yaml"])
def test_a_name_that_is_no_profile_is_refused_and_the_known_ones_named(tmp_path, name):
    root = project(tmp_path / "p", {"strict": {"gate": {"reasoning_min": 0.9}}})
    (root / "profiles" / "launcher.yaml").write_text("num_processes: 8\n")
    with pytest.raises(ParameterError) as refused:
        load_profile(name, root)
    assert refused.value.expected == "strict"


def test_a_run_uses_the_profile_and_leaves_the_project_as_it_was(piped):
    before = {path.name: path.read_bytes() for path in piped.iterdir() if path.is_file()}
    where = prepare("strict", piped)
    dvc(where, "repro")
    assert (where / "data" / "one").read_text() == "0.9"
    assert (piped / "data" / "one").read_text() == "0.5"
    assert {path.name: path.read_bytes() for path in piped.iterdir() if path.is_file()} == before
    assert "up to date" in dvc(piped, "status")


def test_what_has_run_in_the_project_is_taken_from_its_cache(piped):
    where = prepare("same", piped)
    assert "Running stage" not in dvc(where, "repro")
    assert (where / "data" / "one").read_text() == "0.5"


def test_a_run_goes_on_where_it_ended_and_sees_changed_code_and_parameters(piped):
    where = prepare("strict", piped)
    dvc(where, "repro")
    (where / "data" / ".one.checkpoints").mkdir()
    assert prepare("strict", piped) == where
    assert (where / "data" / ".one.checkpoints").is_dir()
    assert "Running stage" not in dvc(where, "repro")
    (piped / "profiles" / "strict.yaml").write_text("gate: {reasoning_min: 0.8}\n")
    prepare("strict", piped)
    dvc(where, "repro")
    assert (where / "data" / "one").read_text() == "0.8"
    (piped / "stages" / "one.py").write_text(STAGE.replace("write_text(str(", "write_text('code ' + str("))
    dvc(where, "repro")
    assert (where / "data" / "one").read_text() == "code 0.8"


def test_links_follow_the_project_and_never_hide_a_file_of_the_user(piped):
    (piped / "snapshots").mkdir()
    where = prepare("strict", piped)
    assert (where / "snapshots").is_symlink()
    (piped / "snapshots").rmdir()
    prepare("strict", piped)
    assert not (where / "snapshots").is_symlink()
    (piped / "cards").mkdir()
    (where / "cards").mkdir()
    with pytest.raises(ParameterError) as refused:
        prepare("strict", piped)
    assert refused.value.where.endswith("cards")


def test_paths_that_lead_out_of_the_project_lead_to_the_same_place(tmp_path):
    raw = {"snapshots": [{"path": "../shared/x", "provenance": "p.yaml"}], "split": {"vault": "./v", "seed": "../s"}}
    assert rebased(raw, Path("../..")) == {
        "snapshots": [{"path": "../../../shared/x", "provenance": "p.yaml"}],
        "split": {"vault": "../../v", "seed": "../s"},
    }


def test_remotes_of_the_project_are_remotes_of_the_run(piped):
    dvc(piped, "remote", "add", "-q", "near", str(piped / "store"))
    (piped / ".dvc" / "config").write_text(
        (piped / ".dvc" / "config").read_text() + "[cache]\n    type = hardlink,copy\n"
    )
    where = prepare("strict", piped)
    place = dvc(where, "config", "remote.near.url").strip()  # a list would be wrapped
    assert (where / ".dvc" / place).resolve() == (piped / "store").resolve()  # an absolute one stays what it is
    assert "hardlink" in dvc(where, "config", "cache.type")


def test_a_directory_without_dvc_is_refused(tmp_path):
    root = project(tmp_path / "p", {"strict": {"gate": {"reasoning_min": 0.9}}})
    (root / "dvc.yaml").write_text(PIPELINE)
    with pytest.raises(ParameterError, match="none of DVC's"):
        prepare("strict", root)


COMMITTED = sorted(path.stem for path in (ROOT / "profiles").glob("*.yaml") if path.stem in {"full", "smoke", "sn15"})


@pytest.mark.parametrize("name", COMMITTED)
def test_the_committed_profiles_are_valid_and_differ_from_the_default(name):
    assert load_profile(name, ROOT) != load_profile(None, ROOT)


def test_sn15_is_pinned_as_published():
    params = load_profile("sn15", ROOT)
    assert params.base.model == "hub:Qwen/Qwen3-4B@1cfa9a7208912126459214e8b04321603b3df60c"
    assert (params.train.max_tokens, params.train.method, params.train.device) == (14_336, "lora", "cuda")
    assert params.train.dtype == "bfloat16" and params.rollout.engine == "vllm"
    assert all(getattr(params, step).enabled for step in ("rejection", "teacher", "kto", "grpo"))


def test_smoke_runs_every_step_that_random_weights_can_take_on_the_tiny_model():
    params = load_profile("smoke", ROOT)
    assert params.base.model == "tiny"
    assert all(getattr(params, step).enabled for step in ("rejection", "teacher", "kto"))
    assert not params.grpo.enabled  # nothing is earned, so nothing can be learned


def test_accelerate_reads_its_configuration_as_fsdp_over_qwen3s_layers():
    config_args = pytest.importorskip(
        "accelerate.commands.config.config_args", reason="the extra `train` is not installed"
    )
    import transformers

    found = config_args.load_config_from_file(str(ROOT / "profiles" / "accelerate-fsdp.yaml"))
    assert found.distributed_type == "FSDP" and found.mixed_precision == "bf16"
    layer = found.fsdp_config["fsdp_transformer_layer_cls_to_wrap"]
    assert hasattr(transformers.models.qwen3.modeling_qwen3, layer)
