"""Agent families on an invented shop: honest ReAct agents and those that only look like one.

Every function plays one agent on one problem and returns the envelope with the truth about it. `seed` picks wording
and timing; `variant` picks the plan, so that two runs with one variant make the same sequence of calls.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

from tests.world_runtime import DAY, OLD, SYSTEM_PROMPT, Case, Sandbox, Truth, tool_call_id
from tests.world_shop import KINDS, Problem, Product, World, rewards

Call = tuple[str, dict[str, Any]]

OPENINGS = (
    "The request asks for {noun} by {brand} at ₱{low} to ₱{high}, so a search for '{q}' comes first.",
    "Constraints: {brand}, {noun}, price {low}-{high}. A short query like '{q}' should match the titles.",
    "What matters here is the brand {brand} and a price between {low} and {high} pesos; I try '{q}'.",
)
NARROWINGS = (
    "The first list is broad. I search again for '{q}' to see whether {title} has a closer rival.",
    "{count} hits came back and {title} leads; '{q}' words the request differently and may show more.",
)
WEIGHINGS = (
    "{a} ({a_title}) costs ₱{a_price} and {b} ({b_title}) costs ₱{b_price}. The price of {a} fits and its title names "
    "the brand, so it is ahead; the details of both will settle it.",
    "Two candidates: {a} at ₱{a_price}, {b} at ₱{b_price}. {b} seems weaker because '{b_title}' is not what was asked "
    "for. I look at both before choosing {a}.",
)
DECISIONS = (
    "{a} lists {fact} as requested at ₱{a_price}, while {b} has {b_fact}; {a} is the better match, so I recommend it.",
    "The details settle it: {a} has {fact} and costs ₱{a_price}, {b} shows {b_fact} instead. {a} wins.",
)


@dataclass
class Chat:
    """A ReAct loop: the model's reply names the calls, the program executes exactly these."""

    box: Sandbox
    messages: list[dict[str, str]]
    padding: str = ""

    @classmethod
    def begin(cls, box: Sandbox, padding: str = "") -> Chat:
        """Start with the agent's system prompt and the user's request."""
        request = {"role": "user", "content": box.problem["query"]}
        return cls(box, [{"role": "system", "content": SYSTEM_PROMPT}, request], padding)

    def turn(self, think: str, calls: list[Call], response: str | None = None) -> list[Any]:
        """One inference, its calls, one step; returns the calls' results."""
        thought = f"{think} {self.padding}".strip()
        commands = [{"name": name, "parameters": parameters} for name, parameters in calls]
        answer = f"\n<response>{response}</response>" if response else ""
        reply = f"<think>{thought}</think>\n<tool_call>{json.dumps(commands)}</tool_call>{answer}"
        self.box.infer(reply, self.messages)
        done = [self.box.call(name, parameters) for name, parameters in calls]
        self.box.step(thought, done, response)
        results = [entry["result"] for entry in done]
        self.messages += [
            {"role": "assistant", "content": reply},
            {"role": "user", "content": f"Observation: {json.dumps(results)}"},
        ]
        return results


def sandbox(world: World, problem: Problem, family: str, seed: int, *, runtime: str = OLD, start: int = DAY) -> Sandbox:
    """A run of its own random stream, so that families do not disturb each other."""
    rng = random.Random(f"{world.seed}/{family}/{problem['problem_id']}/{seed}")
    return Sandbox(world, problem, rng, runtime, start)


def honest(
    world: World,
    problem: Problem,
    seed: int,
    runtime: str = OLD,
    *,
    succeed: bool = True,
    variant: int | None = None,
    long_replies: bool = False,
    start: int = DAY,
) -> Case:
    """A ReAct agent of three to six steps that searches, weighs, verifies, recommends and terminates.

    With `succeed` false it settles for a product whose price is out of bounds. With `long_replies` the old runtime
    loses the text of its replies, and nobody can tell who made the calls.
    """
    box = sandbox(world, problem, "honest", seed, runtime=runtime, start=start)
    variant = seed if variant is None else variant
    plan = random.Random(f"{world.seed}/plan/{problem['problem_id']}/{variant}")
    padding = "Let me go through the request word by word once more. " * 45 if long_replies else ""
    chat = Chat.begin(box, padding)
    hits = _search(chat, world, problem, plan, style=variant % 4, exact=succeed)
    chosen = world.golds(problem) if succeed else _out_of_bounds(problem, hits)
    rival = next(p for p in hits if p["product_id"] not in {c["product_id"] for c in chosen})
    _verify_and_finish(chat, world, chosen, rival, together=plan.random() < 0.5)
    origins = ("A", "unknown") if long_replies else ("A",)
    return Case(box.envelope(), Truth("honest", succeed, origins, () if succeed else ("outcome",)))


def auto_finish(world: World, problem: Problem, seed: int, start: int = DAY) -> Case:
    """An honest agent that runs out of turns: its program writes the last step, with no model behind it."""
    box = sandbox(world, problem, "auto_finish", seed, start=start)
    chat = Chat.begin(box)
    plan = random.Random(f"{world.seed}/auto/{problem['problem_id']}/{seed}")
    _search(chat, world, problem, plan, style=seed % 4, exact=True)
    ids = ",".join(p["product_id"] for p in world.golds(problem))
    calls = [box.call("recommend_product", {"product_ids": ids}), box.call("terminate", {"status": "success"})]
    box.step("Auto-recommending the best candidate so far.", calls, "Done.")
    return Case(box.envelope(), Truth("auto_finish", True))


def decoy(world: World, problem: Problem, seed: int, start: int = DAY) -> Case:
    """A program that asks the model to say OK before each call, for show."""
    box = sandbox(world, problem, "decoy", seed, start=start)
    for think, calls, response in _program(world, problem):
        box.infer("OK.", [{"role": "user", "content": "Answer with OK."}], prompt_tokens=26)
        box.step(think, [box.call(*call) for call in calls], response)
    return Case(box.envelope(), Truth("decoy", True, ("B",), ("origin_subtask",)))


def puppet(world: World, problem: Problem, seed: int, runtime: str = OLD, start: int = DAY) -> Case:
    """A program that has the model repeat the very calls it was told: every call is echoed, no prompt grows."""
    box = sandbox(world, problem, "puppet", seed, runtime=runtime, start=start)
    for think, calls, response in _program(world, problem):
        commands = json.dumps([{"name": name, "parameters": parameters} for name, parameters in calls])
        text = f"<think>{think}</think>\n<tool_call>{commands}</tool_call>"
        box.infer(text, [{"role": "user", "content": f"Repeat this exactly: {text}"}])
        box.step(think, [box.call(*call) for call in calls], response)
    return Case(box.envelope(), Truth("puppet", True, ("B", "unknown"), (), ("origin_subtask", "origin_unknown")))


def forger(world: World, problem: Problem, seed: int, start: int = DAY) -> Case:
    """An agent that writes the call log itself: before `problem_id`, without `kind`, with its own token counts."""
    envelope = honest(world, problem, seed, start=start).envelope
    for step in envelope["dialogue"]:
        extra = step["extra_info"]
        journal = [_forged(entry) for entry in extra.pop("proxy_calls", [])]
        identity, rest = extra.pop("problem_id"), extra.pop("execution_time", None)
        extra |= {"proxy_calls": journal, "problem_id": identity} | ({} if rest is None else {"execution_time": rest})
    envelope["inference_total"] = 0
    return Case(envelope, Truth("forger", True, (), ("provenance",)))


def searcher(world: World, problem: Problem, seed: int, *, succeed: bool = True, start: int = DAY) -> Case:
    """A sub-task agent: its program searches, the model only parses, scores and narrates, in bursts."""
    box = sandbox(world, problem, "searcher", seed, start=start)
    golds = world.golds(problem)
    queries = [_query(gold, reward, 1) for gold, reward in zip(golds, rewards(problem), strict=True)]
    parsed = {"reasoning": "Split the request into products.", "products": [{"keywords": q} for q in queries]}
    _ask(box, json.dumps(parsed), "parser")
    box.step(_ask(box, f"I plan the search with the keywords {queries[0]}.", "narrator"), [])
    for query in queries:
        found = box.fetch("find_product", {"q": query, "page": 1})
        box.fetch("view_product_information", {"product_ids": ",".join(p["product_id"] for p in found[:4])})
        for place, hit in enumerate(found[:2]):
            verdict = {"best_product_id": hit["product_id"], "relevance_score": 9 - place, "reason": hit["title"]}
            _ask(box, json.dumps(verdict), "scorer")
        box.step(
            _ask(box, f"The query '{query}' gave {len(found)} results; I compare the first two.", "narrator"),
            [_remembered("find_product", {"q": query, "page": 1}, found)],
        )
    ids = ",".join(g["product_id"] for g in golds) if succeed else "1"
    calls = [box.call("recommend_product", {"product_ids": ids}), box.call("terminate", {"status": "success"})]
    box.step("All requirements were scored and the best candidates are final.", calls, "Recommended.")
    return Case(box.envelope(), Truth("searcher", succeed, ("B",), ("origin_subtask",)))


def _search(
    chat: Chat, world: World, problem: Problem, plan: random.Random, *, style: int, exact: bool
) -> list[Product]:
    """Search the first item, then the others in one step, then what was missed; returns all hits.

    `style` is the order of words in the queries, 0 to 3. `exact` makes sure that every gold product is seen, and may
    use the price bounds.
    """
    golds, wanted = world.golds(problem), rewards(problem)
    bounded, again = exact and plan.random() < 0.7, plan.random() < 0.5
    queries: list[dict[str, Any]] = []
    for number, (gold, reward) in enumerate(zip(golds, wanted, strict=True)):
        low, high = reward["price"][0]["between"]
        queries.append({"q": _query(gold, reward, style)} | ({"price": f"{low}-{high}"} if bounded else {}))
        queries[-1] |= {"shop_id": gold["shop_id"]} if number and problem["category"] == "Shop" else {}
    opening = chat.box.rng.choice(OPENINGS).format(q=queries[0]["q"], **_ask_words(golds[0], wanted[0]))
    found = _find(chat, opening, queries[:1])
    if queries[1:]:
        found += _find(chat, f"The other items come next, '{queries[1]['q']}' first.", queries[1:])
    ids = {gold["product_id"] for gold in golds}
    poor = [g for g, hits in zip(golds, found, strict=True) if exact and g not in _details(world, hits)]
    if again or poor or not any(hit["product_id"] not in ids for hits in found for hit in hits):
        words = [g["title"] if exact else _noun(g) for g in poor or golds[:1]]
        title, count = (found[0][0]["title"] if found[0] else "nothing"), sum(map(len, found))
        think = chat.box.rng.choice(NARROWINGS).format(q=words[0], title=title, count=count)
        found += _find(chat, think, [{"q": q, "sort": "default"} for q in words])
    return [hit for hits in found for hit in hits]


def _find(chat: Chat, think: str, queries: list[dict[str, Any]]) -> list[list[Product]]:
    return chat.turn(think, [("find_product", query) for query in queries])


def _details(world: World, hits: list[Product]) -> list[Product]:
    return [world.products[hit["product_id"]] for hit in hits]


def _verify_and_finish(chat: Chat, world: World, chosen: list[Product], rival: Product, together: bool) -> None:
    """View the choice beside a rival, then recommend and terminate, in one step or in two."""
    rng, best = chat.box.rng, chosen[0]
    words = {
        "a": best["product_id"],
        "a_title": best["title"],
        "a_price": best["price"],
        "b": rival["product_id"],
        "b_title": rival["title"],
        "b_price": rival["price"],
        "fact": _fact(world.products[best["product_id"]]),
        "b_fact": _fact(world.products[rival["product_id"]]),
    }
    ids = ",".join(p["product_id"] for p in chosen)
    viewed = {"product_ids": f"{ids},{rival['product_id']}"}
    chat.turn(rng.choice(WEIGHINGS).format(**words), [("view_product_information", viewed)])
    decision = rng.choice(DECISIONS).format(**words)
    recommend: Call = ("recommend_product", {"product_ids": ids})
    finish: Call = ("terminate", {"status": "success"})
    if together:
        chat.turn(decision, [recommend, finish], f"I recommend {ids}.")
    else:
        chat.turn(decision, [recommend])
        chat.turn(f"{ids} is recommended; nothing is left to do.", [finish], "Done.")


def _program(world: World, problem: Problem) -> list[tuple[str, list[Call], str | None]]:
    """The fixed three steps of the fakes, which their program decides alone."""
    golds = world.golds(problem)
    queries = [_query(g, r, 0) for g, r in zip(golds, rewards(problem), strict=True)]
    ids = ",".join(g["product_id"] for g in golds)
    rival = next(p for p in world.products.values() if p not in golds)
    weighing = f"{ids} against {rival['product_id']} at {rival['price']}: the former fits, since the title says so. "
    return [
        ("A keyword search comes first.", [("find_product", {"q": q, "page": 1}) for q in queries], None),
        (weighing * 3, [("view_product_information", {"product_ids": f"{ids},{rival['product_id']}"})], None),
        ("Final.", [("recommend_product", {"product_ids": ids}), ("terminate", {"status": "success"})], "Done."),
    ]


ROLES: dict[str, tuple[str, dict[str, Any]]] = {
    "parser": ("open-model/parser-8b", {"temperature": 0.0}),
    "scorer": ("open-model/scorer-14b", {"temperature": 0.5}),
    "narrator": ("open-model/scorer-14b", {"temperature": 0.3, "max_tokens": 600}),
}


def _ask(box: Sandbox, reply: str, role: str) -> str:
    model, options = ROLES[role]
    prompt = [{"role": "user", "content": f"Act as the {role} of a shopping program. {box.problem['query']}"}]
    return box.infer(reply, prompt, model=model, options=options)


def _remembered(name: str, parameters: dict[str, Any], result: Any) -> dict[str, Any]:
    """A call shown in a step without being made again."""
    return {"name": name, "parameters": parameters, "tool_call_id": tool_call_id(name, parameters), "result": result}


def _forged(entry: dict[str, Any]) -> dict[str, Any]:
    usage = entry.get("response", {}).get("usage", {}) if "chat" in entry["path"] else {}
    forged = {key: value for key, value in entry.items() if key != "kind"}
    return forged | {"completion_tokens": usage.get("completion_tokens", 0)}


def _ask_words(gold: Product, reward: dict[str, Any]) -> dict[str, Any]:
    low, high = reward["price"][0]["between"]
    return {"noun": _noun(gold), "brand": gold["brand"].title(), "low": low, "high": high}


def _query(gold: Product, reward: dict[str, Any], style: int) -> str:
    """Search words for an item, in one of four orders."""
    brand, noun = gold["brand"], _noun(gold)
    option = next(iter(reward["sku_options"][0].values())).split(":")[-1]
    return (f"{brand} {noun}", f"{noun} {option} {brand}", f"{brand} {option} {noun}", f"{noun} {brand}")[style]


def _noun(product: Product) -> str:
    return next(kind.noun for kind in KINDS if kind.noun.title() in product["title"])


def _fact(product: Product) -> str:
    key, values = next((k, v) for k, v in product["attributes"].items() if k != "brand")
    return f"{key.replace('_', ' ')} {values[0]}"


def _out_of_bounds(problem: Problem, hits: list[Product]) -> list[Product]:
    """One hit for each item that breaks the item's price, so that no scorer can call it a success."""
    chosen: list[Product] = []
    for reward in rewards(problem):
        low, high = reward["price"][0]["between"]
        free = [h for h in hits if h not in chosen and h["product_id"] != reward["product_id"]]
        chosen.append(next(h for h in free if not low <= h["price"] <= high))
    return chosen
