"""Rollouts written by hand: a catalogue of a few products, a problem of each category, and conversations about them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from oresmith.evaluation.scored import Scored, score_folder
from oresmith.records import Problem
from tests.evaluation.scripted import Scripted, expert, never, run, small_shop

SECRET = "sk-live-whatever-a-model-says"
"""Stands wherever a model can write; no output may repeat it."""


def product(number: int, shop: int, price: float, colour: str, *services: str) -> dict[str, Any]:
    return {
        "product_id": str(number),
        "shop_id": f"s{shop}",
        "title": f"{colour} kettle {number}",
        "price": price,
        "service": list(services),
        "sku_options": {"1": {"colour": colour}},
        "attributes": {"material": ["steel"]},
    }


CATALOGUE = [
    product(1, 1, 100.0, "red", "COD"),
    product(2, 1, 300.0, "red", "COD"),  # too dear
    product(3, 1, 100.0, "red"),  # without the service
    product(4, 1, 100.0, "blue", "COD"),  # of another colour
    product(5, 2, 100.0, "red", "COD"),  # meets everything, from another shop
    product(6, 1, 50.0, "green"),
    product(7, 1, 900.0, "green"),
    {"product_id": "8", "title": "red kettle without a price"},
    product(9, 3, 100.0, "black"),
]
RED = {
    "product_id": "1",
    "title": ["red kettle 1"],
    "price": [{"less than": [0, 200]}],
    "service": ["COD"],
    "sku_options": [{"colour": "red"}],
}
GREEN = {"product_id": "6", "title": ["green kettle 6"], "sku_options": [{"colour": "green"}]}
VOUCHER = {"voucher_type": "platform", "threshold": 1e6, "discount_type": "fixed", "face_value": 1, "budget": 200}
PROBLEMS = {
    one.problem_id: one
    for one in (
        Problem(problem_id="product", query="a red kettle", category="product", difficulty="L1", reward=RED),
        Problem(problem_id="shop", query="red and green", category="shop", difficulty="L2", reward=[RED, GREEN]),
        Problem(problem_id="voucher", query="both, 200", category="voucher", reward=[RED, GREEN], voucher=VOUCHER),
        Problem(
            problem_id="gold", query="the black one", category="product", reward={"product_id": "9", "title": ["black"]}
        ),
    )
}
Turn = tuple[str, dict[str, Any], str]
"""A call and its result."""


def find(*ids: int, q: str = "kettle") -> Turn:
    """A search that shows these products."""
    shown = [
        {"title": one["title"], "product_id": one["product_id"]} for one in CATALOGUE if int(one["product_id"]) in ids
    ]
    return "find_product", {"q": q}, "\n".join(map(json.dumps, shown)) or "No products found."


def view(*ids: int) -> Turn:
    """A view of these products."""
    shown = [{"attributes": {}, "product_id": str(one)} for one in ids]
    return "view_product_information", {"product_ids": ",".join(map(str, ids))}, "\n".join(map(json.dumps, shown))


def recommend(ids: object) -> Turn:
    return "recommend_product", {"product_ids": ids}, f"Having recommended the products to the user: {ids}."


DONE: Turn = ("terminate", {"status": "success"}, "The interaction has been completed with status: success")


def talk(problem: str, *turns: Turn | str, **columns: Any) -> dict[str, Any]:
    """An OpenAI row, one assistant message a turn; a turn that is a text is an answer without a call."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": PROBLEMS[problem].query}]
    for number, turn in enumerate(turns):
        if isinstance(turn, str):
            messages.append({"role": "assistant", "content": turn})
            continue
        name, arguments, result = turn
        call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        messages.append({"role": "assistant", "content": "", "reasoning_content": SECRET, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "name": name, "content": result})
    return {"problem_id": problem, "query": PROBLEMS[problem].query, "messages": messages} | columns


def store(
    folder: Path, rows: Sequence[dict[str, Any]], problems: Sequence[str] | None = None
) -> tuple[Path, Path, Path]:
    """Rollouts, problems and catalogue as files of a stranger."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "rollouts.jsonl", folder / "problems.jsonl", folder / "catalogue.jsonl"
    chosen = [PROBLEMS[name] for name in problems or sorted({row["problem_id"] for row in rows})]
    for path, values in zip(paths, (rows, chosen, CATALOGUE), strict=True):
        path.write_bytes(b"".join(msgspec.json.encode(value) + b"\n" for value in values))
    return paths


def scored(folder: Path, rows: Sequence[dict[str, Any]], problems: Sequence[str] | None = None) -> Scored:
    """Hand-written rollouts, scored."""
    return score_folder(*store(folder, rows, problems))


def lines_of(path: Path) -> list[bytes]:
    """The lines of a packed file."""
    with path.open("rb") as raw:
        return zstandard.ZstdDecompressor().stream_reader(raw).read().splitlines()


def shop_files(folder: Path) -> tuple[Path, Path]:
    """Problems and catalogue of the scripted shop as files."""
    searcher, problems = small_shop()
    paths = folder / "problems.jsonl", folder / "catalogue.jsonl"
    for path, values in zip(paths, (problems, searcher.documents()), strict=True):
        path.write_bytes(b"".join(msgspec.json.encode(value) + b"\n" for value in values))
    return paths


def play(folder: Path, errs: int | None = 0, **settings: Any) -> Path:
    """Rollouts of our own harness; `errs` as of the expert, None for one who never succeeds."""
    searcher, problems = small_shop()
    policy = never if errs is None else expert(problems, searcher, errs=errs)
    return run(Scripted(policy, context=100_000), folder, **settings).target


RIGHT = talk("product", find(1), recommend("1"), DONE, finish="terminated")
WRONG = talk("product", find(1, 2), recommend("2"), DONE, finish="terminated")
