"""Ids, brands and model names: functions of the seed and a number, without a table that grows with the world."""

from __future__ import annotations

import hashlib
from math import gcd

from oresmith.errors import OresmithError

MAX_DOCUMENTS = 9_000_000
_TAGS = 1_000_000
_HALF = 3_000_000
_FIRST_ID = 10**12
_SHOPS = 90_000_000
_FLAGSHIPS = 60_000_000
"""Number of the first brand's own shop; street shops count up from 0."""

BRANDS_PER_DEPARTMENT = 24_000

_ONSETS = "B Br C Cr D Dr F Fl G Gr H J K Kl L M N P Pr Qu R S Sk St T Tr V W X Y Z".split()
_RIMES = "al am an ar el en er ev il in or ol um un yl".split()
_MIDDLES = (
    "a e i o u an en in on ar er ir or al el il ol av ev iv ad ed id od am em im om as es is os at et it ot ag eg og "
    "abi eri ovo ula ani ema ido oru avi eto isa ola"
).split()
_TAILS = (
    "vale santo trel bra field lon sa lock doli vera mont ric dane kin mar wick tex zen nova quist dor lia ster vik "
    "pax tine rell gard hana beck lund core lux mira tano rino zo ka ty ro va xi ne lo da"
).split()
_SUFFIXES = ("Home", "Lab", "Co", "Studio", "Gear", "Living", "Works", "House", "Plus", "Supply")
_FRONTS, _BACKS = len(_ONSETS) * len(_RIMES) * 2, len(_MIDDLES) * len(_TAILS) // 2
_MODELS = (
    "Aerolite Breezon Cascado Daylume Everon Flexora Glidon Harbora Inovia Jetlan Kinetra Loftia Meridia Nimbra Orbita "
    "Pulsara Quantia Ridgeon Solenta Tempora Ultrano Vantia Wavelin Xenora Yonder Zephira Alpena Boldra Cresta Duneo "
    "Ember Fjorda Granova Horizo Islara Junipra Kodara Lumino Mistral Nordika Oakena Pebbla Quorra Rivera Summitra "
    "Tundra Umbria Velour Willow Xylo Yarrow Zenit Arcado Basalto Cobalta Delphi Elara Festo Giro Halo Indigo Jaspero "
    "Kelvo Lyric Mosaica Neptra Opalo Prisma Quilla Roneo Sable Topaza Unison Verano Windra Zorro Brava Coralo Drift"
).split()
_LETTERS = "ABCDEFGHJKLMNPRSTUVWXYZ"


class Names:
    """The names of one seed's world."""

    def __init__(self, seed: int) -> None:
        digest = hashlib.blake2b(f"oresmith-world/1/names/{seed}".encode(), digest_size=32).digest()
        keys = [int.from_bytes(digest[place : place + 8], "big") for place in range(0, 32, 8)]
        tag = seed if 0 <= seed < _TAGS else keys[0] % _TAGS
        self._first = tag * MAX_DOCUMENTS
        self._brand_keys = keys[1], keys[2]
        self._shop_step, self._shop_start = _coprime(keys[2], _SHOPS), keys[3]

    def product_id(self, number: int) -> str:
        """13 decimal digits for the document of this number.

        Two documents of a seed never share one, and two seeds from 0 to 999,999 never share one either: number and
        seed together are a place in a space of 9e12, which a Feistel network shuffles. Other seeds take the place of
        one of those, found by a hash.

        Raises:
            OresmithError: the number is not below `MAX_DOCUMENTS`.
        """
        if not 0 <= number < MAX_DOCUMENTS:
            raise OresmithError("no such product", expected=f"a number below {MAX_DOCUMENTS:,}", got=str(number)[:40])
        high, low = divmod(self._first + number, _HALF)
        high = (high + (low * low * 2_654_435_761 >> 9)) % _HALF
        low = (low + (high * high * 2_246_822_519 >> 11)) % _HALF
        high = (high + (low * low * 3_266_489_917 >> 10)) % _HALF
        return str(_FIRST_ID + high * _HALF + low)

    def shop_id(self, number: int) -> str:
        """8 decimal digits for a shop; no two of a seed are equal."""
        return str(10_000_000 + (number * self._shop_step + self._shop_start) % _SHOPS)

    def flagship_id(self, brand: int) -> str:
        """The shop id of a brand's own shop."""
        return self.shop_id(_FLAGSHIPS + brand)

    def brand(self, number: int) -> str:
        """The name of a brand: one of a million, which the seed shuffles; no two of a seed are equal."""
        one, other = self._brand_keys
        front, back = (number + one) % _FRONTS, (number + one) // _FRONTS % _BACKS
        back = (back + (front * front * 2_654_435_761 + other >> 9)) % _BACKS
        front = (front + (back * back * 2_246_822_519 + other >> 11)) % _FRONTS
        place = front * _BACKS + back
        place, onset = divmod(place, len(_ONSETS))
        place, rime = divmod(place, len(_RIMES))
        tail, middle = divmod(place, len(_MIDDLES))
        name = f"{_ONSETS[onset]}{_RIMES[rime]}{_MIDDLES[middle]}{_TAILS[tail]}"
        return name if number % 5 else f"{name} {_SUFFIXES[number // 5 % len(_SUFFIXES)]}"

    @staticmethod
    def model(one: float, other: float) -> tuple[str, str]:
        """A line's name and its maker's code, as in ("Aerolite K48", "AK-4812"), from two numbers of [0, 1)."""
        word = _MODELS[int(one * len(_MODELS))]
        digits = int(other * 230_000)
        letter, digits = _LETTERS[digits % 23], digits // 23
        return f"{word} {letter}{digits % 90 + 10}", f"{word[0]}{letter}-{digits % 9000 + 1000}"


def _coprime(key: int, modulus: int) -> int:
    """A number near key mod modulus that shares no divisor with the modulus: its multiples visit every place once."""
    step = key % modulus | 1
    while gcd(step, modulus) != 1:
        step += 2
    return step
