"""The witness file: what it holds, that client and server hash alike, and how a damaged one is read."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.arena.witness import (
    HEAD,
    Entry,
    Recorder,
    canonical_request,
    digest,
    entry_line,
    load_witness,
    make_entry,
    read_entries,
    session_name,
    write_witness,
)
from oresmith.errors import OresmithError
from tests.arena.test_tools import JSON

PAGE = [{"product_id": "7", "title": "t"}, {"product_id": "8", "title": "é"}]
VALUES = st.none() | st.integers() | st.booleans() | st.text() | st.lists(st.text() | st.integers(), max_size=3)


def recorded(session: str = "r/p") -> list[Entry]:
    recorder = Recorder(session)
    recorder.record(
        "GET", "/search/find_product", timestamp=10, duration_ms=1.5, status=200, params={"q": "a"}, response=PAGE
    )
    body = {"model": "m", "messages": [{"role": "user", "content": "my secret"}]}
    recorder.record(
        "POST", "/inference/chat/completions", timestamp=20, duration_ms=2.0, status=200, json_data=body, response={}
    )
    return recorder.entries


def test_a_file_gives_back_what_was_written_and_holds_no_text_of_request_or_response(tmp_path: Path) -> None:
    path, entries = tmp_path / "w.jsonl", [*recorded("r/p"), *recorded("r/q")]
    assert write_witness(path, entries) == 4
    witness = load_witness(path)
    assert (list(witness), len(witness)) == (["r/p", "r/q"], 2)
    assert [*witness["r/p"], *witness["r/q"]] == entries
    assert list(load_witness(path, only={"r/q"})) == ["r/q"]
    assert b"secret" not in path.read_bytes()
    assert deepcopy(witness) is witness


def test_an_entry_states_the_length_that_the_older_runtime_counts_and_the_ids_of_a_page() -> None:
    find, infer = recorded()
    assert find.response_length == len(json.dumps(PAGE))
    assert find.ids_sha256 == digest(["7", "8"])
    assert (infer.ids_sha256, find.messages_sha256) == (None, None)
    assert infer.messages_sha256 == digest([{"role": "user", "content": "my secret"}])


def test_messages_are_stored_only_where_that_is_asked(tmp_path: Path) -> None:
    path, entry = tmp_path / "w.jsonl", recorded()[1]
    path.write_bytes(HEAD + entry_line(entry, [{"role": "user", "content": "my secret"}]))
    assert json.loads(path.read_text("utf-8").splitlines()[1])["messages"][0]["content"] == "my secret"
    assert list(read_entries(path)) == [entry]


@settings(deadline=None)
@given(st.dictionaries(st.text(min_size=1), VALUES, max_size=5))
def test_a_clients_parameters_and_what_the_server_reads_hash_alike(params: dict[str, Any]) -> None:
    url = urlencode({name: value for name, value in params.items() if value is not None}, doseq=True)
    read: dict[str, list[str]] = {}
    for name, value in parse_qsl(url, keep_blank_values=True):
        read.setdefault(name, []).append(value)
    assert digest(canonical_request(params, None)) == digest(canonical_request(read, None))


@settings(deadline=None)
@given(JSON, JSON)
def test_a_digest_tells_values_apart_and_not_their_spelling(one: Any, other: Any) -> None:
    again = json.loads(json.dumps(one, sort_keys=True))
    assert digest(one) == digest(again) != ""
    if json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True):
        assert digest(one) != digest(other)


def test_numbers_of_any_size_and_kind_have_their_own_digest() -> None:
    values = [1, 1.0, True, "1", None, 2**70, 2**70 + 1, [], {}, "", "\ud800"]
    assert len({digest(value) for value in values}) == len(values)
    assert digest({1, 2}) == ""


def test_messages_are_no_part_of_the_request() -> None:
    body = {"model": "m", "messages": ["x"]}
    assert canonical_request(None, body) == canonical_request(None, {"model": "m"}) == {"json": {"model": "m"}}
    assert canonical_request({"a": None}, None) == canonical_request(None, None) == {}


def test_a_session_has_a_name_only_if_no_other_attempt_can_have_it() -> None:
    assert session_name("r", "p/q") == "r/p/q"
    refused = [("r/p", "q"), ("", "p"), (None, "p"), ("r", None), ("r", "a\nb"), ("r", "x" * 201)]
    assert [session_name(run, problem) for run, problem in refused] == [None] * len(refused)


def test_joined_files_and_a_torn_last_line_are_read(tmp_path: Path) -> None:
    path, entries = tmp_path / "w.jsonl", recorded()
    whole = HEAD + b"".join(map(entry_line, entries))
    path.write_bytes(whole + whole + entry_line(entries[0])[:40])
    assert list(read_entries(path)) == entries * 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"schema":"oresmith.witness/2"}\n',
        entry_line(recorded()[0]),
        HEAD + b'{"session": "r/p"}\n',
        HEAD + b"[]\n",
        HEAD + entry_line(recorded()[0]).replace(b'"status":200', b'"status":"200"'),
        HEAD + b'\xff{"a":1}\n' + entry_line(recorded()[0]),
        HEAD + b"not json\n" + entry_line(recorded()[0]),
    ],
)
def test_a_file_of_another_kind_is_refused_with_its_place(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    path.write_bytes(data)
    with pytest.raises(OresmithError, match=r"w\.jsonl"):
        load_witness(path)


@settings(deadline=None)
@given(JSON, JSON, JSON)
def test_an_entry_is_made_of_any_json(params: Any, body: Any, response: Any) -> None:
    entry = make_entry(
        "s",
        0,
        "GET",
        "/x/find_product",
        timestamp=0,
        duration_ms=0.0,
        status=200,
        params=params,
        json_data=body,
        response=response,
    )
    assert json.loads(entry_line(entry))["response_sha256"] == digest(response)
