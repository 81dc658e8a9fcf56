"""System prompts of the agents. Each names the four tools and says how calls are written."""

from __future__ import annotations

_TOOLS = (
    """- find_product(q, page, shop_id, price, sort, service): search the catalogue, ten products a page.
- view_product_information(product_ids): descriptions, options and attributes of products, ids separated by commas.
- recommend_product(product_ids): your final answer, ids separated by commas, in the order of the request.
- terminate(status): end the dialogue with success or failure.""",
    """1. find_product: parameters q (search words), page (1 to 5), shop_id, price ("low-high"), sort (priceasc,
   pricedesc, order, default), service (official, freeShipping, COD, flashsale, separated by commas).
2. view_product_information: parameter product_ids, a comma-separated text.
3. recommend_product: parameter product_ids, a comma-separated text. Call it once.
4. terminate: parameter status, success or failure.""",
    """[{"name": "find_product", "parameters": ["q", "page", "shop_id", "price", "sort", "service"]},
 {"name": "view_product_information", "parameters": ["product_ids"]},
 {"name": "recommend_product", "parameters": ["product_ids"]},
 {"name": "terminate", "parameters": ["status"]}]""",
)
_TASKS = (
    "You are a shopping agent. Find what the user asks for and recommend it.",
    "You help customers of an online shop. Work towards the product, or the products, that meet every condition of "
    "the request, then recommend them and end.",
    "Act as a careful buyer. Search the catalogue, compare at least two candidates, verify the details of the best "
    "one, and only then recommend.",
    "You are connected to a shop's search engine. Queries are matched by keywords, so keep them short. Use filters for "
    "prices and services.",
    "Your job is personal shopping. Never make up a product id: use ids that the tools have shown.",
    "You assist with purchases in the Philippines. Prices are in PHP. For requests of several products keep the order.",
)
_FORMS = (
    "Think between <think> and </think>, then call tools between <tool_call> and </tool_call> as a JSON list of "
    "objects with the keys name and parameters.",
    'Answer in this form: <think>your reasoning</think> followed by <tool_call>[{"name": tool, "parameters": {..}}]'
    "</tool_call>, and <response>..</response> when you tell the user something.",
    "Every turn has a <think> block and a <tool_call> block. The latter is a JSON list of calls.",
)


def system_prompt(task: int, tools: int, form: int, native: bool = False) -> str:
    """One of the prompts.

    Args:
        task, tools, form: which wording; taken modulo their number.
        native: the tools are declared in the request, so the prompt does not say how to write calls.
    """
    listed = f"The tools:\n{_TOOLS[tools % len(_TOOLS)]}"
    parts = [_TASKS[task % len(_TASKS)], listed] if native else [_TASKS[task % len(_TASKS)], _FORMS[form % 3], listed]
    return "\n\n".join(parts)
