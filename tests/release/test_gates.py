"""The gates: each stops what it is for, with the place, and one that is waived says who and why."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from oresmith.errors import OresmithError
from oresmith.params import load_params
from oresmith.release.gates import GATES, Given, run_gates
from oresmith.release.gates_model import weigh
from oresmith.release.layout import BUNDLE
from stages import bundle as stage
from tests.release.bundle_world import Project
from tests.release.verify_world import edit, edit_json, first
from tests.training.project import inside as within


def gate_of(root: Path, name: str) -> tuple[str, str]:
    """State and detail of one gate."""
    params = load_params(root / "params.yaml")
    bundle = root / BUNDLE
    found = Given(params=params, root=root, dataset=bundle / "dataset", model=bundle / "model", cutting=False)
    (gate,) = run_gates(found, only=(name,))
    return gate.state, gate.detail


def gates_of(root: Path, *, cutting: bool = False) -> dict[str, tuple[str, str]]:
    """State and detail by gate."""
    params = load_params(root / "params.yaml")
    with_bundle = Given(
        params=params, root=root, dataset=root / BUNDLE / "dataset", model=root / BUNDLE / "model", cutting=cutting
    )
    return {gate.name: (gate.state, gate.detail) for gate in run_gates(with_bundle)}


def test_every_gate_of_the_parameters_is_tried_and_holds(finished: Project) -> None:
    from typing import get_args

    from oresmith.param_release import Gate

    assert tuple(GATES) == get_args(Gate)
    found = gates_of(finished.root, cutting=True)
    assert {state for state, _ in found.values()} == {"passed"}, found


def drop(path: str) -> Callable[[Path], None]:
    return lambda bundle: (bundle / path).unlink()


def other_verifier(bundle: Path) -> None:
    (bundle / "dataset/verify_certificate.py").write_text("print('the release is as its certificate says')\n")


def pickled(bundle: Path) -> None:
    (bundle / "model/pytorch_model.bin").write_bytes(b"\x80\x04.")


def own_code(bundle: Path) -> None:
    edit_json(bundle / "model/config.json", lambda config: config.update(auto_map={"AutoModel": "m.M"}))


def runnable(bundle: Path) -> None:
    (bundle / "model/config.json").chmod(0o755)


def linked(bundle: Path) -> None:
    (bundle / "model/config.json").rename(bundle / "model/other.json")
    (bundle / "model/config.json").symlink_to("other.json")


def cut_weights(bundle: Path) -> None:
    path = bundle / "model/model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])


def other_weights(bundle: Path) -> None:
    path = bundle / "model/model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def other_template(bundle: Path) -> None:
    path = bundle / "model/chat_template.jinja"
    path.write_text(path.read_text() + " ")


def second_template(bundle: Path) -> None:
    edit_json(bundle / "model/tokenizer_config.json", lambda config: config.update(chat_template="{{ messages }}"))


def machine_path(bundle: Path) -> None:
    edit_json(bundle / "model/config.json", lambda config: config.update(_name_or_path="/home/somebody/model"))


def no_interval(bundle: Path) -> None:
    edit_json(bundle / "dataset/scores/first.json", lambda scores: scores["overall"]["asr"].update(low=None))


def flat_interval(bundle: Path) -> None:
    edit_json(bundle / "dataset/scores/first.json", lambda scores: scores["overall"]["asr"].update(low=0.5, high=0.5))


def other_rate(bundle: Path) -> None:
    def change(scores: dict) -> None:
        scores["overall"]["asr"] |= {"k": scores["overall"]["asr"]["k"] + 1}
        scores["overall"]["asr"]["share"] = scores["overall"]["asr"]["k"] / scores["overall"]["asr"]["n"]

    edit_json(bundle / "dataset/scores/first.json", change)


def other_scorer(bundle: Path) -> None:
    edit_json(bundle / "dataset/scores/second.json", lambda scores: scores["conditions"].update(scorer="oro/5"))


def missing_rollouts(bundle: Path) -> None:
    first(bundle, "heldout_rollouts").unlink()


def fewer_rollouts(bundle: Path) -> None:
    edit(first(bundle, "heldout_rollouts"), lambda rows: rows[1:])


def not_compared(bundle: Path) -> None:
    edit_json(bundle / "dataset/compare.json", lambda found: found.update(pairs=[]))


def unexplained(bundle: Path) -> None:
    edit_json(bundle / "dataset/funnel.json", lambda funnel: funnel.update(read=funnel["read"] + 98))


def unlicensed(bundle: Path) -> None:
    edit(first(bundle, "trajectories"), lambda rows: [row | {"licence": None} for row in rows])


def leaked(bundle: Path) -> None:
    source = first(bundle, "heldout_gold")
    shutil.copy(source, bundle / "dataset/grpo/train-999-one-00000.parquet")


def not_parquet(bundle: Path) -> None:
    (bundle / "dataset/sft/more.jsonl").write_text("{}\n")


def secret_card(bundle: Path) -> None:
    path = bundle / "dataset/README.md"
    path.write_text(path.read_text() + "\nkey: sk-proj-" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY" * 2 + "\n")


def unvalidated(bundle: Path) -> None:
    edit_json(bundle / "dataset/validation.json", lambda told: told.update(certificate_sha256="0" * 64))


def unpinned(bundle: Path) -> None:
    edit_json(bundle / "dataset/scores/first.json", lambda scores: scores["noted"]["model"].pop("model_sha256"))


@pytest.mark.parametrize(
    ("plant", "gate", "said"),
    [
        (leaked, "certificate", "a data file that the certificate does not name"),
        (drop("dataset/certificate/ledger.next.jsonl"), "certificate", "is missing|No such file"),
        (other_verifier, "certificate", "not the verifier"),
        (unexplained, "funnel", "98 unexplained"),
        (unvalidated, "contracts", "not validated"),
        (not_parquet, "contracts", "Parquet files alone"),
        (secret_card, "secrets", "README.md: a secret"),
        (unlicensed, "licences", "row 1"),
        (unpinned, "pinned_inputs", "nobody knows the weights"),
        (drop("dataset/scores/second.json"), "scores", "second.json"),
        (no_interval, "scores", "cannot be read"),
        (flat_interval, "scores", "without width"),
        (other_rate, "scores", "the rows give another score"),
        (other_scorer, "scores", "different conditions.*scorer"),
        (missing_rollouts, "scores", "rollouts behind a score are not published"),
        (fewer_rollouts, "scores", "rollouts behind a score are not published"),
        (not_compared, "scores", "not compared"),
        (other_template, "parity", "template parity"),
        (second_template, "parity", "second chat template"),
        (other_weights, "parity", "other weights"),
        (pickled, "model_files", r"pytorch_model\.bin"),
        (own_code, "model_files", "code of its own"),
        (machine_path, "model_files", "path of the machine"),
        (runnable, "model_files", "can be run"),
        (linked, "model_files", "a link"),
        (cut_weights, "model_files", "do not fill"),
        (drop("model/tokenizer.json"), "model_files", "lacks a file"),
    ],
    ids=lambda value: getattr(value, "__name__", None) if callable(value) else None,
)
def test_a_defect_is_stopped_by_its_gate_with_the_place(
    project: Project, plant: Callable[[Path], None], gate: str, said: str
) -> None:
    import re

    plant(project.root / BUNDLE)
    state, detail = gate_of(project.root, gate)
    assert state == "failed"
    assert re.search(said, detail), detail


def test_a_pool_that_is_older_than_the_snapshots_allow_is_out_of_date(project: Project) -> None:
    project.write_params(split={"held_out": "2026-01-01"})
    assert gate_of(project.root, "pool_date")[0] == "failed"
    project.write_params(split={"held_out": None})
    state, detail = gate_of(project.root, "pool_date")
    assert state == "failed" and "no held-out pool" in detail


def test_a_model_of_the_hub_that_can_move_is_refused(finished: Project) -> None:
    params = load_params(finished.root / "params.yaml")
    moving = msgspec.structs.replace(params, base=msgspec.structs.replace(params.base, model="hub:org/name@main"))
    bundle = finished.root / BUNDLE
    found = Given(params=moving, root=finished.root, dataset=bundle / "dataset", model=bundle / "model", cutting=False)
    with pytest.raises(OresmithError, match="can move"):
        GATES["pinned_inputs"](found)


def test_a_row_group_past_the_viewers_limit_is_told(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oresmith.release.gates_data.ROW_GROUP_LIMIT", 10)
    state, detail = gate_of(project.root, "sizes")
    assert state == "failed" and ".parquet" in detail


def test_a_waived_gate_stops_nothing_and_is_named_with_who_and_why(project: Project) -> None:
    unexplained(project.root / BUNDLE)
    waiver = {"gate": "funnel", "who": "A Manager", "why": "counted by hand"}
    project.write_params(release={"waivers": [waiver]})
    state, detail = gate_of(project.root, "funnel")
    assert state == "waived"
    assert "A Manager" in detail and "counted by hand" in detail and "98 unexplained" in detail
    with within(project):
        release = stage.run(load_params())
    assert [one.why for one in release.waivers] == ["counted by hand"]


def test_a_gate_that_fails_is_written_down_and_the_bundle_is_there_all_the_same(project: Project) -> None:
    project.write_params(release={"pool_days": 0}, split={"held_out": "2026-01-01"})
    with within(project), pytest.raises(OresmithError, match="another pool"):
        stage.run(load_params())
    project.write_params(split={"held_out": "2026-05-02"}, release={"pool_days": 0})
    (project.root / "data/cards/model.md").write_text("token: hf_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY" + "zz\n")
    with within(project):
        release = stage.run(load_params())
    assert {gate.name for gate in release.gates if gate.state == "failed"} == {"secrets"}


def tensors(header: dict, body: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        (1 << 60).to_bytes(8, "little"),
        tensors({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"1234567"),
        tensors({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"1234"),
        tensors({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, -4]}}),
        tensors({"a": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}}, b"1234"),
        tensors({"a": {"dtype": "pickle", "shape": [1], "data_offsets": [0, 4]}}, b"1234"),
        tensors({"a": 1}),
        tensors({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, "b": {}}, b"1234"),
        tensors(
            {
                "a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
                "b": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]},
            },
            b"123",
        ),
        (4).to_bytes(8, "little") + b"[[[[",
    ],
)
def test_weights_whose_header_lies_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(OresmithError):
        weigh(tmp_path / "model.safetensors")


def test_weights_are_weighed_by_their_header(tmp_path: Path) -> None:
    header = {"__metadata__": {"format": "pt"}, "a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}}
    (tmp_path / "model.safetensors").write_bytes(tensors(header, bytes(12)))
    assert weigh(tmp_path / "model.safetensors") == (1, 6)
