"""A small invented shop: products, problems that those products satisfy, and the search the sandbox offers.

Everything is made from a seed with `random.Random`, whose streams are the same on every platform, so that a world is
the same bytes wherever it is made. Names, brands and texts are invented here.
"""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field
from typing import Any

Product = dict[str, Any]
Problem = dict[str, Any]

BRANDS = ("Norvale", "Tesanto", "Kestrel", "Ombra", "Larkfield", "Quillon", "Brisa", "Hemlock", "Zandoli", "Pavera")
STYLES = ("Compact", "Classic", "Everyday", "Slim", "Heavy Duty", "Foldable", "Travel", "Studio")
SERVICES = ("official", "freeShipping", "COD", "flashsale")
SERVICE_WORDS = {
    "official": "from the official store",
    "freeShipping": "with free shipping",
    "COD": "payable in cash on delivery",
    "flashsale": "on flash sale",
}
MAX_PAGES = 5
PAGE_SIZE = 10


@dataclass(frozen=True)
class Kind:
    """One kind of product: its category, what varies per SKU, what is a fixed attribute, and its prices in pesos."""

    noun: str
    category: str
    sku: dict[str, tuple[str, ...]]
    attributes: dict[str, tuple[str, ...]]
    price: tuple[int, int]


KINDS = (
    Kind(
        "electric kettle",
        "Home > Kitchen > Kettles",
        {"color": ("white", "black", "mint")},
        {"material": ("steel", "glass"), "capacity": ("1l", "1.7l")},
        (450, 2400),
    ),
    Kind(
        "trail backpack",
        "Sports > Outdoor > Bags",
        {"color": ("olive", "navy", "grey")},
        {"volume": ("20l", "35l"), "waterproof": ("yes", "no")},
        (600, 3200),
    ),
    Kind(
        "desk lamp",
        "Home > Lighting",
        {"color": ("white", "brass")},
        {"power_source": ("usb", "battery"), "light_tone": ("warm", "cool")},
        (180, 900),
    ),
    Kind(
        "running shoes",
        "Sports > Shoes",
        {"size": ("eu:38", "eu:40", "eu:42"), "color": ("black", "coral")},
        {"closure": ("lace-up", "slip-on")},
        (800, 4200),
    ),
    Kind(
        "ceramic mug",
        "Home > Kitchen > Cups",
        {"pattern": ("striped", "plain", "speckled")},
        {"capacity": ("300ml", "450ml"), "microwave_safe": ("yes", "no")},
        (60, 380),
    ),
    Kind(
        "garden hose",
        "Garden > Watering",
        {"length": ("10m", "20m")},
        {"material": ("rubber", "fabric"), "nozzle": ("included", "none")},
        (250, 1500),
    ),
    Kind(
        "sketch notebook",
        "Stationery > Paper",
        {"size": ("a4", "a5")},
        {"paper": ("dotted", "blank"), "binding": ("spiral", "sewn")},
        (45, 320),
    ),
    Kind(
        "yoga mat",
        "Sports > Fitness",
        {"color": ("teal", "plum", "grey")},
        {"thickness": ("4mm", "8mm"), "material": ("cork", "foam")},
        (300, 1800),
    ),
)


@dataclass
class World:
    """Products by id, problems by id, and who sells what."""

    seed: int
    products: dict[str, Product] = field(default_factory=dict)
    problems: dict[str, Problem] = field(default_factory=dict)

    def of(self, category: str) -> list[Problem]:
        """The problems of a category (lower case), in the order in which they were made."""
        return [problem for problem in self.problems.values() if problem["category"].lower() == category]

    def golds(self, problem: Problem) -> list[Product]:
        """The gold products of a problem, in the order of its rewards."""
        return [self.products[reward["product_id"]] for reward in rewards(problem)]

    def find(self, parameters: dict[str, Any]) -> list[Product]:
        """What `find_product` answers: up to ten hits a page, filters before paging, a fixed order of ties."""
        words = set(_words(str(parameters.get("q", ""))))
        hits = [(len(words & set(_words(_text(p)))), p) for p in self.products.values() if _admits(p, parameters)]
        ranked = sorted((h for h in hits if h[0]), key=lambda h: (-h[0], h[1]["product_id"]))
        page = int(parameters.get("page", 1))
        if not 1 <= page <= MAX_PAGES:
            return []
        chosen = [product for _, product in ranked[:50]]
        if parameters.get("sort") in ("priceasc", "pricedesc"):
            chosen.sort(key=lambda p: p["price"], reverse=parameters["sort"] == "pricedesc")
        keys = ("product_id", "shop_id", "title", "price", "service", "sold_count")
        return [{k: p[k] for k in keys} for p in chosen[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]]

    def view(self, ids: list[str]) -> list[Product]:
        """What `view_product_information` answers; unknown ids are left out."""
        keys = ("product_id", "short_description", "description", "sku_options", "attributes")
        return [{k: self.products[i][k] for k in keys} for i in ids if i in self.products]


def rewards(problem: Problem) -> list[dict[str, Any]]:
    """The rewards of a problem as a list, whatever its category."""
    reward = problem["reward"]
    return reward if isinstance(reward, list) else [reward]


def make_world(seed: int, products: int = 96, problems: int = 12, wordy: bool = False) -> World:
    """A world with `products` products and `problems` problems, a third of each category.

    `wordy` gives descriptions of the length of a real catalogue's, which makes envelopes of 13 to 17 KB.
    """
    rng = random.Random(f"world/{seed}")
    world = World(seed)
    shops = [str(rng.randrange(100_000, 6_000_000)) for _ in range(max(4, products // 8))]
    for number in range(products):
        product = _product(rng, KINDS[number % len(KINDS)], shops[(number // 2) % len(shops)], number, wordy)
        world.products[product["product_id"]] = product
    makers = (_product_problem, _shop_problem, _voucher_problem)
    for number in range(problems):
        problem = makers[number % len(makers)](rng, world, number // len(makers))
        world.problems[problem["problem_id"]] = problem
    return world


def _product(rng: random.Random, kind: Kind, shop: str, number: int, wordy: bool) -> Product:
    brand, style = rng.choice(BRANDS), rng.choice(STYLES)
    title = f"{brand} {style} {kind.noun.title()} {brand[:2].upper()}{number:03d}"
    attributes = {"brand": [brand.lower()]} | {k: [rng.choice(v)] for k, v in kind.attributes.items()}
    options = [{k: rng.choice(v) for k, v in kind.sku.items()} for _ in range(rng.randint(2, 3))]
    facts = "; ".join(f"{k}: {v[0]}" for k, v in attributes.items())
    if wordy:
        title = f"{title} For Home Office School And Outdoor Use {rng.choice(STYLES)} Edition With Extra Care Kit"
    description = f"{title}. {facts}." + (f" The {kind.noun} comes packed with a printed guide. " * 6 if wordy else "")
    product_id = str(rng.randrange(1_000_000_000, 5_000_000_000))
    return {
        "product_id": product_id,
        "shop_id": shop,
        "brand": brand.lower(),
        "category": kind.category,
        "title": title,
        "short_description": f"{title};{facts};",
        "description": description,
        "specification": facts,
        "price": round(rng.uniform(*kind.price), 2),
        "sold_count": rng.randrange(1, 900),
        "sku_options": {str(n): option for n, option in enumerate(options, 1)},
        "attributes": attributes,
        "service": sorted(rng.sample(SERVICES, rng.randint(1, 3))),
        "main_image_url": "",
        "product_url": f"https://shop.invalid/p/{product_id}",
    }


def _reward(rng: random.Random, product: Product) -> tuple[dict[str, Any], str]:
    """A reward that the product satisfies, and the words that ask for it."""
    noun = next(kind.noun for kind in KINDS if kind.category == product["category"])
    sku = dict([rng.choice(sorted(product["sku_options"]["1"].items()))])
    key, values = rng.choice(sorted((k, v) for k, v in product["attributes"].items() if k != "brand"))
    low, high = int(product["price"] * 0.8), int(product["price"] * 1.2) + 1
    reward: dict[str, Any] = {
        "product_id": product["product_id"],
        "title": [product["title"]],
        "attributes": [{"brand": product["attributes"]["brand"]}, {key: values}],
        "sku_options": [sku],
        "price": [{"between": [low, high]}],
    }
    asks = [f"{k.replace('_', ' ')} {v}" for k, v in sku.items()] + [f"{key.replace('_', ' ')} {values[0]}"]
    words = f"one {product['brand'].title()} {noun} ({', '.join(asks)}) between {low} and {high} pesos"
    if rng.random() < 0.5:
        service = rng.choice(product["service"])
        reward["service"] = [service]
        words += f" {SERVICE_WORDS[service]}"
    return reward, words


def _problem(rng: random.Random, category: str, query: str, reward: Any, voucher: Any = None) -> Problem:
    problem_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
    return {
        "problem_id": problem_id,
        "query": query,
        "category": category,
        "difficulty": None,
        "reward": reward,
        "voucher": voucher,
    }


def _product_problem(rng: random.Random, world: World, number: int) -> Problem:
    reward, words = _reward(rng, rng.choice(list(world.products.values())))
    opening = ("I want", "Please find", "I am looking for", "Help me get")[number % 4]
    return _problem(rng, "Product", f"{opening} {words}.", reward)


def _shop_problem(rng: random.Random, world: World, number: int) -> Problem:
    by_shop: dict[str, list[Product]] = {}
    for product in world.products.values():
        by_shop.setdefault(product["shop_id"], []).append(product)
    stocked = sorted(shop for shop, sold in by_shop.items() if len(sold) >= 3)
    picked = rng.sample(by_shop[rng.choice(stocked)], 2 + number % 2)
    parts = [_reward(rng, product) for product in picked]
    items = "; ".join(f"({n}) {words}" for n, (_, words) in enumerate(parts, 1))
    return _problem(rng, "Shop", f"Which single shop sells all of these? {items}.", [reward for reward, _ in parts])


def _voucher_problem(rng: random.Random, world: World, number: int) -> Problem:
    picked = rng.sample(list(world.products.values()), 1 + number % 2)
    parts = [_reward(rng, product) for product in picked]
    total = sum(product["price"] for product in picked)
    threshold = int(total * 0.6)
    if number % 3 == 1:
        voucher, after = _percentage(total, threshold)
        terms = f"takes {int(voucher['discount'] * 100)}% off, at most {voucher['cap']} pesos"
    else:
        voucher, after = _fixed(total, threshold)
        terms = f"takes {voucher['face_value']} pesos off"
    budget = int(after) + 2  # below the total, so that only the voucher makes the purchase affordable
    voucher |= {"price_after_voucher": round(after, 2), "budget": budget}
    items = "; ".join(words for _, words in parts)
    query = f"I need {items}. I can spend {budget} pesos. My voucher {terms} on any order above {threshold} pesos."
    return _problem(rng, "Voucher", query, [reward for reward, _ in parts], voucher)


def _fixed(total: float, threshold: int) -> tuple[dict[str, Any], float]:
    off = max(5, int(total * 0.15))
    return _terms(threshold, "fixed", off, None, None), total - off


def _percentage(total: float, threshold: int) -> tuple[dict[str, Any], float]:
    cap = max(5, int(total * 0.1))
    return _terms(threshold, "percentage", None, 0.2, cap), max(total * 0.8, total - cap)


def _terms(threshold: int, kind: str, face: int | None, discount: float | None, cap: int | None) -> dict[str, Any]:
    return {
        "voucher_type": "platform",
        "threshold": threshold,
        "discount_type": kind,
        "face_value": face,
        "discount": discount,
        "cap": cap,
    }


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in text.lower()).split()


def _text(product: Product) -> str:
    options = " ".join(v for option in product["sku_options"].values() for v in option.values())
    facts = " ".join(v for values in product["attributes"].values() for v in values)
    return f"{product['title']} {options} {facts}"


def _admits(product: Product, parameters: dict[str, Any]) -> bool:
    if "shop_id" in parameters and product["shop_id"] != parameters["shop_id"]:
        return False
    if (wanted := parameters.get("service")) and not set(wanted.split(",")) <= set(product["service"]):
        return False
    low, _, high = str(parameters.get("price", "")).partition("-")
    return (not low or product["price"] >= float(low)) and (not high or product["price"] <= float(high))
