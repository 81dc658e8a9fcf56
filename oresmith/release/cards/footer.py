"""The list of numbers at the end of a card: JSON in an HTML comment, which no viewer shows and any program can read."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from oresmith.errors import OresmithError
from oresmith.release.cards.numbers import CardNumber

BEGIN, END = "<!-- oresmith.numbers/1\n", "\n-->\n"
EARLIER = "<!-- earlier releases, as they were told then -->"
"""From this line on a changelog repeats what earlier releases said: their files are not here."""
_SAFE = str.maketrans({"<": "\\u003c", ">": "\\u003e"})


def with_footer(body: str, numbers: Iterable[CardNumber]) -> str:
    """A card's text with the list of its numbers."""
    lines = ",\n".join(msgspec.json.encode(number).decode() for number in numbers)
    # "--" could end the comment; outside of strings JSON has neither it nor < and >.
    safe = f"[\n{lines}\n]".translate(_SAFE).replace("--", "-\\u002d")
    return f"{body.rstrip()}\n\n{BEGIN}{safe}{END}"


def split_footer(card: str) -> tuple[str, list[CardNumber]]:
    """A card without its footer, and the numbers that the footer lists.

    Raises:
        OresmithError: it has none, more than one, or one that cannot be read.
    """
    body, begin, rest = card.partition(BEGIN)
    listing, end, after = rest.partition(END)
    if not begin or not end or after.strip() or BEGIN in rest:
        raise OresmithError("a card does not end with the list of its numbers", todo="make the cards anew")
    try:
        return body, msgspec.json.decode(listing, type=list[CardNumber])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise OresmithError("the list of a card's numbers cannot be read", got=str(error)[:200]) from error


def split_front_matter(card: str) -> tuple[str, str]:
    """The YAML between the first two `---` lines, and the text after it; no YAML where the card begins otherwise."""
    if not card.startswith("---\n"):
        return "", card
    head, found, rest = card[4:].partition("\n---\n")
    return (head, rest) if found else ("", card)
