"""The card's front matter gives every data file to its own config and split, and nothing else to any of them."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from oresmith.errors import OresmithError
from oresmith.release.verify.found import Finding, Findings
from oresmith.release.verify.hashes import CACHE, stated_files
from oresmith.release.verify.opened import Opened
from oresmith.release.verify.rowsof import data_files
from oresmith.yamlfile import READ_FAULTS

CARD = "README.md"
MOST_CARD = 16 * 2**20


class _Given(NamedTuple):
    config: str
    split: str
    glob: str


def check(opened: Opened) -> Findings:
    """See the module."""
    dataset = opened.dataset
    if not (dataset / CARD).is_file():
        yield Finding("is missing: nobody can load a config by name", CARD)
        return ""
    given = list(_configs(dataset))
    own = {file.name: (file.config, file.split) for file in data_files(dataset)}
    loaded: set[str] = set()
    for name in stated_files(dataset):
        if name.startswith(CACHE):
            continue
        for one in given:
            if not fnmatchcase(name, one.glob):
                continue
            loaded.add(name)
            if own.get(name) != (one.config, one.split):
                whose = "{}, split {}".format(*own[name]) if name in own else "no config"
                yield Finding(f"{name} would load as {one.config}, split {one.split}; it is of {whose}", CARD)
    for name in sorted(own.keys() - loaded):
        yield Finding(f"{name} loads as no config", CARD)
    return f"{len(given)} splits of {len({one.config for one in given})} configs"


def _configs(dataset: Path) -> Iterator[_Given]:
    path = dataset / CARD
    if path.stat().st_size > MOST_CARD:
        raise OresmithError("too large for a card", where=CARD)
    parts = path.read_text("utf-8", "replace").split("---\n", 2)
    try:
        matter: Any = yaml.safe_load(parts[1]) if len(parts) == 3 and not parts[0] else None
        for config in matter["configs"]:
            for entry in config["data_files"]:
                yield _Given(str(config["config_name"]), str(entry["split"]), str(entry["path"]))
    except (*READ_FAULTS, KeyError, TypeError) as error:
        raise OresmithError(
            "the front matter names no configs that can be read", where=CARD, got=str(error)[:200]
        ) from error
