"""The difficulty scale L1 to L5, fixed by what a problem asks and what the search answers, never by who solves it.

A level bounds five things, each of them measured when a problem is made:

- how many products are wanted (a `product` problem always wants one),
- how many constraints the reward of each states (a price range, a service, an attribute or a SKU pair counts one each),
- where the gold product stands among the hits of the *reference query*: its noun and the stated values, with the
  stated price and services as filters, and under the whole request as a person who pastes it would search,
- how many *near misses* the first page of that query holds: hits that fail exactly one constraint,
- whether the page can be decided from the listing: `details` levels hold a near miss that only the details tell apart,
  because what it fails is neither price nor service and its title does not say.

And how the request is worded: `literal` levels use the catalogue's own values, the others also say them in other words
("extra large" for "xl").
"""

from __future__ import annotations

from typing import NamedTuple


class Level(NamedTuple):
    """The bounds of one level; pairs are least and most, both inclusive."""

    products: dict[str, int]
    """Category -> wanted products."""
    constraints: tuple[int, int]
    """Of each reward."""
    rank: tuple[int, int]
    """Of the gold product in the reference query, counted from 1. The least is asked of one wanted product at least."""
    near: int
    """Least number of near misses on the first page; one is enough for each of several wanted products."""
    details: bool
    """Some near miss can be told apart by its details alone; asked of one wanted product at least."""
    literal: bool
    """Values are worded as the catalogue words them."""
    told: int
    """Deepest place of a gold product under the whole request as its words stand, without filters."""
    summary: str
    """The level in words."""


LEVELS: dict[str, Level] = {
    "L1": Level(
        products={"product": 1, "shop": 2, "voucher": 1},
        constraints=(3, 3),
        rank=(1, 5),
        near=2,
        details=False,
        literal=True,
        told=6,
        summary="One search for each product, and one look at five hits at most, decides it.",
    ),
    "L2": Level(
        products={"product": 1, "shop": 2, "voucher": 2},
        constraints=(3, 4),
        rank=(1, 10),
        near=2,
        details=False,
        literal=True,
        told=6,
        summary="The gold product is on the first page, and more of that page has to be looked at.",
    ),
    "L3": Level(
        products={"product": 1, "shop": 3, "voucher": 2},
        constraints=(3, 5),
        rank=(2, 20),
        near=3,
        details=True,
        literal=False,
        told=10,
        summary="Some near misses differ in the details alone, and values are said in other words.",
    ),
    "L4": Level(
        products={"product": 1, "shop": 3, "voucher": 3},
        constraints=(4, 6),
        rank=(3, 30),
        near=3,
        details=True,
        literal=False,
        told=50,
        summary="More constraints to keep in mind, over three products or as many pages.",
    ),
    "L5": Level(
        products={"product": 1, "shop": 4, "voucher": 4},
        constraints=(4, 7),
        rank=(4, 50),
        near=3,
        details=True,
        literal=False,
        told=50,
        summary="As many constraints as real requests have, and the gold product anywhere in the kept hits.",
    ),
}
"""Level -> bounds, the easiest first."""

BASELINE_LIMIT = 0.16
"""Most that a policy without judgement may succeed on, of the problems of one category and level. The promise is 0.20;
the rest is margin for other searches and other ways to find the words."""
USUAL_RANDOM_LIMIT = 0.13
"""The same for random choices, except where a twin of the gold product is wanted beside it: what is left is for those.
"""
ONE_OF_TEN = 0.1
"""Chance of a random choice of a full first page that holds the gold product and no twin of it: always allowed."""
