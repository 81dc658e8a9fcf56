"""Names as requests bring them, checked before use: nothing else of a request reaches the file system or git."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, get_args

from oresmith.release.hub.refusal import Refusal

Kind = Literal["model", "dataset"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MAX_PATH = 1000
"""Bytes of a file's path, as on the Hub's own storage."""
_OWNER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,40}[A-Za-z0-9])?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,94}[A-Za-z0-9_]|[A-Za-z0-9]")
_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}(?:/[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}){0,5}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_OID = re.compile(r"[0-9a-f]{64}")
_RESERVED = {"api", "datasets", "models", "spaces", "collections", "objects", "static", "docs", "settings", "join"}
_WINDOWS = re.compile(r"[\x00-\x1f\x7f\\]")


def kind_of(plural: str) -> Kind:
    """`models` or `datasets` of an address.

    Raises:
        Refusal: 404, a kind that is not held here (Spaces).
    """
    for kind in KINDS:
        if plural == f"{kind}s":
            return kind
    raise Refusal(404, "This Hub holds models and datasets only", "RepoNotFound")


def repository(owner: str, name: str) -> tuple[str, str]:
    """Both parts of a repository's id, each safe as the name of a folder.

    Raises:
        Refusal: 400.
    """
    bad_end = name.lower().endswith((".git", ".ipynb", ".lock"))
    if not _OWNER.fullmatch(owner) or owner.lower() in _RESERVED or "--" in owner:
        raise Refusal(400, "Invalid owner: letters, digits and single hyphens, 42 characters at most")
    if not _NAME.fullmatch(name) or ".." in name or "--" in name or bad_end:
        raise Refusal(400, "Invalid repository name: letters, digits, -, _ and ., 96 characters at most")
    return owner, name


def ref_name(name: str) -> str:
    """The name of a branch or tag.

    Raises:
        Refusal: 400.
    """
    parts = name.split("/")
    bad = ".." in name or any(part.endswith((".", ".lock")) for part in parts) or parts[0] in ("refs", "HEAD")
    if not _REF.fullmatch(name) or bad or _COMMIT.fullmatch(name):
        raise Refusal(400, "Invalid name of a branch or tag")
    return name


def is_commit(revision: str) -> bool:
    """Whether a revision is the whole id of a commit."""
    return bool(_COMMIT.fullmatch(revision))


def is_ref(revision: str) -> bool:
    """Whether a revision can be the name of a branch or tag."""
    try:
        ref_name(revision)
    except Refusal:
        return False
    return True


def oid(text: object) -> str:
    """The sha256 of a large file.

    Raises:
        Refusal: 422.
    """
    if not isinstance(text, str) or not _OID.fullmatch(text):
        raise Refusal(422, "An oid is a sha256 in 64 small hexadecimal digits")
    return text


def file_path(path: object) -> str:
    """A path in a repository that any checkout can hold: relative, forward, no control characters, nothing of git's.

    Raises:
        Refusal: 400.
    """
    if not isinstance(path, str) or not path or _WINDOWS.search(path):
        raise Refusal(400, "Invalid path in repository")
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        raise Refusal(400, "Invalid path in repository: half a surrogate") from None
    if length > MAX_PATH:
        raise Refusal(400, f"Invalid path in repository: more than {MAX_PATH} bytes")
    for part in path.split("/"):
        # git's own check ignores characters that some file systems do: so must ours
        seen = "".join(c for c in unicodedata.normalize("NFKC", part) if unicodedata.category(c) != "Cf").lower()
        if part in ("", ".", "..") or seen.rstrip(". ") in (".git", "git~1") or len(part.encode()) > 255:
            raise Refusal(400, "Invalid path in repository")
    return path
