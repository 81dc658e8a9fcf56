"""The same dialogues in other formats: OpenAI rows as published, ATIF documents, ShoppingBench rollout lines."""

from __future__ import annotations

import json
from typing import Any

from tests.world_runtime import MODEL, SYSTEM_PROMPT, Case

DESCRIPTIONS: dict[str, tuple[str, dict[str, str], list[str]]] = {
    "find_product": (
        "Search the catalogue.",
        {
            "q": "string",
            "page": "integer",
            "shop_id": "string",
            "price": "string",
            "sort": "string",
            "service": "string",
        },
        ["q"],
    ),
    "view_product_information": ("Show details of products.", {"product_ids": "string"}, ["product_ids"]),
    "recommend_product": ("Recommend products.", {"product_ids": "string"}, ["product_ids"]),
    "terminate": ("End the dialogue.", {"status": "string"}, ["status"]),
}


def tool_definitions(flat: bool = False) -> list[dict[str, Any]]:
    """The four tools in OpenAI's nested shape, or in the flat shape of the published release."""
    tools = []
    for name, (text, fields, required) in DESCRIPTIONS.items():
        schema = {"type": "object", "properties": {k: {"type": v} for k, v in fields.items()}, "required": required}
        body: dict[str, Any] = {"name": name, "description": text, "parameters": schema}
        tools.append({"type": "function"} | (body if flat else {"function": body}))
    return tools


def openai_row(case: Case, flat: bool = False) -> dict[str, Any]:
    """A row of the published release: `messages` and `tools`, arguments as JSON text."""
    query = case.steps[0]["extra_info"]["query"]
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": query}]
    for step in case.steps:
        message = step["completion"]["message"]
        calls = message.get("tool_call", [])
        messages.append(
            {
                "role": "assistant",
                "content": message.get("response", ""),
                "reasoning_content": message.get("think", ""),
                "tool_calls": [_openai_call(call) for call in calls],
            }
        )
        messages += [
            {"role": "tool", "tool_call_id": call["tool_call_id"], "content": _text(call["result"])} for call in calls
        ]
    return {"messages": messages, "tools": tool_definitions(flat)}


def atif_document(case: Case, version: str = "ATIF-v1.8", copied: bool = False) -> dict[str, Any]:
    """An ATIF document; with `copied` its first agent step is marked as copied context, and its last as dispatched."""
    steps: list[dict[str, Any]] = [
        {"step_id": 1, "source": "system", "message": SYSTEM_PROMPT},
        {"step_id": 2, "source": "user", "message": case.steps[0]["extra_info"]["query"]},
    ]
    for step in case.steps:
        message, number = step["completion"]["message"], len(steps) + 1
        calls = message.get("tool_call", [])
        ids = [f"call_{number}_{place}" for place in range(len(calls))]
        results = [{"source_call_id": i, "content": _text(c["result"])} for i, c in zip(ids, calls, strict=True)]
        steps.append(
            {
                "step_id": number,
                "source": "agent",
                "model_name": MODEL,
                "message": message.get("response", ""),
                "reasoning_content": message.get("think", ""),
                "tool_calls": [
                    {"tool_call_id": i, "function_name": c["name"], "arguments": c["parameters"]}
                    for i, c in zip(ids, calls, strict=True)
                ],
                "observation": {"results": results},
            }
        )
    if copied:
        steps[2]["is_copied_context"] = True
        steps[-1]["llm_call_count"] = 0
        del steps[-1]["reasoning_content"]
    agent = {"name": "shopper", "version": "1.0", "model_name": MODEL, "tool_definitions": tool_definitions()}
    return {
        "schema_version": version,
        "session_id": f"session-{case.envelope['problem_id']}",
        "agent": agent,
        "steps": steps,
        "extra": {"problem_id": case.envelope["problem_id"]},
    }


def rollout_steps(case: Case) -> list[dict[str, Any]]:
    """A line of a ShoppingBench rollout file: prompts logged, results beside the calls, nothing of the sandbox's."""
    steps = []
    history = f"# Dialogue Records History\n<user>{case.steps[0]['extra_info']['query']}</user>"
    for step in case.steps:
        message, completion, extra = step["completion"]["message"], step["completion"], step["extra_info"]
        calls = message.get("tool_call", [])
        bare = [{key: call[key] for key in ("name", "parameters", "tool_call_id")} for call in calls]
        obs = [{"tool_call_id": call["tool_call_id"], "results": call["result"]} for call in calls]
        prompt = [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": history}]
        moved = message | {"tool_call": bare, "obs": obs}
        kept = {key: extra[key] for key in ("step", "query", "timestamp")}
        steps.append({"prompt": prompt, "completion": completion | {"message": moved}, "extra_info": kept})
        history += f"\n\n{completion['content']}\n\n<obs>{json.dumps(obs)}</obs>"
    return steps


def _openai_call(call: dict[str, Any]) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": json.dumps(call["parameters"])}
    return {"id": call["tool_call_id"], "type": "function", "function": function}


def _text(result: Any) -> str:
    return result if isinstance(result, str) else json.dumps(result)
