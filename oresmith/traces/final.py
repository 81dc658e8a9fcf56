"""The final recommendation of a trajectory: the only one that is scored."""

from __future__ import annotations

import msgspec

from oresmith.arena.scoring_steps import last_recommendation, recommended_ids
from oresmith.records import ToolCall, Trajectory


def final_ids(trajectory: Trajectory) -> list[str]:
    """The ids of the last recommendation, as the scorer reads them."""
    if trajectory.raw_dialogue is not None:
        return recommended_ids(last_recommendation(trajectory.raw_dialogue))
    for message in reversed(trajectory.messages):
        for call in reversed(message.tool_calls):
            if call.name == "recommend_product":
                return recommended_ids(_product_ids(call))
    return []


def _product_ids(call: ToolCall) -> object:
    try:
        arguments = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        return None
    return arguments.get("product_ids") if isinstance(arguments, dict) else None
