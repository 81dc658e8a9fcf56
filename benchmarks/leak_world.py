"""Synthetic problems with known families, for the benchmarks of `oresmith.leakage`; imports nothing from it.

A family is one problem and its planted variants. Families differ in the product type; they share templates, colours,
sizes, services, prices and vouchers, and their product types share words ("mavo tirel" and "mavo dunik", "mavo").
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from oresmith.records import Problem

KINDS = ("case", "order", "whitespace", "voucher", "gold", "spec", "chain")
SYLLABLES = [first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou"]
COLOURS = "black white red blue green yellow pink grey brown beige silver gold navy purple".split()
MATERIALS = "cotton leather plastic steel wood glass rubber ceramic nylon silicone".split()
SIZES = "small medium large 40 41 42 128gb 500ml 1m 2m".split()
SERVICES = {"freeShipping": "free shipping", "COD": "cash on delivery", "official": "LazMall perks"}
TEMPLATES = (
    "Looking for a {colour} {kind} made of {material} in size {size} that comes with {service}, priced over {low} PHP.",
    "Show me {colour} {kind} products made of {material} that support {service} and cost more than {low} pesos.",
    "I'm looking for a {kind}, {colour} colour, size {size}, {material}, with {service}. Please show me the options.",
    "Find a {kind} that costs over {low} pesos.",
    "I need a {material} {kind} suitable for everyday use at home or at work, in {colour}, size {size}, with "
    "{service}, guaranteed authenticity, easy returns and fast delivery, priced from {low} to {high} PHP.",
)


class Planted(NamedTuple):
    """A problem, the family that it belongs to, and how it was derived ("" for the family's first)."""

    family: int
    kind: str
    problem: Problem


def _word(number: int) -> str:
    count, text = len(SYLLABLES), ""
    for _ in range(3):
        number, place = divmod(number, count)
        text += SYLLABLES[place]
    return text


def _product(family: int) -> str:
    """A product type of one to three words, another one for each family."""
    first, second = _word(family * 31 % 2003), f"{_word(family // 2003)}n"
    return first if family < 2003 else f"{first} {second} set" if family % 3 else f"{first} {second}"


def _voucher(rng: random.Random) -> tuple[str, dict[str, Any]]:
    budget, threshold, cut = rng.choice((300, 425, 1200)), rng.choice((150, 170, 240)), rng.choice((20, 34, 50))
    text = (
        f"\n\nMy budget is only `{budget}`, but I have a voucher with the following rules:\n"
        f"1. The voucher applies to all products.\n"
        f"2. It is valid only when the total price of the products exceeds `{threshold}`.\n"
        f"3. It provides a fixed discount of `{cut}`."
    )
    voucher = {"voucher_type": "platform", "threshold": threshold, "discount_type": "fixed", "face_value": cut}
    return text, voucher | {"discount": None, "cap": None, "price_after_voucher": 1.0, "budget": budget}


def base_problem(family: int, seed: int) -> Problem:
    """The first problem of a family."""
    rng = random.Random(f"{seed}/{family}")
    kind, low = _product(family), rng.randrange(5, 300)
    parts = {"colour": rng.choice(COLOURS), "material": rng.choice(MATERIALS), "size": rng.choice(SIZES)}
    code, service = rng.choice(list(SERVICES.items()))
    query = rng.choice(TEMPLATES).format(kind=kind, low=low, high=low + 200, service=service, **parts)
    reward: dict[str, Any] = {
        "product_id": f"g{family}",
        "title": [
            f"{rng.choice(('Arvo', 'Belti', 'Corda'))} {kind} {parts['colour']} {parts['material']} high quality"
        ],
        "attributes": [{"model": [f"m{family}"]}, {"material": [parts["material"]]}],
        "price": [{"greater than": [low, None]}],
    }
    if family % 3:
        return Problem(query=query, category="product", reward=reward)
    text, voucher = _voucher(rng)
    return Problem(query=query + text, category="voucher", reward=[reward | {"service": [code]}], voucher=voucher)


def _other_words(problem: Problem, family: int, rng: random.Random) -> str:
    return f"Item {rng.randrange(10**9)} wanted for the {_word(rng.randrange(10**5))} corner of family {family}."


def variant(problem: Problem, family: int, kind: str, rng: random.Random) -> Problem:
    """A variant that only the key of its kind can recognise: unless it is that key, its gold id is a new one."""
    base, _, tail = (problem.query or "").partition("\n\nMy budget")
    tail = tail and f"\n\nMy budget{tail}"
    first = problem.reward[0] if isinstance(problem.reward, list) else problem.reward
    fresh = {"product_id": f"v{rng.randrange(10**12)}", "title": ["Another title altogether"]}
    if kind == "gold":
        return Problem(query=_other_words(problem, family, rng), category="shop", reward=[{"product_id": f"g{family}"}])
    if kind == "spec":
        stated = dict(reversed(first.items())) | fresh | {"attributes": first["attributes"][::-1]}
        return Problem(query=_other_words(problem, family, rng), category="product", reward=stated)
    words = base.split(" ")
    rng.shuffle(words)
    text, voucher = _voucher(rng)
    queries = {
        "case": base.upper() + tail,
        "order": " ".join(words) + tail,
        "whitespace": base.replace(" ", " \n ") + tail,
        "voucher": base + text,
    }
    used = voucher if kind == "voucher" else problem.voucher
    return Problem(query=queries[kind], category="product", reward=fresh, voucher=used)


def world(count: int, seed: int = 1, variants: float = 0.2) -> Iterator[Planted]:
    """`count` problems or one more, a share of about `variants` planted; a chain is two variants, one of the other."""
    rng, made, family = random.Random(seed), 0, 0
    while made < count:
        problem = base_problem(family, seed)
        yield Planted(family, "", problem)
        made += 1
        if rng.random() < variants * 1.2:
            kind = KINDS[family % len(KINDS)]
            for step in (kind,) if kind != "chain" else ("voucher", "order"):
                problem = variant(problem, family, step, rng)
                yield Planted(family, kind, problem)
                made += 1
        family += 1
