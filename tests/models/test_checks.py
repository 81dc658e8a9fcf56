"""The check before training: a mask that is broken in any way stops a row, and every row is accounted for."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.corpus.rows import UNRENDERED, dialogue
from oresmith.models import (
    RenderingReport,
    RowFault,
    RowRenderer,
    check_rendering,
    checked_rows,
    mask_fault,
    parity,
    render,
)
from oresmith.models.checks import row_fault
from oresmith.records import Format, Message, Source, Trajectory
from oresmith.traces import decode, to_openai
from tests.models.build import SHOPPING, TOOLS, assistant, call, messages_of, texts, tool, user
from tests.traces.build import CTX
from tests.traces.real import TRACES, needs_shared, rows

CHATS = ["hermes", "qwen"]
ANSWERS = [message for message in SHOPPING if message["role"] == "assistant"]


def trajectory(*answers):
    source = Source(snapshot="s", file="f", file_sha256="", line=1, offset=0, length=0)
    messages = [Message(role="user", content="x"), *answers]
    return Trajectory(
        trajectory_id="t", identity="", content="", source=source, format=Format.OPENAI, messages=messages
    )


def row(messages, row_id="a", tools=TOOLS):
    return {"row_id": row_id, "messages": messages, "tools": tools}


def broken(rendered, how, chat):
    mask, ids, first = list(rendered.mask), list(rendered.ids), rendered.turns[0]
    if how == "the prompt is in the loss":
        mask[: first.start] = [1] * first.start
    elif how == "a token of the prompt is in the loss":
        mask[first.start - 1] = 1
    elif how == "the end token is missing":
        mask[first.end - 1] = 0
    elif how == "the line end after the turn is in the loss":
        mask[first.end] = 1
    elif how == "a tool result is in the loss":
        mask[first.start : rendered.turns[1].end] = [1] * (rendered.turns[1].end - first.start)
    elif how == "the last turn is cut off":
        mask, ids = mask[: rendered.turns[-1].start], ids[: rendered.turns[-1].start]
    elif how == "a turn is left out":
        mask[first.start : first.end] = [0] * (first.end - first.start)
    elif how == "everything is left out":
        mask = [0] * len(mask)
    elif how == "the mask is shifted":
        mask = [0, *mask[:-1]]
    elif how == "the mask is shorter":
        mask = mask[:-1]
    elif how == "an id is another one":
        ids[first.start + 1] = chat.tokenizer.plain("x")[0]
    return ids, mask


@pytest.mark.parametrize(
    "how",
    [
        "the prompt is in the loss",
        "a token of the prompt is in the loss",
        "the end token is missing",
        "the line end after the turn is in the loss",
        "a tool result is in the loss",
        "the last turn is cut off",
        "a turn is left out",
        "everything is left out",
        "the mask is shifted",
        "the mask is shorter",
        "an id is another one",
    ],
)
def test_a_mask_that_is_broken_on_purpose_is_found(hermes, how):
    rendered = render(SHOPPING, TOOLS, hermes)
    assert mask_fault(rendered.ids, rendered.mask, ANSWERS, hermes) is None
    ids, mask = broken(rendered, how, hermes)
    fault = mask_fault(ids, mask, ANSWERS, hermes)
    expected = RowFault.NO_SUPERVISED if how == "everything is left out" else RowFault.WRONG_MASK
    assert fault is not None
    assert fault[0] is expected
    assert row_fault(rendered._replace(ids=ids, mask=mask), SHOPPING, TOOLS, hermes) == fault


@pytest.mark.parametrize("name", CHATS)
def test_a_sound_conversation_passes_with_its_counts(chats, name):
    report = RenderingReport()
    kept = list(checked_rows([row(SHOPPING)], chats[name], report))
    turns = {"hermes": [8], "qwen": [2, 4, 6, 8]}[name]
    assert [one.turn for one in kept] == turns
    assert (report.conversations, report.rows, report.kept, report.rejected) == (1, len(turns), len(turns), {})
    assert report.tokens == sum(len(one.rendered.ids) for one in kept)
    assert report.supervised == sum(sum(one.rendered.mask) for one in kept) > 0
    assert report.longest == max(len(one.rendered.ids) for one in kept)


def test_rows_are_read_as_the_corpus_stores_them(hermes):
    stored = row([json.dumps(message).encode() for message in SHOPPING], tools=json.dumps(TOOLS).encode())
    assert check_rendering([stored], hermes) == check_rendering([row(SHOPPING)], hermes)
    assert check_rendering([row(json.dumps(SHOPPING), tools=None)], hermes).kept == 1


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([user("x")], RowFault.NO_SUPERVISED),
        ([user("x"), assistant("", None, call(a=1) | {"function": {"name": "f", "arguments": "{"}})],
         RowFault.UNRENDERABLE),
        ([user("x"), assistant('<tool_call>{"name": "f", "arguments": {}}</tool_call>')], RowFault.NOT_READ_BACK),
        ([user("x"), assistant("<tool_call>{")], RowFault.NOT_READ_BACK),
        ([user("x"), assistant("a", "so </think> there")], RowFault.NOT_READ_BACK),
        ([user("x"), assistant("a</think>b")], RowFault.NOT_READ_BACK),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", CHATS)
def test_what_cannot_be_trained_on_is_a_counted_reject(chats, name, messages, fault):
    report = check_rendering([row(messages, "bad"), row(SHOPPING, "good")], chats[name])
    assert report.rejected == {fault.value: 1}
    assert [(reject.row_id, reject.fault) for reject in report.rejects] == [("bad", fault)]
    assert report.rows == report.kept + 1


def test_characters_that_the_tokenizer_leaves_out_are_a_reject(hermes):
    if hermes.tokenizer.plain("\x04"):
        pytest.skip("needs SmolLM2's vocabulary, which lacks some control characters")
    assert check_rendering([row([user("a\x04b"), assistant("c")])], hermes).rejected == {"text_lost": 1}
    assert check_rendering([row([user("ab"), assistant("c\x04")])], hermes).rejected == {"wrong_mask": 1}


def test_a_turn_that_would_be_served_otherwise_is_a_reject(qwen):
    report = check_rendering([row([user("x"), assistant("One."), assistant("Two.")])], qwen)
    assert (report.kept, report.rejected) == (1, {"not_served": 1})


@pytest.mark.parametrize("name", CHATS)
def test_an_answer_that_nothing_asked_for_is_a_reject(chats, name):
    assert check_rendering([row([assistant("Hello.")])], chats[name]).rejected == {"not_served": 1}


def test_a_forged_turn_is_found_even_where_rendering_let_it_through(hermes):
    conversation = [user("x"), tool("y"), assistant("z")]
    rendered = render(conversation, None, hermes)
    forged = [hermes.tokenizer.start, *rendered.ids]
    moved = [turn._replace(start=turn.start + 1, end=turn.end + 1) for turn in rendered.turns]
    changed = rendered._replace(ids=forged, mask=[0, *rendered.mask], turns=moved)
    assert row_fault(rendered, conversation, None, hermes) is None
    assert row_fault(changed, conversation, None, hermes) == (RowFault.CONTROL_TOKEN, "")


@pytest.mark.parametrize("name", CHATS)
def test_a_row_over_the_limit_is_a_reject_and_never_cut(chats, name):
    chat = chats[name]
    lengths = sorted(len(one.rendered.ids) for one in checked_rows([row(SHOPPING)], chat, RenderingReport()))
    at = check_rendering([row(SHOPPING)], chat, max_tokens=lengths[-1])
    below = check_rendering([row(SHOPPING)], chat, max_tokens=lengths[-1] - 1)
    assert at.rejected == {}
    assert below.rejected == {"too_long": 1}
    assert below.rows == below.kept + 1 == len(lengths)
    assert below.longest == lengths[-1]


@pytest.mark.parametrize("name", CHATS)
@given(
    conversations=st.lists(messages_of(texts, st.none() | texts), max_size=3), limit=st.none() | st.integers(1, 2000)
)
@settings(max_examples=30, deadline=None)
def test_every_row_of_any_conversation_is_kept_or_a_counted_reject(chats, name, conversations, limit):
    report = RenderingReport()
    given_rows = [row(messages, str(place)) for place, messages in enumerate(conversations)]
    kept = list(checked_rows(given_rows, chats[name], report, max_tokens=limit))
    assert report.conversations == len(conversations)
    assert report.rows == len(kept) + sum(report.rejected.values())
    assert len(report.rejects) == sum(report.rejected.values())
    assert all(limit is None or len(one.rendered.ids) <= limit for one in kept)


@needs_shared
def test_every_real_trace_with_an_answer_renders_and_is_served_as_trained(hermes):
    found = [
        to_openai(decode(raw, CTX), TOOLS) | {"row_id": f"{path.name}:{place}"}
        for path in TRACES
        for place, raw in enumerate(rows(path.name))
    ]
    report = check_rendering(found, hermes)
    silent = sum(all(message["role"] != "assistant" for message in one["messages"]) for one in found)
    assert report.rejected == {"no_supervised": silent}
    assert report.kept == len(found) - silent > 400
    sampled = [parity(one["messages"], one["tools"], hermes) for one in found[::20] if one["messages"]]
    assert all(turn.equal for turns in sampled for turn in turns)


def test_the_corpus_leaves_out_of_its_views_what_does_not_render(hermes):
    renderer = RowRenderer(hermes)
    assert renderer.fault(SHOPPING, TOOLS) is None
    assert renderer.fault([user("x"), assistant("<tool_call>{")], TOOLS) == "not_read_back"
    for content, unfit in (("Done.", None), ("<tool_call>{", UNRENDERED)):
        assert dialogue(trajectory(Message(role="assistant", content=content)), renderer).unfit == unfit
        assert dialogue(trajectory(Message(role="assistant", content=content))).unfit is None
