"""What stands in the folders: every file as listed, nothing beside it, nothing that can run, and every part alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oresmith.errors import OresmithError
from oresmith.release.verify.checks import verify
from oresmith.release.verify.found import Report
from oresmith.release.verify.opened import Opened
from oresmith.release.verify.rowsof import DataFile, rows
from oresmith.release.verify.safetensors import WrongFileError, read_header
from oresmith.release.verify.source import open_source
from tests.release.defects import holds_one_problem_twice
from tests.release.verify_world import bundle, edit_json, first, mended, released

__all__ = ["bundle", "released"]


def verified(folder: Path) -> Report:
    with open_source(str(folder)) as opened:
        return verify(opened)


def told(report: Report, check: str) -> list[str]:
    return [finding.sentence() for result in report.results if result.name == check for finding in result.findings]


def states(report: Report) -> dict[str, str]:
    return {result.name: result.state for result in report.results}


def test_each_repository_can_be_checked_alone(released: Path):
    dataset, model = verified(released / "dataset"), verified(released / "model")
    assert (dataset.kind, model.kind) == ("dataset", "model")
    assert dataset.held, [told(dataset, name) for name in states(dataset)]
    assert model.held, [told(model, name) for name in states(model)]
    assert dataset.version == model.version == "0.1.0"
    assert states(dataset)["model"] == "not computed"
    assert states(model)["scores"] == "not computed"
    assert states(model)["model"] == "ok"


def flipped(bundle: Path) -> None:
    path = bundle / "dataset/contamination.tsv"
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


def lost(bundle: Path) -> None:
    first(bundle, "kto").unlink()


def added(bundle: Path) -> None:
    shutil.copy(first(bundle, "sft"), bundle / "dataset/sft/train-777-one-00000.parquet")


def linked(bundle: Path) -> None:
    path = bundle / "model/generation_config.json"
    target = bundle.parent / "elsewhere.json"
    path.rename(target)
    path.symlink_to(target)


def other_counterpart(bundle: Path) -> None:
    edit_json(bundle / "model/release.json", lambda record: record["counterpart"].update(content_sha256="0" * 64))


def other_content_hash(bundle: Path) -> None:
    edit_json(bundle / "release.json", lambda record: record.update(content_sha256="0" * 64))


def a_gate_that_failed(bundle: Path) -> None:
    gate = {"name": "secrets", "state": "failed", "detail": "row 3"}
    edit_json(bundle / "dataset/release.json", lambda record: record["gates"].append(gate))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (flipped, "dataset/contamination.tsv: has"),
        (lost, "is missing"),
        (added, "release.json does not list it"),
        (linked, "no plain file"),
        (other_counterpart, "names another dataset"),
        (other_content_hash, "content hash"),
        (a_gate_that_failed, "gate secrets is failed"),
    ],
)
def test_a_change_after_the_release_is_named(bundle: Path, change: Callable[[Path], None], says: str):
    change(bundle)
    assert any(says in sentence for sentence in told(verified(bundle), "hashes"))


def test_a_tag_must_be_the_version(released: Path):
    folders = {"dataset": released / "dataset"}
    for tag, held in (("0.1.0", True), ("v0.1.0", True), ("0.2.0", False)):
        report = verify(Opened("x", "dataset", released / "dataset", folders, tag))
        assert bool(told(report, "hashes")) != held


def model_file(name: str, content: bytes) -> Callable[[Path], None]:
    def change(bundle: Path) -> None:
        path = bundle / "model" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)

    return change


def executable(bundle: Path) -> None:
    (bundle / "model/config.json").chmod(0o755)


def asks_for_code(bundle: Path) -> None:
    edit_json(bundle / "model/config.json", lambda config: config.update(auto_map={"AutoModel": "evil--m.Model"}))


def nested_code(bundle: Path) -> None:
    path = bundle / "model/tokenizer_config.json"
    edit_json(path, lambda config: config.update(extra=[{"auto_map": {"AutoTokenizer": "x.Y"}}]))


def cut_off(bundle: Path) -> None:
    path = bundle / "model/model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def another_template(bundle: Path) -> None:
    path = bundle / "model/chat_template.jinja"
    path.write_text(path.read_text() + " ")


def outside_index(bundle: Path) -> None:
    index = {"weight_map": {"a": "../../model.safetensors"}}
    (bundle / "model/model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (model_file("optimizer.pt", b"x"), "optimizer.pt: is a pickle"),
        (model_file("adapter/extra.safetensors", b"\x80\x04\x95"), "begins as a pickle"),
        (model_file("notes.txt", b"PK\x03\x04zip"), "begins as an archive"),
        (model_file("modeling_x.py", b"import os"), "modeling_x.py: is code"),
        (model_file("run.txt", b"#!/bin/sh\n"), "begins as a script"),
        (executable, "config.json: may be executed"),
        (asks_for_code, "config.json: has `auto_map`"),
        (nested_code, "tokenizer_config.json: has `auto_map`"),
        (cut_off, "its header says"),
        (another_template, "chat_template.jinja: is another"),
        (outside_index, "there are no weights"),
    ],
)
def test_nothing_in_a_model_can_run_and_its_parts_belong_together(
    bundle: Path, change: Callable[[Path], None], says: str
):
    change(bundle)
    found = told(verified(mended(bundle)), "model")
    assert any(says in sentence for sentence in found), found


def test_the_card_cannot_give_held_out_rows_to_a_training_split(bundle: Path):
    path = bundle / "dataset/README.md"
    path.write_text(path.read_text().replace("sft/train-*.parquet", "heldout_rollouts/*.parquet"))
    found = told(verified(mended(bundle)), "loading")
    assert any("would load as sft, split train" in sentence for sentence in found)
    assert any("sft/train-000-one-00000.parquet loads as no config" in sentence for sentence in found)


def test_a_number_on_the_card_that_its_file_does_not_give_is_named(bundle: Path):
    path = bundle / "dataset/README.md"
    path.write_text(path.read_text().replace("Lines read: 50", "Lines read: 51"))
    assert any("50" in sentence and "Funnel" in sentence for sentence in told(verified(mended(bundle)), "cards"))


@pytest.mark.parametrize("name", ["funnel.json", "compare.json", "scores/first.json", "certificate/certificate.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b'{"models": 7, "files": {}}', b"\xff\xfe", b"null"])
def test_a_damaged_file_is_a_finding_and_never_a_traceback(bundle: Path, name: str, content: bytes):
    (bundle / "dataset" / name).write_bytes(content)
    assert not verified(mended(bundle)).held


@pytest.mark.parametrize("config", ["trajectories", "heldout_gold", "heldout_rollouts", "rejects"])
def test_a_damaged_data_file_is_named(bundle: Path, config: str):
    path = first(bundle, config)
    path.write_bytes(path.read_bytes()[:-40])
    report = verified(mended(bundle))
    assert any(path.name in sentence for sentence in told(report, "contracts"))


def test_what_is_no_release_is_refused(tmp_path: Path):
    for source in (str(tmp_path), "a/b", "../x@1", "nothing", f"{tmp_path}/missing"):
        with pytest.raises(OresmithError), open_source(source):
            pass


def test_verifying_writes_nothing(released: Path):
    before = {path: path.stat().st_mtime_ns for path in released.rglob("*")}
    verified(released)
    assert {path: path.stat().st_mtime_ns for path in released.rglob("*")} == before


@given(
    st.binary(max_size=200) | st.builds(lambda text, n: n.to_bytes(8, "little") + text, st.binary(), st.integers(0, 90))
)
def test_no_bytes_make_the_header_reader_raise_anything_else(tmp_path_factory: pytest.TempPathFactory, content: bytes):
    path = tmp_path_factory.getbasetemp() / "header.safetensors"
    path.write_bytes(content)
    try:
        assert read_header(path).parameters >= 0
    except WrongFileError as error:
        assert str(error)


def test_the_header_is_read_as_the_library_reads_it(released: Path):
    from safetensors import safe_open

    path = released / "model/model.safetensors"
    found = read_header(path)
    with safe_open(str(path), framework="np") as opened:
        assert {name: opened.get_slice(name).get_shape() for name in opened.keys()} == {  # noqa: SIM118
            name: tensor.shape for name, tensor in found.tensors.items()
        }


def test_the_rows_of_the_scores_are_those_of_the_rollouts(bundle: Path):
    path = bundle / "dataset/scores/first.parquet"
    table = pq.read_table(path)
    place = table.column_names.index("turns")
    pq.write_table(table.set_column(place, table.schema.field("turns"), [[9] * table.num_rows]), path)
    found = told(verified(mended(bundle)), "scores")
    assert any("scores/first.parquet, row 1" in sentence and "turns is 9" in sentence for sentence in found), found


@pytest.mark.slow
def test_the_report_does_not_depend_on_the_number_of_processes(bundle: Path):
    holds_one_problem_twice(bundle)
    with open_source(str(bundle)) as opened:
        seen: list[str] = []
        assert verify(opened, lambda result: seen.append(result.name), workers=2) == verify(opened, workers=1)
        assert sorted(seen) == sorted(states(verify(opened)))


@given(st.lists(st.none() | st.lists(st.none() | st.sampled_from(["a", "b", "xa", ""]), max_size=4), max_size=9))
def test_a_sparse_reading_keeps_the_first_message_and_those_that_are_asked_for(
    tmp_path_factory: pytest.TempPathFactory, lists: list[list[str | None] | None]
):
    path = tmp_path_factory.getbasetemp() / "sparse.parquet"
    many = lists * 300  # over the end of a batch
    pq.write_table(pa.table({"n": range(len(many)), "m": pa.array(many, pa.list_(pa.string()))}), path)
    found = [row["m"] for _, row in rows(DataFile("sft", "train", "x", path), ("n", "m"), "a")]
    kept = [[text for place, text in enumerate(one or []) if not place or text is None or "a" in text] for one in many]
    assert found == kept
