"""Title similarity for the outcome scorer: a named model, its threshold, and the vectors of the titles at hand.

All titles are encoded once, before anything is scored, each by itself: a score depends on its two titles alone, not on
the number of workers, and what is scored afterwards needs no model.

The threshold belongs to the model: over all pairs of the 53 titles of ORO's public suite the vectors that it carries
have a median of 0.452 (99% below 0.696), this model's one of 0.108 (0.465): ORO's 0.7 would say something else here.

Measured with `python -m benchmarks.title_threshold` on the 1,675 gold titles and 4,818 listings of a real suite; labels
by words alone. Listings of other shops: 1,544 pairs of one article listed again (0.7 of the words in common), 442 with
words left out (0.5 to 0.7), 8,058,378 of another product (less than a quarter). `met`: gold titles for which any of
those passes. `swapped`: 1,668 gold titles with one rare word replaced by that of another title.

    threshold  listed again  words left out  another product     met  swapped
    0.50              1.000           0.998          2.7e-03  0.7582    0.996
    0.60              1.000           0.986          5.1e-04  0.3857    0.992
    0.70              0.998           0.914          6.3e-05  0.1063    0.974
    0.75              0.995           0.862          1.7e-05  0.0436    0.951
    0.79              0.991           0.778          3.8e-06  0.0113    0.913
    0.80              0.989           0.747          2.9e-06  0.0084    0.903
    0.82              0.986           0.676          7.4e-07  0.0024    0.873
    0.85              0.972           0.536          1.2e-07  0.0006    0.823
    0.90              0.902           0.224          0        0         0.689

The default is the least hundredth at which at most one gold title in a hundred is met by another product. What no
threshold can tell is a title in which one word names another product: nine of ten pass. A title is one constraint among
others for that reason, and success is asked for without it unless a parameter says otherwise.

One core encodes about 80 titles a second.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from oresmith.arena.scoring_items import TitleRule
from oresmith.errors import ParameterError
from oresmith.minilm import DIGITS, F32, MODEL, Encoder, load_encoder

NONE = "none"
THRESHOLDS = {MODEL: 0.8}
"""Least similarity that counts as met, by model; measured as the table above says."""


class Titling(NamedTuple):
    """The wish for title similarity."""

    model: str
    threshold: float
    asked_by: str
    """The parameter or option that it comes from, for messages."""

    def encoder(self) -> Encoder:
        """The model, loaded once a process. Errors: OresmithError where it is not installed or not the known one."""
        return _loaded(self.asked_by)


@lru_cache(maxsize=1)
def _loaded(asked_by: str) -> Encoder:
    return load_encoder(asked_by)


def titling(model: str, least: float | None, asked_by: str) -> Titling | None:
    """What a parameter or an option asks for; None where it asks for no model.

    Args:
        model: of `THRESHOLDS`, or "none".
        least: least similarity; None takes the model's own.
        asked_by: the name of the parameter that gives `model`.

    Errors: ParameterError for an unknown model, a threshold that is none, and a threshold without a model.
    """
    if model == NONE and least is None:
        return None
    if model not in THRESHOLDS:
        raise ParameterError(
            "a threshold without a model decides nothing" if model == NONE else "no such model",
            where=asked_by,
            expected=" or ".join(THRESHOLDS),
            got=model[:80],
        )
    if least is not None and not 0 <= least <= 1:
        raise ParameterError("no similarity", where=asked_by, expected="a threshold from 0 to 1", got=str(least))
    return Titling(model, THRESHOLDS[model] if least is None else float(least), asked_by)


def title_rule(wish: Titling, encode: Encoder, titles: Iterable[str]) -> TitleRule:
    """The scorer's rule for these titles; each distinct one is encoded once."""
    return TitleRule(wish.model, wish.threshold, TitleTable(encode, titles))


class TitleTable:
    """Cosine similarity of titles whose vectors are known, rounded to `DIGITS`.

    Holds 1.5 kB a title.
    """

    def __init__(self, encode: Encoder, titles: Iterable[str]) -> None:
        self._vectors: dict[str, F32 | None] = {
            title: encode(title.encode("utf-8", "replace").decode()) for title in sorted(set(titles))
        }

    def __len__(self) -> int:
        return len(self._vectors)

    def __call__(self, title: str, wanted: str) -> float:
        """1 for one and the same title; 0 where the model cannot read one of them whole.

        Errors: TypeError for a value that is no text, LookupError for a title that was not given to the table.
        """
        if not (isinstance(title, str) and isinstance(wanted, str)):
            raise TypeError("a title is no text")
        if title == wanted:
            return 1.0
        one, other = self._vectors[title], self._vectors[wanted]
        if one is None or other is None:
            return 0.0
        # Summed for this pair alone: a matrix product would round by what stands beside it.
        return round(float((one.astype(np.float64) * other.astype(np.float64)).sum()), DIGITS)

    def __deepcopy__(self, memo: object) -> TitleTable:
        """Shared, not copied, as the products are."""
        return self
