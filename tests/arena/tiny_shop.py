"""A shop of a few invented products behind the search's interface, for tests that are not about the search."""

from __future__ import annotations

from typing import Any

from oresmith.arena.documents import Document

LISTED = ("product_id", "shop_id", "title", "price", "service", "sold_count")
DETAILED = ("product_id", "short_description", "description", "sku_options", "attributes")


class TinyShop:
    """Finds products whose titles hold a word of the query, and remembers what it was asked."""

    def __init__(self, products: int = 25) -> None:
        colours = ("red", "blue", "green")
        self.products = {
            str(1000 + n): Document(
                product_id=str(1000 + n),
                shop_id=str(70 + n % 3),
                title=f"{colours[n % 3]} kettle number {n}",
                price=100.0 + n,
                service=["COD"] if n % 2 else [],
                sold_count=n,
                sku_options={"1": {"color": colours[n % 3], "size": f"{n}l"}},
                attributes={"material": ["steel"], "power": [f"{n} w"]},
            )
            for n in range(products)
        }
        self.asked: list[dict[str, Any]] = []

    def find_product(self, q: str, *, page: int = 1, **filters: str | None) -> list[dict[str, Any]]:
        self.asked.append({"q": q, "page": page} | {name: value for name, value in filters.items() if value})
        words = set(q.lower().split())
        hits = [one for one in self.products.values() if words & set(one.title.split())]
        shown = hits[(page - 1) * 10 : page * 10] if 1 <= page <= 5 else []
        return [{name: getattr(one, name) for name in LISTED} for one in shown]

    def view_product_information(self, product_ids: str) -> list[dict[str, Any]]:
        found = [self.products[one] for one in product_ids.split(",") if one in self.products]
        return [{name: getattr(one, name) for name in DETAILED} for one in found]

    def get(self, product_id: str) -> Document | None:
        return self.products.get(product_id)
