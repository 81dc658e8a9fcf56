"""The never-touch vault: problems that nobody may see are recognised by keyed hashes of their keys alone.

The file is text: the line `oresmith.vault/1 oresmith.problem-keys/1`, then one HMAC-SHA256 (hex) a line, sorted. The
secret lies in a file of its own. Without it the file says neither which problems it holds nor whether a guess is right.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from oresmith.errors import OresmithError
from oresmith.leakage.keys import KEYS_VERSION, ProblemKeys

VAULT_HEADER = f"oresmith.vault/1 {KEYS_VERSION}"
MIN_SECRET = 16
"""Bytes that a secret must have."""
_LINE = re.compile(r"[0-9a-f]{64}")


def read_secret(path: str | Path) -> bytes:
    """Read a secret without its line end. Errors: OresmithError for no file or one that is too short."""
    try:
        secret = Path(path).read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise OresmithError("the vault's secret cannot be read", where=str(path), got=type(error).__name__) from error
    if len(secret) < MIN_SECRET:
        raise OresmithError(
            "the vault's secret is too short",
            where=str(path),
            expected=f"{MIN_SECRET} bytes or more",
            got=str(len(secret)),
        )
    return secret


class Vault:
    """Recognises problems of the vault; shows none of them."""

    def __init__(self, hashes: Iterable[str], secret: bytes) -> None:
        self._hashes, self._secret = frozenset(hashes), secret

    @classmethod
    def load(cls, path: str | Path, secret_path: str | Path) -> Vault:
        """Read a vault. Errors: OresmithError for a missing or unreadable file, naming the line."""
        secret = read_secret(secret_path)
        try:
            header, *lines = Path(path).read_text("ascii").splitlines()
        except (OSError, ValueError) as error:
            raise OresmithError(
                "the vault cannot be read", where=str(path), expected=VAULT_HEADER, got=type(error).__name__
            ) from error
        if header != VAULT_HEADER:
            raise OresmithError(
                "the vault is of another version",
                where=f"{path}:1",
                expected=VAULT_HEADER,
                got=header[:80],
                todo="write it anew with this version",
            )
        for number, line in enumerate(lines, 2):
            if _LINE.fullmatch(line) is None:
                raise OresmithError("not a keyed hash", where=f"{path}:{number}", expected="64 hex digits")
        return cls(lines, secret)

    def holds(self, keys: ProblemKeys, specification: bool) -> bool:
        """Whether a problem shares a key with one of the vault.

        Args:
            keys: the problem's.
            specification: whether its specification states enough to be a key.
        """
        return any(found in self._hashes for found in _hashes(keys, specification, self._secret))


def encode_vault(problems: Iterable[tuple[ProblemKeys, bool]], secret: bytes) -> str:
    """The vault file of problems, each with whether its specification states enough to be a key."""
    hashes = {found for keys, specification in problems for found in _hashes(keys, specification, secret)}
    return "\n".join([VAULT_HEADER, *sorted(hashes)]) + "\n"


def _hashes(keys: ProblemKeys, specification: bool, secret: bytes) -> Iterator[str]:
    kinds = [("query", keys.query), ("base", keys.base), ("tokens", keys.tokens)]
    kinds += [("gold", gold) for gold in keys.gold] + ([("spec", keys.spec)] if specification else [])
    stated = [(kind, key) for kind, key in kinds if key]
    for kind, key in stated or [("problem", keys.problem)]:
        yield hmac.digest(secret, f"{kind}\0{key}".encode(), "sha256").hex()
