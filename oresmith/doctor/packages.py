"""Whether the packages of a run are installed, in versions that were tested: against the extras and constraints.txt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path

import msgspec

CONSTRAINTS = Path("constraints.txt")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;#]+)")


class Package(msgspec.Struct, frozen=True):
    """One package that something is wrong with."""

    name: str
    wanted: str
    """The specifier of the extra, or the version that was tested."""
    found: str | None
    """None where it is not installed."""
    extra: str


class Packages(msgspec.Struct, frozen=True):
    """What was compared."""

    checked: int
    missing: list[Package]
    wrong: list[Package]
    """Outside what the extra allows."""
    untested: list[Package]
    """Allowed, but not the version in constraints.txt."""


def check_packages(
    extras: Iterable[str], root: Path = Path(), *, version: Callable[[str], str] = metadata.version
) -> Packages:
    """Hold the installed packages against what the project asks for.

    Args:
        extras: of this package; the core is always checked.
        root: of the project, where constraints.txt lies; without the file nothing counts as untested.
        version: of an installed package by name, raising PackageNotFoundError.
    """
    from packaging.requirements import Requirement

    pins = read_pins(root / CONSTRAINTS)
    seen: dict[str, Package] = {}
    missing, wrong, untested = [], [], []
    for text in metadata.requires("oresmith") or []:
        asked = Requirement(text)
        extra = _extra(asked, extras)
        if extra is None or asked.name in seen:
            continue
        try:
            found = version(asked.name)
        except metadata.PackageNotFoundError:
            found = None
        one = seen[asked.name] = Package(asked.name, str(asked.specifier) or "any version", found, extra)
        pin = pins.get(folded(asked.name))
        if found is None:
            missing.append(one)
        elif not asked.specifier.contains(found, prereleases=True):
            wrong.append(one)
        elif pin is not None and found.split("+")[0] != pin:
            untested.append(Package(one.name, pin, found, extra))
    return Packages(len(seen), missing, wrong, untested)


def read_pins(path: Path) -> dict[str, str]:
    """Versions by folded name of a constraints file; empty where there is none."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError:
        return {}
    return {folded(found[1]): found[2] for line in lines if (found := _PIN.match(line))}


def folded(name: str) -> str:
    """A package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _extra(asked: object, extras: Iterable[str]) -> str | None:
    """Under which of the extras a requirement stands; `core` for all, None for none of them."""
    marker = getattr(asked, "marker", None)
    for extra in ("", *extras):
        if marker is None or marker.evaluate({"extra": extra}):
            return extra or "core"
    return None
