"""The hash that git gives the code, found from the files alone: it names what ran, whatever commit that stood in."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

CODE = ("cards", "oresmith", "schemas", "stages")
"""Folders of the code, sorted."""
_LEFT_OUT = ("__pycache__",)
_SUFFIXES = (".pyc", ".egg-info")
_EMPTY = bytes.fromhex("4b825dc642cb6eb9a060e54bf8d69288fbee4904")


def code_root() -> Path:
    """The folder that holds the code that is running."""
    return Path(__file__).resolve().parents[2]


@cache
def code_tree(root: Path | None = None) -> str:
    """The hash of a git tree that holds the folders of the code; what git would ignore is left out.

    Looked at once in a process: code that changes later is not what runs.

    Args:
        root: holds the folders; by default those of the running code. One that is missing is left out.
    """
    found = root or code_root()
    return tree_hash([("40000", name, _tree(found / name)) for name in CODE if (found / name).is_dir()]).hex()


def tree_hash(entries: list[tuple[str, str, bytes]]) -> bytes:
    """Git's hash of a tree.

    Args:
        entries: mode, name and hash (20 bytes) of each entry.
    """
    ordered = sorted(entries, key=lambda entry: entry[1].encode() + (b"/" if entry[0] == "40000" else b""))
    body = b"".join(mode.encode() + b" " + os.fsencode(name) + b"\0" + digest for mode, name, digest in ordered)
    return _object("tree", body)


def _tree(folder: Path) -> bytes:
    entries = []
    for path in folder.iterdir():
        if path.name in _LEFT_OUT or path.name.endswith(_SUFFIXES) or path.name.startswith("."):
            continue
        if path.is_symlink():
            entries.append(("120000", path.name, _object("blob", os.fsencode(path.readlink()))))
        elif path.is_dir():
            inner = _tree(path)
            if inner != _EMPTY:  # git knows no empty folder
                entries.append(("40000", path.name, inner))
        else:
            mode = "100755" if os.access(path, os.X_OK) else "100644"
            entries.append((mode, path.name, _object("blob", path.read_bytes())))
    return tree_hash(entries)


def _object(kind: str, body: bytes) -> bytes:
    # Git's own name of an object, not a safeguard.
    return hashlib.sha1(f"{kind} {len(body)}\0".encode() + body, usedforsecurity=False).digest()
