"""The engine in this process: the tokens of plain generation, whatever is in the batch, and no fault that spreads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from oresmith.errors import OresmithError
from oresmith.evaluation.engines import open_engine
from oresmith.evaluation.engines.agreement import agreement, replies_of
from oresmith.evaluation.engines.inprocess import InProcess
from oresmith.evaluation.engines.model import ids_sha256, messages_of, prompt_ids
from oresmith.evaluation.engines.packed import PackedModel
from oresmith.evaluation.records import ChatReply, ChatRequest, Sampling
from oresmith.evaluation.writing import REQUESTS
from oresmith.models import Chat, parity
from oresmith.models.directory import load_model
from oresmith.models.rendering import training_rows
from oresmith.param_models import Rollout
from oresmith.records import Message
from tests.evaluation.engines_build import QUERIES, asked, followed, tiny, told
from tests.evaluation.scripted import called, run, small_shop
from tests.models.build import SHOPPING, TOOLS

GREEDY = Sampling(max_new_tokens=12)
WARM = Sampling(temperature=0.9, top_p=0.9, max_new_tokens=12)
FIRST = [asked(query, seed=place) for place, query in enumerate(QUERIES)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("engines")
    tiny(path)
    tiny(path, "hermes", template="hermes")
    tiny(path, "other", seed=1)
    return path


@pytest.fixture(scope="module")
def engine(home: Path) -> InProcess:
    return InProcess(home / "tiny", batch=8)


@pytest.fixture(scope="module")
def plain(home: Path) -> Any:
    """Generates as transformers does: one prompt, nothing padded, nothing kept."""
    chat, model = Chat.load(home / "tiny"), load_model(home / "tiny")

    def text(request: ChatRequest, tokens: int) -> str:
        ids = torch.tensor([prompt_ids(request, chat)])
        found = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False)
        said = found[0, ids.shape[1] :].tolist()
        return chat.tokenizer.decode(said[:-1] if said[-1] == chat.tokenizer.end else said)

    return text


def test_greedy_replies_are_those_of_plain_generation_also_in_later_turns(engine: InProcess, plain: Any) -> None:
    requests = FIRST
    for turn in range(3):
        replies = engine.chat(requests, GREEDY)
        assert [reply.text for reply in replies] == [plain(request, 12) for request in requests]
        results = ["[]", "one\ntwo " * (turn * 7 + 1), "é"] * 2
        requests = [
            followed(request, reply.text, result)
            for request, reply, result in zip(requests, replies, results, strict=False)
        ]


@pytest.mark.parametrize("sampling", [GREEDY, WARM])
def test_a_reply_does_not_depend_on_what_else_is_asked(home: Path, engine: InProcess, sampling: Sampling) -> None:
    together = engine.chat(FIRST, sampling)
    assert told(engine.chat(FIRST[::-1], sampling))[::-1] == told(together)
    assert [told(engine.chat([request], sampling))[0] for request in FIRST] == told(together)
    small = InProcess(home / "tiny", batch=2)
    assert told(small.chat(FIRST, sampling)) == told(together)
    second = [followed(request, reply.text, "[1]" * 9) for request, reply in zip(FIRST, together, strict=True)]
    assert told(small.chat(second, sampling)) == told(InProcess(home / "tiny").chat(second, sampling))
    small.close()
    small.close()


class Searching(InProcess):
    """Searches for whatever the model says, so that its episodes go on."""

    def chat(self, requests: Sequence[ChatRequest], sampling: Sampling) -> list[ChatReply]:
        said = super().chat(requests, sampling)
        return [replace(one, text=called(("find_product", {"q": one.text})), finish="stop") for one in said]


def test_rollouts_are_the_same_again_and_with_another_batch(home: Path, tmp_path: Path) -> None:
    for name, batch in (("one", 4), ("again", 4), ("alone", 1)):
        run(
            Searching(home / "tiny", batch=batch),  # type: ignore[arg-type]
            tmp_path / name,
            small_shop()[1][:2],
            batch=batch,
            temperature=0.9,
            samples=2,
            max_turns=3,
            max_new_tokens=8,
        )
    kept = [(tmp_path / name / REQUESTS).read_bytes() for name in ("one", "again")]
    assert kept[0] == kept[1]
    found = agreement(replies_of(tmp_path / "one"), replies_of(tmp_path / "alone"))
    assert (found.samples, found.alike, found.differences, found.missing) == (4, 4, {}, 0)
    assert found.prompts == found.turns == 12
    assert len({reply.text for reply in replies_of(tmp_path / "one").values()}) == 12


def test_seeds_decide_what_is_sampled(engine: InProcess) -> None:
    asks = [asked("kettle", sample=place, seed=place % 3) for place in range(6)]
    texts = [reply.text for reply in engine.chat(asks, WARM)]
    assert texts[:3] == texts[3:]
    assert len(set(texts)) == 3


def test_what_was_read_is_not_read_again(engine: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[int] = []
    read = PackedModel.read

    def counted(self: PackedModel, wanted: Any) -> Any:
        fed.append(sum(len(piece.ids) for piece in wanted))
        return read(self, wanted)

    monkeypatch.setattr(PackedModel, "read", counted)
    first = engine.chat(FIRST[:1], GREEDY)[0]
    again = followed(FIRST[0], first.text, "[]")
    second = engine.chat([again], GREEDY)[0]
    fresh = engine.chat([asked("something new")], GREEDY)[0]
    assert first.prompt_tokens and second.prompt_tokens and fresh.prompt_tokens
    # Qwen3's template drops the head of the thinking block of turns that are over: the reply itself is read again.
    assert fed[-2] <= second.prompt_tokens - first.prompt_tokens
    assert fed[-1] < fresh.prompt_tokens / 2  # the system prompt is known


def test_a_conversation_that_went_another_way_is_read_from_there(engine: InProcess, plain: Any) -> None:
    engine.chat(FIRST[:1], GREEDY)
    other = followed(FIRST[0], "words that the model never said")
    assert engine.chat([other], GREEDY)[0].text == plain(other, 12)
    shorter = ChatRequest(key=other.key, messages=FIRST[0].messages[:1] + FIRST[0].messages[1:], tools=[], seed=0)
    assert engine.chat([shorter], GREEDY)[0].text == plain(shorter, 12)


def test_the_end_token_ends_a_reply_and_is_not_part_of_it(engine: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = engine.chat(FIRST[:1], GREEDY)[0]
    assert (whole.finish, whole.completion_tokens) == ("length", 12)
    ids = engine._kept["a black mouse/0"].ids[len(prompt_ids(FIRST[0], engine._chat)) :]
    third = next(place for place in range(2, 11) if ids[place] not in ids[:place])
    monkeypatch.setattr(engine, "_ends", frozenset([ids[third]]))
    cut = engine.chat([asked("a black mouse", sample=7)], GREEDY)[0]
    assert (cut.finish, cut.completion_tokens) == ("stop", third + 1)
    assert cut.text == engine._chat.tokenizer.decode(ids[:third])


def test_a_prompt_without_room_for_an_answer_is_not_run_and_the_others_are(home: Path, engine: InProcess) -> None:
    long, room = asked("word " * 400), len(prompt_ids(FIRST[3], engine._chat)) + 100
    found = InProcess(home / "tiny", max_context=room).chat([FIRST[2], long, FIRST[3]], GREEDY)
    assert [reply.finish for reply in found] == ["length", "context", "length"]
    assert (found[1].text, found[1].completion_tokens) == ("", 0)
    assert found[1].prompt_sha256 == ids_sha256(prompt_ids(long, engine._chat))
    assert told([found[0], found[2]]) == told(engine.chat([FIRST[2], FIRST[3]], GREEDY))


def test_exactly_as_much_as_fits_is_run(home: Path, engine: InProcess) -> None:
    needed = len(prompt_ids(FIRST[0], engine._chat)) + 12
    finishes = [
        InProcess(home / "tiny", max_context=room).chat(FIRST[:1], GREEDY)[0].finish for room in (needed, needed - 1)
    ]
    assert finishes == ["length", "context"]


@pytest.mark.parametrize("name", ["tiny", "hermes"])
def test_each_turn_is_given_the_ids_that_it_is_trained_behind(home: Path, name: str) -> None:
    engine, chat = InProcess(home / name), Chat.load(home / name)
    assert engine.identity()["template"] == chat.template.id == ("hermes/1" if name == "hermes" else "qwen3/1")
    hashes = []
    for place, message in enumerate(SHOPPING):
        if message["role"] == "assistant":
            shown = [Message(**_record(one)) for one in SHOPPING[:place]]
            request = ChatRequest(key=f"p/0/{place}", messages=shown, tools=TOOLS, seed=0)
            assert messages_of(shown) == [{"content": None} | one for one in SHOPPING[:place]]
            hashes.append(engine.chat([request], GREEDY)[0].prompt_sha256)
    rows = training_rows(SHOPPING, TOOLS, chat)
    assert hashes == [ids_sha256(row.ids[: turn.start]) for row in rows for turn in row.turns]
    assert all(turn.equal for turn in parity(SHOPPING, TOOLS, chat))


def _record(message: dict[str, Any]) -> dict[str, Any]:
    from oresmith.records import ToolCall

    calls = [ToolCall(id=call["id"], **call["function"]) for call in message.get("tool_calls", [])]
    return message | ({"tool_calls": calls} if calls else {})


def test_what_cannot_be_rendered_is_an_error_of_its_own(engine: InProcess) -> None:
    odd = ChatRequest(key="odd/0/0", messages=[Message(role="robot", content="x")], tools=[], seed=0)
    found = engine.chat([FIRST[0], odd, FIRST[1]], GREEDY)
    assert [reply.finish for reply in found] == ["length", "error", "length"]
    assert "unknown role" in (found[1].error or "")
    assert told([found[0], found[2]]) == told(engine.chat([FIRST[0], FIRST[1]], GREEDY))


def test_scores_that_are_no_numbers_are_an_error_of_their_row(
    engine: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, step = engine.chat(FIRST[:3], WARM), PackedModel.step
    after = {"passes": 0}

    def poisoned(self: PackedModel, pieces: Any) -> Any:
        scores = step(self, pieces).clone()
        after["passes"] += 1
        if after["passes"] == 4:
            scores[1, 5] = float("nan")
        return scores

    monkeypatch.setattr(PackedModel, "step", poisoned)
    found = engine.chat([asked(request.key.split("/")[0], sample=5, seed=request.seed) for request in FIRST[:3]], WARM)
    assert [reply.finish for reply in found] == ["length", "error", "length"]
    assert (found[1].text, "no numbers" in (found[1].error or "")) == ("", True)
    assert [found[0].text, found[2].text] == [sound[0].text, sound[2].text]


@pytest.mark.parametrize("fault", [RuntimeError("not enough memory"), MemoryError()])
def test_a_full_memory_is_an_error_and_the_next_round_goes_on(
    engine: InProcess, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    before, step = told(engine.chat(FIRST, GREEDY)), PackedModel.step
    passes = {"left": 3}

    def full(self: PackedModel, pieces: Any) -> Any:
        passes["left"] -= 1
        if passes["left"] == 0:
            raise fault
        return step(self, pieces)

    monkeypatch.setattr(PackedModel, "step", full)
    found = engine.chat(FIRST, GREEDY)
    assert {reply.finish for reply in found} == {"error"}
    assert all((reply.error or "").startswith(type(fault).__name__) and not reply.text for reply in found)
    assert told(engine.chat(FIRST, GREEDY)) == before


def test_an_interruption_leaves_nothing_half_read(engine: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    before, step = told(engine.chat(FIRST, GREEDY)), PackedModel.step
    with monkeypatch.context() as patched:
        patched.setattr(PackedModel, "step", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.chat(FIRST, GREEDY)
    assert PackedModel.step is step
    assert told(engine.chat(FIRST, GREEDY)) == before


def _interrupted(self: PackedModel, pieces: Any) -> Any:
    raise KeyboardInterrupt


def test_the_identity_names_files_template_and_numbers(home: Path, engine: InProcess) -> None:
    here = engine.identity()
    assert here["engine"] == "transformers"
    assert (here["dtype"], here["threads"], here["template"]) == ("float32", 1, "qwen3/1")
    other = InProcess(home / "other").identity()
    assert {key for key in here if here[key] != other[key]} == {"model_sha256"}
    assert InProcess(home / "hermes").identity()["model_sha256"] == here["model_sha256"]


def test_bfloat16_is_computed_in_bfloat16(home: Path) -> None:
    half = InProcess(home / "tiny", dtype="bfloat16")
    assert half.identity()["dtype"] == "bfloat16"
    assert half._packed.model.dtype == torch.bfloat16
    assert [reply.finish for reply in half.chat(FIRST, GREEDY)] == ["length"] * len(FIRST)


def test_a_directory_that_is_none_or_unsafe_is_refused(home: Path, tmp_path: Path) -> None:
    with pytest.raises(OresmithError, match="no such model directory"):
        open_engine(Rollout(), "m", tmp_path / "none")
    with pytest.raises(OresmithError, match="needs the model's directory"):
        open_engine(Rollout(), "m", None)
    unsafe = tiny(tmp_path)
    (unsafe / "pytorch_model.bin").touch()
    with pytest.raises(OresmithError, match="pickle"):
        open_engine(Rollout(), "m", unsafe)


def test_parameters_reach_the_engine(home: Path) -> None:
    engine = open_engine(Rollout(batch=3, max_context=999, dtype="bfloat16"), "m", home / "tiny")
    assert isinstance(engine, InProcess)
    assert (engine.context, engine._batch, engine.identity()["dtype"]) == (999, 3, "bfloat16")
    assert isinstance(engine.chat(FIRST[:1], GREEDY)[0], ChatReply)
    engine.close()


@pytest.mark.parametrize("name", ["transformers", "openai", "vllm"])
def test_a_missing_package_is_a_refusal(name: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = {"transformers": "inprocess", "openai": "remote", "vllm": "vllm"}[name]
    monkeypatch.setitem(sys.modules, f"oresmith.evaluation.engines.{module}", None)
    with pytest.raises(OresmithError, match="package that the engine needs") as refused:
        open_engine(Rollout(engine=name, url="http://127.0.0.1:1/v1"), "m", home / "tiny")
    assert refused.value.exit_code == 2


def test_the_package_alone_loads_nothing_heavy() -> None:
    code = (
        "import sys, oresmith.evaluation.engines; "
        "print([name for name in ('torch', 'transformers', 'httpx', 'anyio') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert shown.stdout.strip() == "[]"
