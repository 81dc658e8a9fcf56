"""Invented secrets and personal data, made at run time from a run's own stream: of the right shape, and nobody's.

The names of the kinds are those of the pattern set that looks for them (docs: oresmith-secrets/1).
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import string
from collections.abc import Callable

from oresmith.records import Record

_ALNUM = string.ascii_letters + string.digits
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_HEX = "0123456789abcdef"
_UPPER = string.ascii_uppercase + string.digits
_SEED_WORDS = """
    Anchor Basket Cabin Dolphin Eager Fabric Galaxy Harbor Icon Jungle Kitchen Ladder Magnet Noble Ocean Paddle
    Quantum Rabbit Saddle Tackle Umbrella Vacuum Walnut Young Zebra Bamboo Canyon Desert Enable Feature Gravity
    Hybrid Island Jacket Kiwi Lemon Marble Nephew Orbit Panther
""".lower().split()
"""Words of BIP-39, in capitals here, lest this file be taken for a wallet."""


class Secret(Record, frozen=True):
    """One planted secret."""

    type: str
    text: str
    """The secret with what gives it away, as it is written into a trace."""


def draw_secret(draws: random.Random) -> Secret:
    """Invent a secret of any kind."""
    kind = draws.choice(KINDS)
    return Secret(type=kind, text=_MAKERS[kind](draws))


def _chars(draws: random.Random, alphabet: str, size: int) -> str:
    """Random characters that no placeholder check takes for an example: no six alike in a row, letters and digits."""
    while True:
        drawn = "".join(draws.choices(alphabet, k=size))
        alike = any(drawn[place] * 4 in drawn for place in range(size))
        mixed = any(char.isdigit() for char in drawn) and any(char.isalpha() for char in drawn)
        if mixed and not alike and "xxx" not in drawn.lower() and len(set(drawn)) >= 8:
            return drawn


def _jwt(draws: random.Random) -> str:
    parts = [{"alg": "HS256", "typ": "JWT"}, {"sub": _chars(draws, _HEX, 12), "iat": draws.randrange(10**9, 2 * 10**9)}]
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*coded, _chars(draws, _ALNUM, 43)])


def _wallet(draws: random.Random) -> str:
    """An SS58 address of the generic Substrate network with its check sum."""
    data = bytes([42]) + draws.randbytes(32)
    data += hashlib.blake2b(b"SS58PRE" + data).digest()[:2]
    number, letters = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        letters = _BASE58[digit] + letters
    return letters


_MAKERS: dict[str, Callable[[random.Random], str]] = {
    "openai_key": lambda draws: "sk-proj-" + _chars(draws, _ALNUM, 48),
    "openrouter_key": lambda draws: "sk-or-v1-" + _chars(draws, _HEX, 64),
    "anthropic_key": lambda draws: "sk-ant-api03-" + _chars(draws, _ALNUM, 80),
    "huggingface_token": lambda draws: "hf_" + _chars(draws, _ALNUM, 34),
    "aws_access_key": lambda draws: "AKIA" + _chars(draws, _UPPER, 16),
    "google_api_key": lambda draws: "AIza" + _chars(draws, _ALNUM, 35),
    "github_token": lambda draws: "ghp_" + _chars(draws, _ALNUM, 36),
    "chutes_token": lambda draws: "cpk_" + ".".join(_chars(draws, _HEX, 32) for _ in range(2)),
    "groq_key": lambda draws: "gsk_" + _chars(draws, _ALNUM, 52),
    "slack_token": lambda draws: "xoxb-" + "-".join((_chars(draws, _HEX, 12), _chars(draws, _ALNUM, 24))),
    "jwt": _jwt,
    "bearer_token": lambda draws: "Bearer " + _chars(draws, _ALNUM, 40),
    "url_credentials": lambda draws: (
        f"http://miner:{_chars(draws, _ALNUM, 14)}@cache-{draws.randrange(9)}.internal:6379/0"
    ),
    "password": lambda draws: "password=" + _chars(draws, _ALNUM, 16),
    "env_assignment": lambda draws: "WALLET_SECRET=" + _chars(draws, _ALNUM, 32),
    "wallet_address": _wallet,
    "email": lambda draws: f"{_chars(draws, _HEX, 9)}@quarrymail.io",
    "seed_phrase": lambda draws: "seed phrase: " + " ".join(draws.sample(_SEED_WORDS, 12)),
}
KINDS = tuple(_MAKERS)
