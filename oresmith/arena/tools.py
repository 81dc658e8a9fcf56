"""The four tools as an agent calls them, with the result strings that SN15's runtime gives (sn15.md sections 2, 9).

The runtime calls a Python function per tool and turns whatever it raises into `"Error: .."`. So do we: the functions
below have the reference agent's signatures, and unknown or missing arguments give Python's own words for them.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote_plus

from oresmith.arena.documents import Shop

ERROR_CHARACTERS = 2000
"""An error text repeats what the caller wrote, so it is cut."""


class Toolbox:
    """The tools over one shop."""

    def __init__(self, shop: Shop) -> None:
        self._tools = _functions(shop)

    @property
    def names(self) -> tuple[str, ...]:
        """The tools' names, sorted."""
        return tuple(sorted(self._tools))

    def call(self, name: object, parameters: object) -> Any:
        """Execute one call.

        Args:
            name: of the tool; anything.
            parameters: an object of its arguments; anything.

        Returns:
            A list of objects for the two that search, a sentence for the two that do not, `"Error: .."` for a call
            that the runtime could not execute. Always a JSON value; never raises.
        """
        try:
            return self._call(name, parameters)
        except Exception as error:
            return clean(f"Error: {error}"[:ERROR_CHARACTERS])

    def _call(self, name: object, parameters: object) -> Any:
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise LookupError(f"Tool '{name}' is not registered. Available tools: {', '.join(self.names)}")
        if not isinstance(parameters, Mapping):
            raise TypeError(f"{name}() argument after ** must be a mapping, not {type(parameters).__name__}")
        result = tool(**parameters)
        return clean(result) if isinstance(result, str) else result


def tool_call_id(name: str, parameters: object) -> str:
    """The runtime's id of a call: a short hash of name and parameters, so equal calls of a trace share it."""
    text = f"{name}\n{parameters}".encode("utf-8", "surrogatepass")
    digest = hashlib.md5(text, usedforsecurity=False).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")[:8]


def search(shop: Shop, arguments: Mapping[str, str]) -> list[dict[str, Any]]:
    """`find_product` for the text arguments of a URL: [] without a query or a page of digits; services as they come."""
    page = arguments.get("page", "")
    if not arguments.get("q") or not (page.isascii() and page.isdigit() and len(page) < 10):
        return []
    rest = {name: arguments.get(name) or None for name in ("shop_id", "price", "sort", "service")}
    return shop.find_product(arguments["q"], page=int(page), **rest)


def view(shop: Shop, arguments: Mapping[str, str]) -> list[dict[str, Any]]:
    """`view_product_information` for the text arguments of a URL; [] without ids."""
    ids = arguments.get("product_ids")
    return shop.view_product_information(ids) if ids else []


def clean(text: str) -> str:
    """Text without half surrogates, which a model can write and JSON encoders refuse."""
    return text.encode("utf-8", "replace").decode()


def _functions(shop: Shop) -> dict[str, Callable[..., Any]]:
    def find_product(  # noqa: PLR0917 (the reference agent's signature, whose error texts we share)
        q: Any, page: Any = 1, shop_id: Any = None, price: Any = None, sort: Any = None, service: Any = None
    ) -> Any:
        quote_plus(q)  # the reference agent quotes the query: what is no text fails here, in these words
        if sort == "default":
            sort = None
        if service and "default" in service:
            service = ",".join(part for part in service.split(",") if part != "default")
        given = {"q": q, "page": page, "shop_id": shop_id, "price": price, "sort": sort, "service": service}
        return search(shop, _as_url(given))

    def view_product_information(product_ids: Any) -> Any:
        return view(shop, _as_url({"product_ids": product_ids}))

    def recommend_product(product_ids: Any) -> str:
        return f"Having recommended the products to the user: {product_ids}."

    def terminate(status: Any = "success") -> str:
        return f"The interaction has been completed with status: {status}"

    tools: tuple[Callable[..., Any], ...] = (find_product, view_product_information, recommend_product, terminate)
    for tool in tools:
        tool.__qualname__ = tool.__name__  # Python's error texts name a function by it
    return {tool.__name__: tool for tool in tools}


def _as_url(given: Mapping[str, Any]) -> dict[str, str]:
    """Arguments as they arrive at the search: None left out, a list by its first item, everything else as text."""
    arguments = {}
    for name, value in given.items():
        first = (value[0] if value else None) if isinstance(value, list | tuple) else value
        if first is not None:
            arguments[name] = clean(str(first))
    return arguments
