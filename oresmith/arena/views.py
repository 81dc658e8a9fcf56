"""Observation views: what a model is shown of a tool's result, apart from the result itself.

A view is a versioned file, `schemas/views/*.json`, whose content drives the code here; scores and corpora name it by
version and sha256. `raw/1` is what real traces show. `compact/1` is what small models read well: a line a product, the
deciding text before the id (a 135M model that quotes such a line copies the id right), and the id never cut.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Literal

import msgspec

from oresmith.arena.tools import clean
from oresmith.errors import OresmithError

# Beside the package in a checkout and in an installation alike; `schemas` is too common a name to import it by.
_FOLDER = Path(__file__).resolve().parents[2] / "schemas" / "views"

_WIDE, _NARROW = (", ", ": "), (",", ":")
_WORDS = {"price": "PHP", "shop_id": "shop"}
VIEWS = {"raw/1": "raw-1.json", "compact/1": "compact-1.json", "compare/1": "compare-1.json"}
"""File of each view, by version. Named in full, so that DVC's dependencies hold it."""


class ToolView(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one tool's list of products is shown."""

    products: int
    """Most products."""
    fields: tuple[str, ...]
    """In the order in which they are shown; the rest is left out."""
    text: int
    """Most characters of one title, attribute value or SKU option; ids are never cut."""
    compare: bool = False
    """Products get letters, and each value that they offer is said once, with the letters of those that offer it."""
    entries: int = 10
    """Most attributes, or SKU options, of a product."""
    values: int = 4
    """Most values of an attribute."""


class View(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A view file."""

    schema: Literal["oresmith.view/1"]
    version: str
    description: str
    form: Literal["json", "lines", "words"]
    """The raw result; a JSON object a product; or its values in words, a line a product."""
    max_characters: int = 0
    """Of the whole text: products that do not fit are left out whole, other text is cut."""
    empty: str = ""
    """Shown for a result without products."""
    more: str = ""
    """Shown after a shortened list, with the `{count}` of what is left out."""
    cut: str = ""
    """Shown after a shortened text."""
    tools: dict[str, ToolView] = {}
    control: tuple[str, ...] = ()
    """Texts with a meaning to chat templates and parsers; a blank after the first character breaks them."""


def render(view: str, tool_name: object, result: object) -> str:
    """The text that a model is shown.

    Args:
        view: version, as in "compact/1".
        tool_name: the tool called; anything.
        result: what the tool gave; any JSON value.

    Returns:
        Text; never raises on any name or result.

    Raises:
        OresmithError: no such view.
    """
    declared, control = _load(view)
    if declared.form == "json":
        return result if isinstance(result, str) else _dumps(result, _NARROW)
    shape = declared.tools.get(tool_name) if isinstance(tool_name, str) else None
    if shape is not None and isinstance(result, list) and all(isinstance(item, dict) for item in result):
        if shape.compare and result:
            return "\n".join(_compared(declared, shape, control, result[: shape.products]))
        write = _in_words if declared.form == "words" else _in_json
        return "\n".join(_lines(declared, shape, control, result, write))
    text = control.sub(_broken, result if isinstance(result, str) else _dumps(result, _WIDE))
    left = len(text) - declared.max_characters
    return text if left <= 0 else text[: declared.max_characters] + "\n" + declared.cut.format(count=left)


def visible_ids(view: str, tool_name: str, result: object) -> list[str]:
    """The product ids of a result that the view shows, in order: only these can a model copy. Errors as in `render`."""
    text = render(view, tool_name, result)
    items = result if isinstance(result, list) else []
    ids = [item.get("product_id") for item in items if isinstance(item, dict)]
    quoted = view_declaration(view).form != "words"
    return [one for one in ids if isinstance(one, str) and (_dumps(one, ("", "")) if quoted else one) in text]


def view_sha256(view: str) -> str:
    """The sha256 of the view file's bytes, hex. Raises OresmithError for an unknown view."""
    return hashlib.sha256(_bytes(view)).hexdigest()


def view_declaration(view: str) -> View:
    """What the view's file declares. Raises OresmithError for an unknown view."""
    return _load(view)[0]


@functools.cache
def _bytes(view: str) -> bytes:
    if view not in VIEWS:
        raise OresmithError("there is no such observation view", got=str(view)[:80], expected=" or ".join(VIEWS))
    return (_FOLDER / VIEWS[view]).read_bytes()


@functools.cache
def _load(view: str) -> tuple[View, re.Pattern[str]]:
    declared = msgspec.json.decode(_bytes(view), type=View)
    longest_first = sorted(declared.control, key=len, reverse=True)
    return declared, re.compile("|".join(map(re.escape, longest_first)) or r"(?!)", re.IGNORECASE)


def _broken(match: re.Match[str]) -> str:
    token = match.group()
    return f"{token[0]} {token[1:]}"


def _lines(
    view: View,
    shape: ToolView,
    control: re.Pattern[str],
    items: list[dict[str, Any]],
    write: Callable[[dict[str, Any]], str],
) -> Iterator[str]:
    """One product a line, as many as fit, then the count of the others."""
    if not items:
        yield view.empty
    room, shown = view.max_characters, 0
    for item in items[: shape.products]:
        line = control.sub(_broken, write(_product(view, shape, item)))
        room -= len(line) + 1
        if room < 0:
            break
        shown += 1
        yield line
    if shown < len(items):
        yield view.more.format(count=len(items) - shown)


def _compared(view: View, shape: ToolView, control: re.Pattern[str], items: list[dict[str, Any]]) -> Iterator[str]:
    """`A = 77` for each product, then `colour red: A C` for each value; as many lines as fit."""
    lettered = (f"{letter} = {item.get('product_id')}" for letter, item in zip(ascii_uppercase, items, strict=False))
    room = view.max_characters
    for line in chain(lettered, _offers(shape, items)):
        shown = clean(control.sub(_broken, line))
        room -= len(shown) + 1
        if room < 0:
            return
        yield shown


def _offers(shape: ToolView, items: list[dict[str, Any]]) -> Iterator[str]:
    """Values of attributes and of options by key, in the order of their first product."""
    found: dict[str, dict[str, str]] = {}
    for letter, item in zip(ascii_uppercase, items, strict=False):
        for key, value in _offered(shape, item):
            letters = found.setdefault(_spaced(key), {})
            if letter not in letters.get(value, ""):
                letters[value] = letters.get(value, "") + letter
    for key, values in found.items():
        for value, offering in values.items():
            yield f"{key} {value}: {' '.join(offering)}"


def _offered(shape: ToolView, item: dict[str, Any]) -> Iterator[tuple[str, str]]:
    attributes, options = item.get("attributes"), item.get("sku_options")
    if isinstance(attributes, dict):
        for key, value in islice(attributes.items(), shape.entries):
            for one in islice(value if isinstance(value, list) else [value], shape.values):
                yield _text(shape, key), _text(shape, one)
    if isinstance(options, dict):
        for option in islice(options.values(), shape.entries):
            pairs = option.items() if isinstance(option, dict) else [("option", option)]
            for key, value in islice(pairs, shape.entries):
                yield _text(shape, key), _text(shape, value)


def _in_json(shown: dict[str, Any]) -> str:
    return _dumps(shown, _WIDE)


def _in_words(shown: dict[str, Any]) -> str:
    """Values as a person would note them, the id last: `title, PHP 760, shop 6 = 9`, `size s | colour red = 9`."""
    said, options, ids = [], [], []
    for name, value in shown.items():
        if name == "attributes":
            said += [f"{_spaced(key)} {found}" for key, found in value.items()]
        elif name == "sku_options":
            options = [_spaced(option).replace(": ", " ") for option in value]
        elif name == "product_id":
            ids = [str(value)]
        else:
            said.append(f"{_WORDS[name]} {value}" if name in _WORDS else str(value))
    return clean(" = ".join([" | ".join(filter(None, [", ".join(said), *options])), *ids]))


def _spaced(text: str) -> str:
    return text.replace("_", " ")


def _product(view: View, shape: ToolView, item: dict[str, Any]) -> dict[str, Any]:
    shown = {}
    for name in shape.fields:
        value = item.get(name)
        if name == "attributes" and isinstance(value, dict):
            value = _attributes(view, shape, value)
        elif name == "sku_options" and isinstance(value, dict):
            value = _options(view, shape, list(value.values()))
        elif isinstance(value, list):
            value = _joined(view, shape, value)
        elif isinstance(value, str) and not name.endswith("_id"):
            value = _text(shape, value)
        elif isinstance(value, float) and value.is_integer():
            value = int(value)
        if value not in (None, "", {}, []):
            shown[name] = value
    return shown


def _attributes(view: View, shape: ToolView, value: dict[str, Any]) -> dict[str, Any]:
    first = list(value.items())[: shape.entries]
    shown = {
        _text(shape, key): _joined(view, shape, found if isinstance(found, list) else [found]) for key, found in first
    }
    if len(value) > len(first):
        shown["and"] = view.more.format(count=len(value) - len(first))
    return shown


def _options(view: View, shape: ToolView, options: list[Any]) -> list[str]:
    """Each SKU as "key: value, key: value": a reward asks for the pairs of one SKU together."""
    shown = [_text(shape, _option(option)) for option in options[: shape.entries]]
    if len(options) > shape.entries:
        shown.append(view.more.format(count=len(options) - shape.entries))
    return shown


def _option(option: object) -> object:
    if not isinstance(option, dict):
        return option
    return ", ".join(
        f"{key}: {value if isinstance(value, str) else _dumps(value, _WIDE)}" for key, value in option.items()
    )


def _joined(view: View, shape: ToolView, values: list[Any]) -> str:
    text = ", ".join(_text(shape, value) for value in values[: shape.values])
    return text if len(values) <= shape.values else f"{text} {view.more.format(count=len(values) - shape.values)}"


def _text(shape: ToolView, value: object) -> str:
    """A text on one line, cut with an ellipsis."""
    text = value if isinstance(value, str) else _dumps(value, _WIDE)
    text = " ".join(text[: 4 * shape.text].split())
    return text if len(text) <= shape.text else text[: shape.text - 1].rstrip() + "…"


def _dumps(value: object, separators: tuple[str, str]) -> str:
    """JSON in the given key order, non-ASCII kept, without the half surrogates that no model can be given."""
    try:
        return clean(json.dumps(value, ensure_ascii=False, separators=separators))
    except (ValueError, TypeError, RecursionError):
        return "?"
