"""What scoring takes as shown is what the view shows, in every view."""

from __future__ import annotations

import json

import pytest

from oresmith.arena.toolschema import tools
from oresmith.arena.views import VIEWS, render, visible_ids
from oresmith.evaluation.played import played, shown_to
from oresmith.records import Format, Message, Source, ToolCall, Trajectory

HITS = [
    {"product_id": str(10_000 + place), "shop_id": "77", "title": f"Mouse, 2024, no. {place}", "price": 9.0}
    for place in range(7)
]
PAGES = [
    {"product_id": "20001", "attributes": {"size": ["10,5"]}, "sku_options": {"1": {"colour": "red, 30001"}}},
    {"product_id": "20002", "attributes": {}, "sku_options": {"1": {"size": "m"}}},
    {"product_id": "20003"},
]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("name", "found"), [("find_product", HITS), ("view_product_information", PAGES)])
def test_the_ids_that_a_view_shows_are_read_from_its_text(view: str, name: str, found: list[object]):
    assert name in {tool["function"]["name"] for tool in tools()}
    call = ToolCall(id="call_0", name=name, arguments=json.dumps({"q": "mouse"}))
    messages = [
        Message(role="user", content="A mouse."),
        Message(role="assistant", tool_calls=[call]),
        Message(role="tool", content=render(view, name, found), tool_call_id="call_0", name=name),
    ]
    source = Source(snapshot="", file="f", file_sha256="", line=1, offset=0, length=0)
    trajectory = Trajectory(
        trajectory_id="", identity="", content="", source=source, format=Format.OPENAI, messages=messages
    )
    seen = shown_to(played(trajectory))
    assert seen == visible_ids(view, name, found)
    assert seen
