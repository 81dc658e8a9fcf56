"""The products that scoring the published rollouts takes, so that anybody can score them again without a catalogue.

`scores/products/SHOP.jsonl.zst`, one file a shop (snapshot): a product document a line, sorted by id, without the
fields that no score depends on. It holds every product of the catalogue that a held-out problem names as gold, or that
a rollout was shown, viewed or recommended; an id that is not in it does not exist in the catalogue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
import zstandard

from oresmith.arena.catalogue import Catalogue
from oresmith.arena.problems import gold_ids
from oresmith.evaluation.played import Played, read_played, shown_to
from oresmith.evaluation.problems import Case
from oresmith.evaluation.scored import open_rollouts
from oresmith.evaluation.scores import load_products

FOLDER = "scores/products"
"""In the dataset."""
ENDING = ".jsonl.zst"
LEVEL = 10


def write_products(
    rollouts: Sequence[Path],
    cases_of: Callable[[set[str | None]], Sequence[Case]],
    catalogue_of: Callable[[str], Path],
    dataset: Path,
) -> dict[str, int]:
    """Write the products of some sets of rollouts.

    Args:
        rollouts: directories that stage `rollout` wrote, of all models.
        cases_of: the problems of these names, as `evaluation.suite.cases_of_table` gives them.
        catalogue_of: the product documents of a shop, as `stages.score.catalogue_of` gives them.
        dataset: the dataset's folder; files go to `FOLDER` in it.

    Returns:
        Products by shop.

    Raises:
        OresmithError: rollouts or a catalogue that cannot be read.
    """
    wanted: dict[str, set[str]] = {}
    for folder in rollouts:
        opened = open_rollouts(folder)
        played = [one for one in read_played(opened.files, ours=True) if isinstance(one, Played)]
        cases = {case.name: case for case in cases_of({one.name for one in played})}
        for one in played:
            if case := cases.get(one.name or ""):
                wanted.setdefault(case.shop, set()).update(gold_ids(case.problem), ids_of(one))
    target = dataset / FOLDER
    target.mkdir(parents=True, exist_ok=True)
    counts = {}
    for shop, ids in sorted(wanted.items()):
        products = load_products(catalogue_of(shop), ids)
        (target / f"{shop}{ENDING}").write_bytes(encode(products))
        counts[shop] = len(products)
    return counts


def ids_of(played: Played) -> Iterable[str]:
    """Every product id that a rollout's score can depend on."""
    return {*shown_to(played), *played.unshown, *(played.said.ids if played.said else ())}


def encode(products: Catalogue) -> bytes:
    """The file's bytes; equal products give equal bytes."""
    lines = (msgspec.json.encode(products[one], order="deterministic") for one in sorted(products))
    return zstandard.ZstdCompressor(level=LEVEL).compress(b"".join(line + b"\n" for line in lines))


def product_files(dataset: Path) -> dict[str, Path]:
    """The files of a dataset, by shop."""
    return {path.name.removesuffix(ENDING): path for path in sorted((dataset / FOLDER).glob(f"*{ENDING}"))}
