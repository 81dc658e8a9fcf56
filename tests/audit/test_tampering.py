"""Whatever is changed in a release, one of the two verifiers fails and says where."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from oresmith.audit.verify import verify_folder
from tests.audit.forger import KEYS, Forger
from tests.audit.world import DATE, SNAPSHOT, make_release

HELDOUT = f"heldout_{DATE.replace('-', '_')}"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_release(tmp_path_factory.mktemp("world"))


@pytest.fixture
def forger(release: Path, tmp_path: Path) -> Forger:
    shutil.copytree(release, tmp_path / "copy")
    return Forger(tmp_path / "copy")


def stand_alone(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The verifier of the folder, in a Python that sees nothing but its standard library."""
    command = [sys.executable, "-I", "-S", str(folder / "verify_certificate.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def alone(folder: Path, *arguments: str) -> list[str]:
    """The failures that the folder's own verifier prints."""
    done = stand_alone(folder, *arguments)
    assert done.stderr == ""
    failures = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    assert done.returncode == bool(failures)
    return failures


def whole(folder: Path) -> list[str]:
    """The failures that `oresmith verify` tells."""
    told: list[str] = []
    held = verify_folder(folder, tell=told.append)
    failures = [line for line in told if line.startswith("FAIL")]
    assert held == (not failures)
    return failures


def test_an_honest_release_passes_both_and_its_certificate_is_named(release: Path) -> None:
    done = stand_alone(release)
    digest = hashlib.sha256((release / "certificate/certificate.json").read_bytes()).hexdigest()
    assert done.returncode == 0
    assert digest in done.stdout
    assert whole(release) == []


def test_the_corpus_may_lie_apart(release: Path, forger: Forger) -> None:
    apart = forger.folder.parent / "apart"
    (apart / "certificate").mkdir(parents=True)
    for name in ("certificate/certificate.json", *Forger(release).certificate["beside"]):
        shutil.copyfile(release / name, apart / name)
    shutil.copyfile(release / "verify_certificate.py", apart / "verify_certificate.py")
    assert alone(apart, str(apart), "--corpus", str(release)) == []
    assert verify_folder(apart, release, tell=lambda line: None)


@pytest.mark.parametrize(
    "config", ["trajectories", "subtask", "sft", "kto", "grpo", "heldout", "heldout_gold", "rejects"]
)
def test_one_changed_byte_of_a_data_file_is_found(forger: Forger, config: str) -> None:
    shard = next(file["path"] for file in forger.certificate["files"] if file["config"] == config)
    content = bytearray((forger.folder / shard).read_bytes())
    content[len(content) // 2] ^= 1
    (forger.folder / shard).write_bytes(content)
    assert any(shard in line for line in alone(forger.folder))


def test_a_data_file_that_is_missing_or_was_added_is_named(forger: Forger) -> None:
    shard = forger.shard("sft", "train")
    (forger.folder / shard).rename(forger.folder / "sft/train-999-more-00000.parquet")
    failures = alone(forger.folder)
    assert any(shard in line and "missing" in line for line in failures)
    assert any("train-999-more-00000.parquet" in line for line in failures)


class TestARowMovedAcrossPools:
    def move(self, forger: Forger) -> str:
        return forger.move_row(forger.shard("trajectories", "dev"), forger.shard("trajectories", "train"))

    def test_is_found_by_the_hashes(self, forger: Forger) -> None:
        self.move(forger)
        assert any(forger.shard("trajectories", "dev") in line for line in alone(forger.folder))

    def test_is_found_by_the_rows_where_the_hashes_were_mended(self, forger: Forger) -> None:
        row_id = self.move(forger)
        forger.rehash()
        forger.recount()
        assert any(KEYS in line and "lists" in line for line in alone(forger.folder))
        assert any(row_id in line for line in whole(forger.folder))

    def test_is_found_by_its_split_where_the_table_was_mended(self, forger: Forger) -> None:
        row_id = self.move(forger)
        source, target = forger.shard("trajectories", "dev"), forger.shard("trajectories", "train")
        forger.lines(KEYS, lambda lines: [line.replace(source, target) for line in lines])
        forger.rehash()
        forger.recount()
        assert any(row_id in line and "of pool dev stands in split train" in line for line in alone(forger.folder))

    def test_is_found_by_the_ledger_where_its_pool_was_rewritten(self, forger: Forger) -> None:
        row_id = self.move(forger)
        source, target = forger.shard("trajectories", "dev"), forger.shard("trajectories", "train")
        forger.lines(
            KEYS, lambda lines: [line.replace(source, target).replace("\tdev\n", "\ttrain\n") for line in lines]
        )
        forger.rehash()
        forger.recount()
        assert any(row_id in line and "by the ledger" in line for line in alone(forger.folder))

    def test_is_found_by_the_earlier_ledger_where_that_was_rewritten_too(self, release: Path, forger: Forger) -> None:
        self.move(forger)
        source, target = forger.shard("trajectories", "dev"), forger.shard("trajectories", "train")
        forger.lines(
            KEYS, lambda lines: [line.replace(source, target).replace("\tdev\n", "\ttrain\n") for line in lines]
        )
        forger.lines("certificate/ledger.jsonl", lambda lines: [line.replace('"dev"', '"train"') for line in lines])
        forger.rehash()
        forger.recount()
        failures = alone(forger.folder)
        assert any("not the chain of releases" in line for line in failures)
        earlier = release / "certificate/certificate.json"
        assert alone(release, "--earlier", str(earlier)) == []


def test_an_earlier_ledger_that_was_edited_is_found_by_the_earlier_certificate(release: Path, forger: Forger) -> None:
    forger.edit_certificate(lambda one: one["ledger"]["releases"][0].update(sha256="0" * 64))
    earlier = forger.folder / "certificate/certificate.json"
    assert any("does not begin" in line for line in alone(release, "--earlier", str(earlier)))


class TestAHiddenReject:
    def hide(self, forger: Forger) -> str:
        shard = forger.shard("rejects", "all")
        forger.table(shard, lambda table: table.slice(1))
        return shard

    def test_is_found_by_the_hashes(self, forger: Forger) -> None:
        shard = self.hide(forger)
        assert any(shard in line for line in alone(forger.folder))

    def test_is_found_by_the_table_where_the_hashes_were_mended(self, forger: Forger) -> None:
        shard = self.hide(forger)
        forger.rehash()
        forger.recount()
        assert any(shard in line and "lists" in line for line in alone(forger.folder))
        assert any(f"{SNAPSHOT}/" in line and "in no data file" in line for line in whole(forger.folder))

    def test_is_found_by_the_accounts_where_the_table_was_mended_too(self, forger: Forger) -> None:
        shard = self.hide(forger)
        hidden = next(line for line in (forger.folder / KEYS).read_text().splitlines(keepends=True) if shard in line)
        forger.lines(KEYS, lambda lines: [line for line in lines if line != hidden])
        forger.rehash()
        forger.recount()
        assert any("rejects: holds" in line for line in alone(forger.folder))


class TestTheLedger:
    def test_an_edited_pool_is_found(self, forger: Forger) -> None:
        edited = [line.replace('"pool":"dev"', '"pool":"train"') for line in self.read(forger, "ledger.jsonl")]
        forger.lines("certificate/ledger.jsonl", lambda lines: edited)
        assert any("certificate/ledger.jsonl" in line for line in alone(forger.folder))
        forger.rehash()
        assert any("not the chain" in line for line in alone(forger.folder))

    def test_a_key_that_does_not_give_the_problems_name_is_found_with_its_line(self, forger: Forger) -> None:
        def change(lines: list[str]) -> list[str]:
            line = json.loads(lines[0])
            line["problems"][0]["gold"] = ["0" * 64]
            return [json.dumps(line) + "\n", *lines[1:]]

        forger.lines("certificate/ledger.next.jsonl", change)
        forger.rehash()
        assert any("certificate/ledger.next.jsonl:1" in line and "its name" in line for line in alone(forger.folder))

    def test_a_problem_that_is_assigned_again_is_found(self, forger: Forger) -> None:
        forger.lines("certificate/ledger.next.jsonl", lambda lines: [*lines, lines[-1]])
        forger.rehash()
        assert any("assigned again" in line for line in alone(forger.folder))

    def test_a_line_of_another_release_is_found(self, forger: Forger) -> None:
        forger.lines("certificate/ledger.jsonl", lambda lines: [line.replace("0.1.0", "0.3.0") for line in lines])
        forger.rehash()
        assert any("certificate/ledger.jsonl:1" in line for line in alone(forger.folder))

    def test_torn_lines_and_lines_of_another_kind_are_named(self, forger: Forger) -> None:
        for text in ("{", "[]", "null", '{"keys": 1}', "\x00"):
            forger.lines("certificate/ledger.next.jsonl", lambda lines, text=text: [*lines[:1], text + "\n"])
            assert any("certificate/ledger.next.jsonl:2" in line for line in alone(forger.folder))

    def read(self, forger: Forger, name: str) -> list[str]:
        return (forger.folder / "certificate" / name).read_text().splitlines(keepends=True)


class TestTheTableOfKeys:
    @pytest.mark.parametrize("column", [0, 3, 4, 5, 6, 7, 8, 10, 11])
    def test_an_edited_cell_is_found_even_where_the_hashes_were_mended(self, forger: Forger, column: int) -> None:
        def change(lines: list[str]) -> list[str]:
            cells = lines[1].rstrip("\n").split("\t")
            cells[column] = cells[column][::-1] + "0"[: column != 3]
            return [lines[0], "\t".join(cells) + "\n", *lines[2:]]

        forger.lines(KEYS, change)
        assert any(KEYS in line for line in alone(forger.folder))
        forger.rehash()
        assert any(
            f"{KEYS}:2" in line or "is not in" in line for line in [*alone(forger.folder), *whole(forger.folder)]
        )

    def test_a_row_that_was_left_out_or_doubled_is_found(self, forger: Forger) -> None:
        forger.lines(KEYS, lambda lines: [*lines[:-1], lines[1]])
        forger.rehash()
        failures = alone(forger.folder)
        assert any("stands twice" in line for line in failures)
        assert any("lists" in line for line in failures)


def test_a_row_edited_in_a_data_file_is_found_where_all_hashes_were_mended(forger: Forger) -> None:
    def change(table: pa.Table) -> pa.Table:
        place = table.column_names.index("outcome")
        return table.set_column(place, table.field(place), pa.array(["failure"] * table.num_rows))

    forger.table(forger.shard("trajectories", "train"), change)
    forger.rehash()
    assert alone(forger.folder) == []
    assert any("must read" in line and "trajectories/train-000" in line for line in whole(forger.folder))


@pytest.mark.parametrize(
    ("column", "value"), [("query", "Show me a green garden hose"), ("reward", '{"product_id": "hose-1"}')]
)
def test_a_problem_put_in_the_place_of_another_is_found_by_its_own_text(
    forger: Forger, column: str, value: str
) -> None:
    def change(table: pa.Table) -> pa.Table:
        place = table.column_names.index(column)
        return table.set_column(place, table.field(place), pa.array([value] * table.num_rows))

    forger.table(forger.shard("grpo", "train"), change)
    assert any("another problem than its keys say" in line and "row 1" in line for line in whole(forger.folder))


@pytest.mark.parametrize("change", ["drop", "shrink", "share"])
def test_claims_that_are_missing_or_wrong_are_found(forger: Forger, change: str) -> None:
    def edit(certificate: dict[str, Any]) -> None:
        if change == "drop":
            certificate["claims"].pop()
        elif change == "shrink":
            certificate["claims"][0]["left_size"] -= 1
        else:
            certificate["claims"][0]["shared"] = 1

    forger.edit_certificate(edit)
    assert any("claims" in line for line in alone(forger.folder))


def test_a_benchmark_declared_allowed_afterwards_is_found(forger: Forger) -> None:
    forger.edit_certificate(lambda one: one["benchmarks"]["shopbench"].update(allowed=True))
    assert any("claims" in line for line in alone(forger.folder))


def test_a_readme_that_gives_a_file_to_another_split_is_found(forger: Forger) -> None:
    readme = forger.folder / "README.md"
    readme.write_text(readme.read_text().replace(f"heldout_gold/{HELDOUT}-*", "trajectories/train-*"))
    failures = whole(forger.folder)
    assert any("trajectories/train-" in line and HELDOUT in line for line in failures)
    assert any("does not give heldout_gold/" in line for line in failures)


def test_a_row_of_kto_that_nothing_accounts_for_is_found(forger: Forger) -> None:
    def change(table: pa.Table) -> pa.Table:
        place = table.column_names.index("reasons")
        return table.set_column(place, table.field(place), pa.array([["format"]] * table.num_rows))

    forger.table(forger.shard("rejects", "all"), change)
    assert any("kto: row" in line for line in whole(forger.folder))


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"schema": 1}', b"\xff", b'{"schema":"oresmith.certificate/1"}']
)
def test_no_certificate_makes_the_verifiers_fail_without_a_word(forger: Forger, content: bytes) -> None:
    (forger.folder / "certificate/certificate.json").write_bytes(content)
    assert any("certificate.json" in line for line in alone(forger.folder))
    assert whole(forger.folder)


@pytest.mark.parametrize(
    "field", ["files", "beside", "ledger", "clusters", "counts", "accounts", "claims", "benchmarks"]
)
@pytest.mark.parametrize("value", [None, 1, "x", [], {}, [None], {"x": None}])
def test_a_certificate_of_any_shape_is_a_failure_with_a_place(forger: Forger, field: str, value: Any) -> None:
    forger.edit_certificate(lambda one: one.update({field: value}))
    assert whole(forger.folder)
    from oresmith.audit.verify_certificate import Checker

    told: list[str] = []
    assert Checker(forger.folder, forger.folder, told.append).run() == 1
    assert any(line.startswith("FAIL") for line in told)


def test_a_file_that_is_a_link_is_judged_by_its_content(forger: Forger) -> None:
    """As the Hub's client lays a download out."""
    shard, blob = forger.folder / forger.shard("sft", "train"), forger.folder.parent / "blob"
    shard.rename(blob)
    shard.symlink_to(blob)
    assert alone(forger.folder) == []
    assert whole(forger.folder) == []
    blob.write_bytes(b"something else")
    assert any("sft/train" in line for line in alone(forger.folder))


@pytest.mark.parametrize("line", ["[]", "{}", "1", '{"pool": 1}', '{"pool": "train", "cluster": [], "problems": [1]}'])
def test_no_line_of_a_ledger_makes_the_verifier_fail_elsewhere(forger: Forger, line: str) -> None:
    forger.lines("certificate/ledger.next.jsonl", lambda lines: [*lines, line + "\n"])
    last = len((forger.folder / "certificate/ledger.next.jsonl").read_text().splitlines())
    assert any(f"certificate/ledger.next.jsonl:{last}" in failure for failure in alone(forger.folder))


@pytest.mark.parametrize("content", [None, b"", b"[]", b'{"ledger": {}}'])
def test_an_earlier_certificate_that_is_none_is_a_failure(release: Path, tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "earlier.json").write_bytes(content)
    assert any("earlier.json" in line for line in alone(release, "--earlier", str(tmp_path / "earlier.json")))


def test_a_release_that_is_not_there_is_a_failure_not_a_traceback(tmp_path: Path, release: Path) -> None:
    done = stand_alone(release, str(tmp_path / "nothing"))
    assert done.returncode == 1
    assert done.stdout.startswith("FAIL load")
