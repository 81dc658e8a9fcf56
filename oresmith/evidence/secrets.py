"""Secrets, personal data and server paths in a trajectory: typed and located, never copied.

What is found, by kind:

* `secret`: keys and tokens of known services, private keys, seed phrases (BIP-39 with a right check sum, or behind a
  label), wallet key files, authorisation headers, labelled values and `.env` lines, credentials in URLs;
* `personal`: e-mail addresses, phone numbers (international with `+`, Philippine mobile numbers, area codes in
  brackets), public IPv4 addresses, payment cards (Luhn), IBANs (mod 97), SS58 wallet addresses (check sum);
* `path`: paths of a server's file system, which error messages carry.

Invisible characters inside a value, look-alike letters, URL quoting and JSON escapes are seen through (`plain_view`).
Not seen: values in base64 or another encoding, split over fields, or spelt out; names and postal addresses; seed
phrases in capitals or in another language; national phone numbers of other countries.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from oresmith.evidence.scanner import Finding, Scanner
from oresmith.evidence.secret_patterns import PATHS, PERSONAL, SECRETS
from oresmith.evidence.texts import parts
from oresmith.records import Trajectory

__all__ = ["SECRET_SCAN", "Finding", "find_secrets", "find_secrets_in"]

SECRET_SCAN = "oresmith-secrets/1"
"""Name and version of the pattern set; a change that can change a finding changes the version."""


@cache
def _scanner() -> Scanner:
    return Scanner((*SECRETS, *PERSONAL, *PATHS), numbers=True)


def find_secrets(trajectory: Trajectory) -> list[Finding]:
    """Find secrets, personal data and server paths in all that the source brought (`texts.parts`).

    Args:
        trajectory: any trajectory.

    Returns:
        Findings in the order of the record, `scanner.MAX_FINDINGS` at most. Never raises.
    """
    return _scanner().find(lambda: parts(trajectory))


def find_secrets_in(where: str, value: Any) -> list[Finding]:
    """The same for any JSON value (a reject, a document), `where` being the root of the places."""
    return _scanner().find_in(where, value)
