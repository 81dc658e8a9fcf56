from __future__ import annotations

import gzip
import os
import pickle
import random
from functools import partial
from pathlib import Path

import msgspec
import pytest
from datatrove.data import Document
from datatrove.pipeline.filters import LambdaFilter

from oresmith.blocks.accounts import Accounts, FileAccount, InputFile, check_accounts, shard_files
from oresmith.blocks.execute import run_pipeline
from oresmith.blocks.rejects import UNNAMED, RejectWriter, read_rejects
from oresmith.blocks.writers import TrajectoryReader
from oresmith.errors import AccountingError, OresmithError
from oresmith.lines.framing import Limits
from oresmith.reasons import Reason
from oresmith.records import Source, Trajectory
from tests.blocks.files import CODECS, inputs, row, write
from tests.blocks.steps import OddProblems, normaliser

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "sn15"
BAD_LINES = {
    Reason.BLANK_LINE: b"  ",
    Reason.LINE_TOO_LONG: b'{"a": "' + b"x" * 5000 + b'"}',
    Reason.INVALID_UTF8: b'{"a": "\xff"}',
    Reason.NUL_BYTE: b'{"a": \0}',
    Reason.INVALID_JSON: b'{"a": NaN}',
    Reason.LONE_SURROGATE: b'{"a": "\\udfff"}',
    Reason.HUGE_INTEGER: b'{"a": 123456789012345678901234567890}',
    Reason.NESTED_TOO_DEEP: b"[" * 300 + b"]" * 300,
    Reason.DUPLICATE_KEY: b'{"a": 1, "a": 2}',
}
LIMITS = Limits(max_line_bytes=4096)


def kept(out: Path) -> list[Trajectory]:
    reader = TrajectoryReader(out / "trajectories", Accounts(out / "unused"))
    return [doc.metadata["trajectory"] for shard in range(reader.shards) for doc in reader.run(None, shard)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("place", [0, 3, 6])
def test_every_kind_of_bad_line_is_a_counted_reject_with_its_place(tmp_path: Path, codec: str, place: int) -> None:
    files = []
    for reason, bad in BAD_LINES.items():
        lines = [row(number) for number in range(6)]
        lines.insert(place, bad)
        files.append(write(tmp_path / reason.value, b"\n".join(lines) + b"\n", codec))
    shards = [inputs(file) for file in files]
    run_pipeline(normaliser(tmp_path / "out", shards, limits=LIMITS), len(shards), scratch=tmp_path / "scratch")
    accounts = {account.file: account for account in check_accounts(tmp_path / "out" / "accounts", len(shards))}
    rejects = {reject.source.file: reject for reject in read_rejects(tmp_path / "out" / "rejects")}
    for reason, bad in BAD_LINES.items():
        account, reject = accounts[reason.value], rejects[reason.value]
        assert (account.read, account.kept, account.rejected) == (7, 6, {reason.value: 1})
        assert account.bytes == sum(len(row(number)) + 1 for number in range(6)) + len(bad) + 1
        assert reject.reasons == [reason.value] and reject.stage == "normalize"
        source = reject.source
        offset = sum(len(row(number)) + 1 for number in range(place))
        assert (source.line, source.offset, source.length) == (place + 1, offset, len(bad))
        text = msgspec.json.encode(reject)
        assert b"xxxx" not in text and b"1234567890" not in text  # nothing of the line itself
    assert len(kept(tmp_path / "out")) == 6 * len(BAD_LINES)


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_damaged_stream_fails_the_shard_unless_it_is_accepted_and_then_shows(tmp_path: Path, codec: str) -> None:
    cut = write(tmp_path / "cut", b"\n".join(row(number) for number in range(200)), codec)
    cut.write_bytes(cut.read_bytes()[:-30])
    sound = write(tmp_path / "sound", row(0), codec)
    shards = [inputs(cut, sound)]
    out = tmp_path / "out"
    with pytest.raises(OresmithError, match="accept_truncated") as caught:
        run_pipeline(normaliser(out, shards), 1, scratch=tmp_path / "scratch")
    assert "cut: stream_truncated" in caught.value.got and "sound" not in caught.value.got
    accounts = check_accounts(out / "accounts", 1) if (out / "accounts").exists() else []
    assert all(account.stream for account in accounts if account.file == "cut")
    run_pipeline(normaliser(out, shards, accept_truncated=True), 1, scratch=tmp_path / "scratch")
    first, second = check_accounts(out / "accounts", 1)
    assert (first.stream, second.stream) == (Reason.STREAM_TRUNCATED, None)
    assert first.rejected == {"stream_truncated": 1} and first.kept + 1 == first.read and second.kept == 1


def test_a_bomb_and_a_corrupt_stream_fail_the_shard_too(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb"
    bomb.write_bytes(gzip.compress(row(1) + b"\n" + bytes(4_000_000)))
    corrupt = tmp_path / "corrupt"
    corrupt.write_bytes(gzip.compress(row(1) + b"\n") + b"tail")
    rules = {"limits": Limits(max_line_bytes=4096, max_ratio=2, ratio_floor=4096)}
    with pytest.raises(OresmithError) as caught:
        run_pipeline(normaliser(tmp_path / "out", [inputs(bomb, corrupt)], **rules), 1, scratch=tmp_path / "scratch")
    assert caught.value.got == (
        "bomb: bomb after 1 rows (more bytes than the limit allows); "
        "corrupt: stream_corrupt after 1 rows (bytes that are no gzip member follow the last one)"
    )


@pytest.mark.parametrize("bad", [b"", b"nope"], ids=["blank", "not JSON"])
def test_a_file_of_nothing_but_rejects_stops_at_the_limit_and_still_adds_up(tmp_path: Path, bad: bytes) -> None:
    many = write(tmp_path / "many", row(1) + b"\n" + (bad + b"\n") * 50_000, "gzip")
    few = write(tmp_path / "few", row(1) + b"\n" + (bad + b"\n") * 20 + row(2) + b"\n")
    shards, out = [inputs(few, many)], tmp_path / "out"
    with pytest.raises(OresmithError, match="accept_truncated") as caught:
        run_pipeline(normaliser(out, shards, max_rejects=20), 1, scratch=tmp_path / "scratch")
    assert caught.value.got == "many: bomb after 1 rows (more than 20 lines of the file cannot be read)"
    run_pipeline(normaliser(out, shards, max_rejects=20, accept_truncated=True), 1, scratch=tmp_path / "scratch")
    first, second = check_accounts(out / "accounts", 1)
    assert (first.file, first.read, first.kept, first.stream) == ("few", 22, 2, None)
    assert (second.read, second.kept, second.rejected["bomb"], second.stream) == (23, 1, 1, Reason.BOMB)
    last = list(read_rejects(out / "rejects"))[-1]
    assert (last.source.line, last.source.offset, last.source.length) == (23, second.bytes, 0)
    assert len(list(read_rejects(out / "rejects"))) == 20 + 22


def test_rows_that_a_later_step_rejects_count_to_the_limit_of_their_file(tmp_path: Path) -> None:
    shards = [inputs(write(tmp_path / "f", b"\n".join(row(2 * number + 1) for number in range(100))))]
    out = tmp_path / "out"
    steps = normaliser(out, shards, OddProblems, max_rejects=30, accept_truncated=True)
    run_pipeline(steps, 1, scratch=tmp_path / "scratch")
    (account,) = check_accounts(out / "accounts", 1)
    assert (account.read, account.kept, account.rejected) == (32, 0, {"bomb": 1, "outcome": 31})


@pytest.mark.parametrize("kind", ["xz", "zip", "parquet", "pipe", "absent"])
def test_a_file_that_is_not_read_at_all_is_named_as_its_source_names_it(tmp_path: Path, kind: str) -> None:
    stored = tmp_path / "00001.jsonl"
    heads = {"xz": b"\xfd7zXZ\0", "zip": b"PK\x03\x04", "parquet": b"PAR1"}
    if kind in heads:
        stored.write_bytes(heads[kind] + bytes(20))
    elif kind == "pipe":
        os.mkfifo(stored)
    file = InputFile(path=str(stored), file="day one/traces.jsonl", snapshot="s")
    with pytest.raises(OresmithError) as caught:
        run_pipeline(normaliser(tmp_path / "out", [[file]]), 1, scratch=tmp_path / "scratch")
    assert caught.value.where == "snapshot s: day one/traces.jsonl" and "00001" not in str(caught.value)


def test_one_reject_writer_serves_reader_and_filters_in_input_order(tmp_path: Path) -> None:
    lines = [b"nope" if number % 7 == 0 else row(number) for number in range(40)]
    shards = [inputs(write(tmp_path / "f", b"\n".join(lines) + b"\n"))]
    fours = partial(LambdaFilter, lambda doc: not doc.metadata["trajectory"].problem.problem_id.endswith("4"))
    out = tmp_path / "out"
    run_pipeline(normaliser(out, shards, fours, OddProblems), 1, scratch=tmp_path / "scratch")
    found = list(read_rejects(out / "rejects"))
    assert [reject.source.line for reject in found] == sorted(reject.source.line for reject in found)
    by_line = {reject.source.line - 1: reject for reject in found}
    assert by_line[7].reasons == ["invalid_json"] and by_line[7].problem_id is None
    assert by_line[4].reasons == [UNNAMED] and by_line[4].problem_id == "p-4"
    assert by_line[9].reasons == ["outcome", "reasoning"] and by_line[9].evidence == {"score": 0.0}
    assert by_line[9].trajectory_id == "s/f:10"
    (account,) = check_accounts(out / "accounts", 1)
    assert account.read == 40 and account.rejected == {"invalid_json": 6, "outcome": 17, UNNAMED: 3}
    assert account.kept == len(kept(out)) == 14
    assert b"dialogue" not in (out / "rejects" / "00000.jsonl").read_bytes()


def test_a_filter_in_batches_loses_no_row(tmp_path: Path) -> None:
    shards = [inputs(write(tmp_path / "f", b"\n".join(row(number) for number in range(25))))]
    out = tmp_path / "out"
    run_pipeline(normaliser(out, shards, partial(OddProblems, batch_size=10)), 1, scratch=tmp_path / "scratch")
    (account,) = check_accounts(out / "accounts", 1)
    assert (account.read, account.kept, account.rejected) == (25, 13, {"outcome": 12})


def test_a_reject_writer_appends_when_entered_again_and_starts_anew_in_a_new_task(tmp_path: Path) -> None:
    rejects = RejectWriter(tmp_path, "gate", Accounts(tmp_path / "accounts"))
    source = Source(snapshot="s", file="f", file_sha256="", line=1, offset=0, length=1)
    document = Document(text="t", id="d", metadata={"source": source, "filter_reason": "z" * 500})
    for _ in range(3):
        with rejects, rejects as inner:
            inner.write(document, 4)
    found = list(read_rejects(tmp_path))
    assert len(found) == 3 and {reject.reasons[0] for reject in found} == {"z" * 100}
    with pickle.loads(pickle.dumps(rejects)) as fresh:
        fresh.write(document, 4)
    assert len(list(read_rejects(tmp_path))) == 1
    with pytest.raises(OresmithError, match="no source"):
        rejects.write(Document(text="t", id="d"))


def test_accounts_that_do_not_add_up_are_refused_with_the_numbers(tmp_path: Path) -> None:
    account = FileAccount(snapshot="s", file="f", read=3, forwarded=2, unreadable=1, kept=1, rejected={"torn": 1})
    (tmp_path / "00000.json").write_bytes(msgspec.json.encode([account]))
    with pytest.raises(AccountingError, match=r"s/f.*\n.*\n.*read 3, kept 1, rejected 1"):
        check_accounts(tmp_path, 1)
    account.kept = 2
    (tmp_path / "00000.json").write_bytes(msgspec.json.encode([account]))
    assert check_accounts(tmp_path, 1) == [account]
    with pytest.raises(AccountingError, match="00001"):
        check_accounts(tmp_path, 2)
    (tmp_path / "00000.json").write_bytes(b"{}")
    with pytest.raises(AccountingError, match="no readable account"):
        check_accounts(tmp_path, 1)


def test_a_row_that_a_step_swallows_is_noticed(tmp_path: Path) -> None:
    shards = [inputs(write(tmp_path / "f", b"\n".join(row(number) for number in range(9))))]
    swallow = partial(LambdaFilter, lambda doc: not doc.id.endswith(":3"))
    steps = normaliser(tmp_path / "out", shards)
    steps.insert(2, swallow())
    run_pipeline(steps, 1, scratch=tmp_path / "scratch")
    with pytest.raises(AccountingError, match="read 9, kept 8, rejected 0"):
        check_accounts(tmp_path / "out" / "accounts", 1)


def test_shards_depend_on_the_files_alone(tmp_path: Path) -> None:
    files = inputs(*(write(tmp_path / f"{number:02d}", b"x" * number * 10) for number in range(1, 20)))
    shards = shard_files(files, 400)
    shuffled = files.copy()
    random.Random(1).shuffle(shuffled)
    assert shard_files(shuffled, 400) == shards
    assert [file for shard in shards for file in shard] == files
    assert all(sum(file.size for file in shard) <= 400 for shard in shards)
    assert [len(shard) for shard in shard_files(files, 1)] == [1] * 19


WRONG_VALUES = [b'"SUCCESS"', b"9" * 25, b'"\\ud800"', b'1,"status":2', b"[" * 300 + b"]" * 300, b"NaN"]


def mutations(count: int, seed: int) -> bytes:
    """Lines of real form, each with some bytes changed, cut, doubled or moved."""
    chance = random.Random(seed)
    base = [row(number, "\\ud83d é : [{ 12345678901234567890" * 3) for number in range(20)]
    if SHARED.exists():
        base += gzip.decompress((SHARED / "traces_probe_failures.jsonl.gz").read_bytes()).splitlines()
    lines = []
    for _ in range(count):
        line = bytearray(chance.choice(base).replace(b'"SUCCESS"', chance.choice(WRONG_VALUES)))
        del line[chance.choice([3000, chance.randint(1, 3000)]) :]
        for _ in range(chance.choice([0, 0, 1, 4])):
            place = chance.randrange(len(line))
            piece = chance.choice([b"\0", b"\xff", b'"', b"\\", b"{", b"}", b"NaN", b":", b"9" * 25, b"\r", b"\\ud800"])
            line[place : place + chance.choice([0, 1, 5])] = piece
        lines.append(bytes(line).replace(b"\n", b" "))
    return b"\n".join(lines)


@pytest.mark.parametrize("count", [2000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_mutated_lines_never_crash_the_stage_and_are_all_accounted(tmp_path: Path, count: int) -> None:
    stream = mutations(count, seed=count)
    shards = [inputs(write(tmp_path / codec, stream, codec)) for codec in CODECS[: 3 if count < 10_000 else 1]]
    out = tmp_path / "out"
    run_pipeline(normaliser(out, shards, limits=LIMITS), len(shards), scratch=tmp_path / "scratch")
    accounts = check_accounts(out / "accounts", len(shards))
    for account in accounts:
        assert (account.read, account.bytes) == (stream.count(b"\n") + 1, len(stream))
        assert len(account.rejected) > 5
    known = {reason.value for reason in Reason}
    assert all(reject.reasons[0] in known for reject in read_rejects(out / "rejects"))
    assert len(kept(out)) == sum(account.kept for account in accounts)


def test_every_real_trace_file_is_read_without_a_reject(tmp_path: Path) -> None:
    if not SHARED.exists():
        pytest.skip(f"the real inputs are not at {SHARED}")
    files = sorted(SHARED.glob("traces_*.jsonl.gz"))
    shards = shard_files(inputs(*files), 1)
    run_pipeline(normaliser(tmp_path / "out", shards), len(shards), scratch=tmp_path / "scratch")
    accounts = check_accounts(tmp_path / "out" / "accounts", len(shards))
    lines = [gzip.decompress(file.read_bytes()).count(b"\n") for file in files]
    assert [(account.read, account.kept) for account in accounts] == [(count, count) for count in lines]
