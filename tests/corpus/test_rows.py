"""Rows of one trajectory: which views it may stand in, and the seam for re-checking them by rendering."""

from __future__ import annotations

import json

import pytest

from oresmith.corpus.rows import dialogue, row_bytes, trajectory_row, view_rows
from oresmith.records import Format, Message, Problem, Source, Step, ToolCall, Trajectory
from schemas.corpus import KTO, SFT, TRAJECTORIES

USER, AGENT = Message(role="user", content="a red mug"), Message(role="assistant", content="Here.")
SILENT = Message(
    role="assistant", tool_calls=[ToolCall(id="call_0", name="terminate", arguments='{"status":"success"}')]
)
FACTS = {
    "problem_query": "the query as the problem file has it",
    "flagged": False,
    "benchmarks": None,
    "place": "train",
}


def trajectory(*messages, steps=(), query="a red mug"):
    source = Source(snapshot="s", file="f", file_sha256="", line=1, offset=0, length=0)
    return Trajectory(
        trajectory_id="t" * 64,
        identity="",
        content="",
        source=source,
        format=Format.OPENAI,
        problem=Problem(query=query),
        messages=list(messages),
        steps=list(steps),
    )


def views(record, place="train", renderer=None):
    rows = view_rows(record.trajectory_id, dialogue(record, renderer), FACTS | {"place": place})
    return {(config, split): row for config, split, row in rows}


@pytest.mark.parametrize(
    ("messages", "steps", "unfit"),
    [
        ([USER, AGENT], [], None),
        ([Message(role="system", content="s"), USER, SILENT], [], None),
        ([AGENT, USER], [], "no_query"),
        ([USER], [], "no_answer"),
        ([], [], "no_answer"),
        ([USER, AGENT], [Step(message=1, copied_context=True)], "untrainable_steps"),
        ([USER, AGENT], [Step(message=1, llm_calls=0)], "untrainable_steps"),
        ([USER, AGENT], [Step(message=1, llm_calls=2)], None),
    ],
)
def test_a_dialogue_that_cannot_be_trained_on_is_in_no_view(messages, steps, unfit):
    record = trajectory(*messages, steps=steps)
    assert dialogue(record).unfit == unfit
    assert bool(views(record)) == (unfit is None)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("train", [("sft", "train"), ("kto", "train")]),
        ("dev", [("sft", "validation"), ("kto", "validation")]),
        ("kto", [("kto", "train")]),
        ("subtask", []),
    ],
)
def test_views_follow_the_place_of_the_row(place, expected):
    found = views(trajectory(USER, AGENT), place)
    assert list(found) == expected
    assert all(row["label"] == (place != "kto") for (config, _), row in found.items() if config == "kto")


def test_views_fill_a_null_content_and_the_record_keeps_it():
    record = trajectory(USER, SILENT)
    row = trajectory_row(record, dialogue(record), FACTS)
    assert json.loads(row["messages"][1])["content"] is None
    found = views(record)
    assert json.loads(found["sft", "train"]["messages"][1])["content"] == ""
    assert json.loads(found["kto", "train"]["completion"][0])["content"] == ""
    assert row.keys() == TRAJECTORIES.keys()
    assert found["sft", "train"].keys() == SFT.keys()
    assert found["kto", "train"].keys() == KTO.keys()


def test_the_query_of_the_trace_stands_before_that_of_the_problem_file():
    record = trajectory(USER, AGENT)
    assert trajectory_row(record, dialogue(record), FACTS)["query"] == "a red mug"
    record = trajectory(USER, AGENT, query=None)
    assert trajectory_row(record, dialogue(record), FACTS)["query"] == FACTS["problem_query"]


class Template:
    """A renderer that cannot take a dialogue without a system message, and looks at what it is given."""

    def __init__(self):
        self.seen = []

    def fault(self, messages, tools):
        self.seen.append((messages, tools))
        return None if messages[0]["role"] == "system" else "no system message"


def test_a_renderer_decides_over_views_once_there_is_one():
    template = Template()
    assert dialogue(trajectory(USER, SILENT), template).unfit == "unrendered"
    assert dialogue(trajectory(Message(role="system", content="s"), USER, AGENT), template).unfit is None
    messages, tools = template.seen[0]
    assert messages[1]["content"] == ""
    assert len(tools) == 4


def test_bytes_of_a_row_are_those_of_its_texts_in_utf8():
    plain = {"a": "x" * 10, "b": None, "c": 3, "d": [b"yy", "zz"]}
    assert row_bytes(plain) == (10 + 4) + 8 + 8 + (2 * (2 + 4) + 4)
    assert row_bytes({"a": "é" * 10}) == 20 + 4
