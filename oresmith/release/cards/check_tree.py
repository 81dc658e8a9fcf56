"""Numbers in YAML, front matter or a file of its own: each listed one has its value, and there is no other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from oresmith.errors import OresmithError
from oresmith.release.cards.numbers import CardNumber
from oresmith.release.cards.values import FAULTS, resolve
from oresmith.yamlfile import READ_FAULTS

MAX_YAML = 512 * 1024
_TREE = re.compile(r"(?:front matter|document), at (.*)", re.DOTALL)


def in_tree(number: CardNumber) -> bool:
    """Whether a number stands in YAML."""
    return _TREE.fullmatch(number.where) is not None


def tree_faults(text: str, numbers: Sequence[CardNumber]) -> Iterator[tuple[str, str]]:
    """Place and fault of each number that is not as listed, or not listed.

    Args:
        text: YAML of a stranger.
        numbers: what is listed of it.

    Raises:
        OresmithError: no YAML, too large, or with aliases, a few lines of which can stand for millions.
    """
    tree = _read(text)
    known = {}
    for number in numbers:
        found = _TREE.fullmatch(number.where)
        pointer = found[1] if found else ""
        known[pointer] = number
        try:
            value = resolve(tree, pointer)
        except FAULTS:
            value = "nothing"
        if value != number.value:
            what = f"expected {number.value} ({number.file} {number.key}), got {str(value)[:60]}"
            yield number.where, what
    for pointer, value in _leaves(tree, ""):
        if isinstance(value, int | float) and not isinstance(value, bool) and pointer not in known:
            yield f"at {pointer}", f"{value!r} comes from no file"


def _read(text: str) -> Any:
    if len(text) > MAX_YAML:
        raise OresmithError("too large for front matter", got=f"{len(text)} characters")
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, Loader=yaml.SafeLoader)):
            raise OresmithError("front matter with aliases", expected="none")
        return yaml.safe_load(text)
    except READ_FAULTS as error:
        raise OresmithError("no YAML", got=str(error)[:200]) from error


def _leaves(tree: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict):
        for name, part in tree.items():
            yield from _leaves(part, f"{pointer}/{str(name).replace('~', '~0').replace('/', '~1')}")
    elif isinstance(tree, list):
        for index, part in enumerate(tree):
            yield from _leaves(part, f"{pointer}/{index}")
    else:
        yield pointer, tree
