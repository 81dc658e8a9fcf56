"""Content that was once let through: other weights, what stands beside a release, what its lists leave out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oresmith.release.verify.checks import verify
from oresmith.release.verify.found import Report
from oresmith.release.verify.opened import Opened
from oresmith.release.verify.source import open_source
from oresmith.release.verify.weights import identity
from tests.release.verify_world import bundle, edit_json, mended, released

__all__ = ["bundle", "released"]
Plant = Callable[[Path], object]


def verified(folder: Path) -> Report:
    with open_source(str(folder)) as opened:
        return verify(opened)


def told(report: Report, check: str) -> list[str]:
    return [finding.sentence() for result in report.results if result.name == check for finding in result.findings]


def changed(name: str, **values: Any) -> Plant:
    return lambda bundle: edit_json(bundle / name, lambda found: found.update(values))


def put(name: str, content: bytes = b"x: 1\n") -> Plant:
    def plant(bundle: Path) -> None:
        (bundle / name).parent.mkdir(parents=True, exist_ok=True)
        (bundle / name).write_bytes(content)

    return plant


def removed(name: str) -> Plant:
    return lambda bundle: (bundle / name).unlink()


def other_weights(bundle: Path) -> None:
    path = bundle / "model/model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-16] + bytes(byte ^ 1 for byte in content[-16:]))


def adapter(path: str) -> Plant:
    return put("model/adapter/adapter_config.json", json.dumps({"base_model_name_or_path": path}).encode())


@pytest.mark.parametrize(
    ("plant", "check", "says"),
    [
        (other_weights, "model", "scored were"),
        (changed("model/config.json", rms_norm_eps=0.5), "model", "scored were"),
        (changed("model/oresmith_model.json", model="third"), "model", "no scores of third"),
        (removed("model/oresmith_model.json"), "model", "oresmith_model.json: is missing"),
        (removed("model/scores/second.json"), "scores", "model/scores/second.json: states other"),
        (changed("model/compare.json", models=[]), "scores", "model/compare.json: states other"),
        (removed("model/compare.json"), "scores", "model/compare.json: states other"),
        (changed("model/tokenizer_config.json", chat_template="x"), "model", "a chat template beside"),
        (put("model/additional_chat_templates/tool_use.jinja"), "model", "is a template beside"),
        (adapter("/home/x/model"), "model", "a path of one machine"),
        (adapter("C:\\model"), "model", "a path of one machine"),
        (put("model/.eval_results/heldout.yml"), "model", "no file of results"),
        (put("model/.eval_results/more/heldout.yaml"), "model", "no file of results"),
        (put("dataset/verify_certificate.py", b"print('OK')"), "certificate", "is another program"),
        (removed("dataset/verify_certificate.py"), "certificate", "verify_certificate.py: is missing"),
    ],
)
def test_content_that_its_publisher_rehashed_is_still_named(bundle: Path, plant: Plant, check: str, says: str):
    plant(bundle)
    found = told(verified(mended(bundle)), check)
    assert any(says in sentence for sentence in found), found


def trained(bundle: Path, start: str) -> None:
    """As where an entry of `models` is called another way than the step that trained it."""
    changed("model/oresmith_model.json", model="sft/1")(bundle)
    account = {"name": "sft/1", "start": {"model_sha256": start}}
    put("model/training.json", json.dumps(account).encode())(bundle)


def test_a_trained_model_is_known_by_its_weights_and_is_not_what_its_training_began_with(bundle: Path):
    trained(bundle, "0" * 64)
    assert told(verified(mended(bundle)), "model") == []
    trained(bundle, identity(bundle / "model"))
    assert any("no scores of sft/1" in sentence for sentence in told(verified(mended(bundle)), "model"))
    put("model/training.json", b'{"name": "sft/2"}')(bundle)
    assert any("not of sft/1" in sentence for sentence in told(verified(mended(bundle)), "model"))


def link(bundle: Path) -> None:
    (bundle / "model/.gitattributes").symlink_to(bundle / "model/config.json")


def lists(part: str, **values: Any) -> Plant:
    return changed(f"{part}release.json", **values)


def loses_a_gate(bundle: Path) -> None:
    edit_json(bundle / "model/release.json", lambda record: record["gates"].pop())


def repeats_a_gate(bundle: Path) -> None:
    edit_json(bundle / "model/release.json", lambda record: record["gates"].append(record["gates"][0]))


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (put("model/.cache/huggingface/download/x.metadata"), "does not list it"),
        (put("run.sh"), "stands in the bundle"),
        (link, "is no plain file"),
        (loses_a_gate, "gate version was not tried"),
        (repeats_a_gate, "gate certificate stands twice"),
        (lists("", gates=[]), "states other gates"),
        (lists("dataset/", previous="0.0.9"), "states other gates"),
    ],
)
def test_what_the_lists_do_not_say_is_named(bundle: Path, plant: Plant, says: str):
    plant(bundle)
    found = told(verified(bundle), "hashes")
    assert any(says in sentence for sentence in found), found


@pytest.mark.parametrize(
    ("name", "held"),
    [("download/config.json.metadata", True), ("download/x.lock", True), (".gitignore", True), ("x.bin", False)],
)
def test_only_notes_of_the_downloading_client_stand_beside_one_repository(bundle: Path, name: str, held: bool):
    put(f"model/.cache/huggingface/{name}")(bundle)
    model = bundle / "model"
    assert bool(told(verified(model), "hashes")) != held
    fetched = Opened("x", "model", model, {"model": model}, tag="0.1.0")
    assert told(verify(fetched), "hashes")
