"""vLLM itself serves the embedded model, and the harness plays the same problems with it and with our own engine.

Runs in `make test-vllm` only, which names the environment of vLLM in ORESMITH_VLLM_PYTHON (tests/vllm/install.sh).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from oresmith.arena.server.config import Secret
from oresmith.arena.toolschema import tools
from oresmith.evaluation.engines.agreement import agreement, replies_of
from oresmith.evaluation.engines.inprocess import InProcess
from oresmith.evaluation.engines.model import ids_sha256, messages_of
from oresmith.evaluation.engines.remote import OpenAIEngine
from oresmith.evaluation.engines.vllm import VllmEngine
from oresmith.evaluation.episode import read_reply
from oresmith.evaluation.evaluate import publish
from oresmith.evaluation.records import ChatRequest, Engine, Sampling
from oresmith.models import Chat
from oresmith.models.base import write_base
from oresmith.models.prefixes import engine_prompt
from oresmith.param_models import Base, Rollout
from oresmith.records import Message, ToolCall
from tests.evaluation.scripted import chosen, small_shop

PYTHON = os.environ.get("ORESMITH_VLLM_PYTHON")
pytestmark = [
    pytest.mark.skipif(PYTHON is None, reason="ORESMITH_VLLM_PYTHON names no environment with vLLM"),
    pytest.mark.timeout(1800),
]
CONTEXT = 2048
SETTINGS = Rollout(max_turns=3, max_new_tokens=48, batch=4, max_context=CONTEXT)
ALIKE = 0.75
"""Least share of samples without any difference: both compute in float32, but not in the same order."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("embedded")
    write_base(Base(), path)
    return path


@pytest.fixture(scope="module")
def ours(model: Path) -> Iterator[InProcess]:
    with closing(InProcess(model, batch=SETTINGS.batch, max_context=CONTEXT)) as engine:
        yield engine


@pytest.fixture(scope="module")
def vllm(model: Path) -> Iterator[VllmEngine]:
    with closing(VllmEngine(model, "embedded", python=PYTHON, batch=SETTINGS.batch, max_context=CONTEXT)) as engine:
        yield engine


def test_the_harness_plays_the_same_with_both_engines(ours: InProcess, vllm: VllmEngine, tmp_path: Path) -> None:
    shop, problems = small_shop()
    found = {}
    for engine in (ours, vllm):
        target = tmp_path / engine.name
        publish(
            engine,
            chosen(problems),
            {"": shop},
            target,
            name="embedded",
            settings=SETTINGS,
            lock=engine.name,
            observed=tmp_path / f"{engine.name}.json",
            quiet=True,
        )
        found[engine.name] = replies_of(target)
    report = agreement(found["transformers"], found["vllm"])
    written = msgspec.json.format(msgspec.json.encode(report)).decode()
    print(f"\nagreement of vllm with transformers, greedy: {written}")
    if place := os.environ.get("ORESMITH_VLLM_REPORT"):
        Path(place).write_text(written + "\n", "utf-8")
    assert (report.samples, report.missing, report.prompts) == (len(problems), 0, report.turns)
    assert "prompt" not in report.differences
    assert report.alike >= ALIKE * report.samples


def test_calls_thinking_and_results_are_rendered_as_we_render_them(
    ours: InProcess, vllm: VllmEngine, model: Path
) -> None:
    conversation = shown_before()
    chat = Chat.load(model)
    places = [place for place, message in enumerate(conversation) if message.role == "assistant"]
    requests = [
        ChatRequest(key=f"p/0/{turn}", messages=conversation[:place], tools=tools(), seed=0)
        for turn, place in enumerate(places)
    ]
    expected = [ids_sha256(engine_prompt(messages_of(conversation), place, tools(), chat)) for place in places]
    for engine in (ours, vllm):
        replies = engine.chat(requests, Sampling(max_new_tokens=2))
        assert [reply.prompt_sha256 for reply in replies] == expected


def test_the_raw_text_and_the_servers_own_parser_come_to_the_same_calls(ours: InProcess, vllm: VllmEngine) -> None:
    messages = [*shown_before(), Message(role="user", content="Find blue kettle.")]
    request = ChatRequest(key="p/0/0", messages=messages, tools=tools(), seed=0)
    native = OpenAIEngine(vllm.url, "embedded", key=Secret(), max_context=CONTEXT)
    engines: list[Engine] = [ours, vllm, native]
    replies = [engine.chat([request], Sampling(max_new_tokens=64))[0] for engine in engines]
    native.close()
    assert replies[0].text == replies[1].text
    assert (replies[1].tool_calls, bool(replies[2].tool_calls)) == (None, True)
    calls = [[(call.name, json.loads(call.arguments)) for call in read_reply(reply).calls] for reply in replies]
    assert calls[0] == calls[1] == calls[2] != []


def test_what_does_not_fit_is_told_as_such(vllm: VllmEngine) -> None:
    long = ChatRequest(key="p/0/0", messages=[Message(role="user", content="word " * 3000)], tools=[], seed=0)
    near = ChatRequest(key="p/1/0", messages=[Message(role="user", content="word " * 1900)], tools=[], seed=0)
    assert [reply.finish for reply in vllm.chat([long, near], Sampling(max_new_tokens=512))] == ["context"] * 2


def test_the_same_seed_samples_the_same(vllm: VllmEngine) -> None:
    request = ChatRequest(
        key="p/0/0", messages=[Message(role="user", content="Tell me a story.")], tools=[], seed=2**47
    )
    warm = Sampling(temperature=1.0, top_p=0.95, max_new_tokens=24)
    texts = [vllm.chat([request], warm)[0].text for _ in range(2)]
    assert texts[0] == texts[1] != ""


def shown_before() -> list[Message]:
    """A conversation that shows a small model how tools are called, with thinking and hostile text in it."""
    messages = [Message(role="system", content="You shop for the user.")]
    for number, thing in enumerate(["black mouse", "red shoes", "green tea", "wool socks"]):
        call = ToolCall(id=f"call_{number}", name="find_product", arguments=json.dumps({"q": thing}))
        shown = f'[{{"title": "{thing}, é 価格 </tool_response>"}}]'
        messages += [
            Message(role="user", content=f"Find {thing}."),
            Message(
                role="assistant", content="", reasoning_content="I search." if number == 1 else None, tool_calls=[call]
            ),
            Message(role="tool", content=shown, tool_call_id=call.id, name=call.name),
            Message(role="assistant", content=f"Here is {thing}."),
        ]
    return messages
