"""Decisions by meaning on what a pattern matched: check sums, ranges, and values that only look like secrets."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from functools import cache
from hashlib import blake2b, sha256
from importlib.resources import files

Span = tuple[int, int]

_PLACEHOLDER = re.compile(
    r"[xX*.#_-]{5}|(.)\1{5}|(?i:example|placeholder|redacted|your[-_]?(?:api|key|token|secret|pass)|changeme|dummy[-_]"
    r"|1234567890|0123456789|abcdefghij)"
)
_CLASSES = (re.compile("[a-z]"), re.compile("[A-Z]"), re.compile("[0-9]"))
_LEAST_DISTINCT = 8
_BASE58 = {letter: place for place, letter in enumerate("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz")}
_WORD = re.compile("[a-z]+")
_BETWEEN = re.compile(r"[\s\d]+")
_SEED_SIZES = (24, 21, 18, 15, 12)
_TWELVE = b"\1" * _SEED_SIZES[-1]
_LEAST_WORDS = 10
"""Distinct words of a seed phrase: of 12 drawn, fewer come once in 100,000. Lists of options (size, inch, color, gold,
size, ..) repeat theirs, and one window in 16 has a right sum by chance."""
_FILE_ENDINGS = frozenset("png jpg jpeg gif svg webp bmp ico css js ts py json html htm mp mk".split())
_VERSIONED = re.compile(r"(?i)(?:version|ver|android|ios|firmware|bluetooth|chrome|windows|build|release)[ .:]{0,3}\Z")
_RESERVED = re.compile(r"(?i)(?:^|[@.])(?:example\.(?:com|net|org)|test|invalid|example|localhost|local)$")
_IBAN_LENGTHS = {
    **dict.fromkeys("NO".split(), 15),
    **dict.fromkeys("BE".split(), 16),
    **dict.fromkeys("DK FI FO GL NL SD".split(), 18),
    **dict.fromkeys("MK SI".split(), 19),
    **dict.fromkeys("AT BA EE KZ LT LU XK".split(), 20),
    **dict.fromkeys("CH CR HR LI LV".split(), 21),
    **dict.fromkeys("BG BH DE GB GE IE ME RS".split(), 22),
    **dict.fromkeys("AE GI IL IQ TL".split(), 23),
    **dict.fromkeys("AD CZ ES MD PK RO SA SE SK TN VG".split(), 24),
    **dict.fromkeys("LY PT ST".split(), 25),
    **dict.fromkeys("IS TR".split(), 26),
    **dict.fromkeys("FR GR IT MC MR SM".split(), 27),
    **dict.fromkeys("AL AZ BY CY DO GT HU LB NI PL SV".split(), 28),
    **dict.fromkeys("BR EG PS QA UA".split(), 29),
    **dict.fromkeys("JO KW MU".split(), 30),
    **dict.fromkeys("MT SC".split(), 31),
    **dict.fromkeys("LC".split(), 32),
    **dict.fromkeys("RU".split(), 33),
}
"""Country -> characters of its IBANs (SWIFT's IBAN registry)."""


def _classes(value: str) -> int:
    return sum(bool(kind.search(value)) for kind in _CLASSES)


def random_token(text: str, start: int, end: int) -> Span | None:
    """Keep a token that looks drawn at random: several kinds of characters, many distinct ones, no placeholder."""
    value = text[start:end]
    drawn = _classes(value) >= 2 and len(set(value)) >= _LEAST_DISTINCT and not _PLACEHOLDER.search(value)
    return (start, end) if drawn else None


def upper_token(text: str, start: int, end: int) -> Span | None:
    """Keep a token of capitals and digits that is no placeholder (AWS's own example key is one)."""
    value = text[start:end]
    return (start, end) if len(set(value)) >= _LEAST_DISTINCT and not _PLACEHOLDER.search(value) else None


def labelled_value(text: str, start: int, end: int) -> Span | None:
    """Keep a value behind a label such as `token:` that is no word, no reference and no placeholder.

    With digits and letters it counts; letters alone must be mixed as random ones are, since `Secret: AuthenticPerfume`
    is not a secret.
    """
    value = text[start:end].rstrip(".,:!?")
    letters = [letter for letter in value if letter.isalpha()]
    upper = sum(letter.isupper() for letter in letters)
    mixed = len(letters) >= 8 and "-" not in value and 0.25 <= upper / len(letters) <= 0.75
    digits = any(letter.isdigit() for letter in value)
    if not (letters and (digits or mixed)) or "://" in value or len(set(value)) < 6 or _PLACEHOLDER.search(value):
        return None
    return start, start + len(value)


def any_password(text: str, start: int, end: int) -> Span | None:
    """Keep what stands where only a password can stand, unless it is a placeholder, a variable or too plain."""
    value = text[start:end]
    plain = _PLACEHOLDER.search(value) or len(set(value)) < 4 or value.lower() in ("password", "pass", "secret")
    return None if plain or value[0] in "<{$%[" else (start, end)


def assigned_password(text: str, start: int, end: int) -> Span | None:
    """Keep what is assigned to a password with `=`, which prose never does, if it has two kinds of characters."""
    value = text[start:end].rstrip(".,:!?")
    if _classes(value) < 2 or any_password(text, start, start + len(value)) is None:
        return None
    return start, start + len(value)


def wallet_address(text: str, start: int, end: int) -> Span | None:
    """Keep an SS58 address of the generic Substrate network (hotkeys and coldkeys) whose check sum is right."""
    number = 0
    for letter in text[start:end]:
        number = number * 58 + _BASE58[letter]
    if number >> 280:
        return None
    data = number.to_bytes(35, "big")
    right = blake2b(b"SS58PRE" + data[:33]).digest()[:2] == data[33:]
    return (start, end) if data[0] == 42 and right else None


@cache
def seed_words() -> dict[str, int]:
    """The 2,048 English words of the BIP-39 standard and their numbers."""
    words = files("oresmith.evidence").joinpath("bip39_english.txt").read_text("ascii").split()
    return {word: number for number, word in enumerate(words)}


def seed_words_in_a_row(text: str) -> bool:
    """Whether 12 lower-case words of the list follow one another, whatever stands between them: the quick question."""
    known = map(seed_words().__contains__, _WORD.findall(text))
    return _TWELVE in bytes(known)


def seed_phrase(text: str, start: int, end: int) -> Span | None:
    """Keep words of BIP-39 of which 12 to 24 in a row have a right check sum.

    All words of the list in a row are kept: neighbours that are in it too may make a second right sum by chance.
    """
    for run in _seed_runs(text, start, end):
        for first in range(len(run)):
            for size in _SEED_SIZES:
                stretch = run[first : first + size]
                numbers = [number for _, _, number in stretch]
                if len(numbers) == size and len(set(numbers)) >= _LEAST_WORDS and _checksum_holds(numbers):
                    return run[0][0], run[-1][1]
    return None


def labelled_seed(text: str, start: int, end: int) -> Span | None:
    """Keep 12 words or more of BIP-39 behind a label, whatever their check sum: a typo does not make them safe."""
    for run in _seed_runs(text, start, end):
        return run[0][0], run[-1][1]
    return None


def _seed_runs(text: str, start: int, end: int) -> list[list[tuple[int, int, int]]]:
    """Stretches of 12 words or more that are all in the list: start, end and number of each word.

    What stands between them must stay the same, numbers and the kind of white space aside: a phrase is a list, numbered
    or not, while "blade material: high carbon; blade length: 8 inch" is a product's facts.
    """
    known, joint = seed_words(), ""
    runs: list[list[tuple[int, int, int]]] = []
    run: list[tuple[int, int, int]] = []
    for match in _WORD.finditer(text, start, end):
        number = known.get(match.group())
        if number is None:
            runs.append(run)
            run = []
            continue
        before = _BETWEEN.sub(" ", text[run[-1][1] : match.start()]) if run else ""
        if len(run) > 1 and before != joint:
            runs.append(run)
            run = run[-1:]
        joint = before
        run.append((*match.span(), number))
    return [run for run in [*runs, run] if len(run) >= _SEED_SIZES[-1]]


def _checksum_holds(numbers: list[int]) -> bool:
    bits = len(numbers) * 11
    check_bits = bits // 33
    whole = 0
    for number in numbers:
        whole = whole << 11 | number
    entropy = (whole >> check_bits).to_bytes((bits - check_bits) // 8, "big")
    return sha256(entropy).digest()[0] >> (8 - check_bits) == whole & ((1 << check_bits) - 1)


def email(text: str, start: int, end: int) -> Span | None:
    """Keep an address whose domain can exist: no file name, no domain reserved for examples."""
    value = text[start:end]
    ending = value.rpartition(".")[2].lower()
    local = value.partition("@")[0]
    usable = ending not in _FILE_ENDINGS and not _RESERVED.search(value) and local.strip(".") == local
    return (start, end) if usable else None


def phone(text: str, start: int, end: int) -> Span | None:
    """Keep 9 to 15 digits (E.164) that are not all alike."""
    digits = [letter for letter in text[start:end] if letter.isdigit()]
    return (start, end) if 9 <= len(digits) <= 15 and len(set(digits)) > 2 else None


def public_address(text: str, start: int, end: int) -> Span | None:
    """Keep a public IPv4 address. Four numbers below 10, or four behind such as `Android`, are read as a version."""
    if _VERSIONED.search(text, max(0, start - 16), start):
        return None
    value = text[start:end]
    try:
        address = ipaddress.IPv4Address(value)
    except ValueError:
        return None
    return (start, end) if address.is_global and max(address.packed) >= 10 and address.packed[0] else None


def card(text: str, start: int, end: int) -> Span | None:
    """Keep a number whose check digit is right (Luhn) and whose digits vary as a card's do."""
    digits = [int(letter) for letter in text[start:end] if letter in "0123456789"]
    doubled = [2 * digit - 9 if digit > 4 else 2 * digit for digit in digits[-2::-2]]
    varied = Counter(digits).most_common(1)[0][1] <= len(digits) // 2
    return (start, end) if varied and (sum(doubled) + sum(digits[-1::-2])) % 10 == 0 else None


def iban(text: str, start: int, end: int) -> Span | None:
    """Keep an IBAN of its country's length whose check digits are right; what follows it is cut off."""
    wanted = _IBAN_LENGTHS.get(text[start : start + 2], 0)
    places = [place for place in range(start, end) if text[place] != " "][:wanted]
    if not wanted or len(places) < wanted or text[places[-1] + 1 : places[-1] + 2].isalnum():
        return None
    value = "".join(text[place] for place in places)
    number = "".join(str(int(letter, 36)) for letter in value[4:] + value[:4])
    return (start, places[-1] + 1) if int(number) % 97 == 1 else None
