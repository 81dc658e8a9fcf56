"""Which code files a DVC stage imports. DVC tracks only what dvc.yaml lists, so the lists are made from the imports.

`python -m tests.code_deps --write` brings dvc.yaml up to date; tests/test_dvc_yaml.py fails where it is not.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("oresmith", "stages", "schemas", "cards")
NAMES_ALL = "oresmith/release/codetree.py"
"""Hashes all the code, so a stage that imports it depends on all of it."""


def closure(entry: Path, root: Path = ROOT) -> set[str]:
    """All files of ours that running `entry` depends on: what it can import, what that names or hashes."""
    found = imports(entry, root)
    return found | _everything(root) if NAMES_ALL in found else found


def imports(entry: Path, root: Path = ROOT) -> set[str]:
    """All files of ours that running `entry` can import, itself included, and the data files that they name."""
    found: set[str] = set()
    waiting = [path for path in (entry, entry.parent / "__init__.py") if path.is_file()]
    while waiting:
        path = waiting.pop()
        name = path.relative_to(root).as_posix()
        if name in found:
            continue
        found.add(name)
        modules, data = _named(path, root)
        waiting += [file for module in modules for file in _files(module, root)]
        found |= data
    return found


@cache
def _named(path: Path, root: Path) -> tuple[tuple[str, ...], frozenset[str]]:
    """Modules that a file imports, and data files that it names."""
    tree = ast.parse(path.read_text("utf-8"))
    return tuple(_modules(tree)), frozenset(_data_files(tree, root))


def _everything(root: Path) -> set[str]:
    files = [path for package in PACKAGES for path in (root / package).rglob("*") if path.is_file()]
    return {path.relative_to(root).as_posix() for path in files if path.suffix != ".pyc"}


def _modules(tree: ast.AST) -> set[str]:
    """Dotted names that the tree imports, at any depth (imports inside functions count)."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in names if name.split(".")[0] in PACKAGES}


def _files(module: str, root: Path) -> list[Path]:
    """The file of a module and the `__init__` of each package above it."""
    parts = module.split(".")
    places = [root.joinpath(*parts[:depth]) for depth in range(1, len(parts) + 1)]
    candidates = [place / "__init__.py" for place in places] + [places[-1].with_suffix(".py")]
    return [path for path in candidates if path.is_file()]


def _data_files(tree: ast.AST, root: Path) -> set[str]:
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    files = [path for package in PACKAGES for path in (root / package).rglob("*")]
    data = [path for path in files if path.is_file() and path.suffix not in {".py", ".pyc", ".typed"}]
    return {path.relative_to(root).as_posix() for path in data if path.name in texts}


def stage_entries(
    document: dict[str, dict[str, dict[str, object]]], root: Path = ROOT
) -> dict[str, tuple[object, Path]]:
    """Stage name -> (its definition in dvc.yaml, its file)."""
    entries: dict[str, tuple[object, Path]] = {}
    for name, stage in document["stages"].items():
        definition = stage.get("do", stage)
        entries[name] = (definition, root / "stages" / f"{name}.py")
    return entries


def is_code(dependency: object) -> bool:
    """Whether a dependency of dvc.yaml is one that this module keeps."""
    return isinstance(dependency, str) and dependency.split("/")[0] in PACKAGES


def write(path: Path = ROOT / "dvc.yaml") -> None:
    """Bring the code dependencies of dvc.yaml up to date; other dependencies and comments stay."""
    yaml = YAML()
    yaml.width = 4096
    document = yaml.load(path)
    for definition, entry in stage_entries(document).values():
        deps = definition["deps"]  # type: ignore[index]
        kept = [dependency for dependency in deps if not is_code(dependency)]
        deps[:] = [*sorted(closure(entry)), *kept]
    with path.open("w", encoding="utf-8") as writer:
        yaml.dump(document, writer)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        print(__doc__)
