"""The keys of a problem: what two problems share when they are one and the same, in whatever spelling.

A key is a sha256, so keys can be published, stored for good in the ledger and compared by anyone without the problems
themselves. `KEYS_VERSION` changes whenever any key of any problem would: keys of two versions are never compared.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from oresmith.leakage.spec import read_reward
from oresmith.leakage.text import digest, fold, squeeze, tokens, words
from oresmith.leakage.voucher import without_voucher
from oresmith.records import Problem, Record

KEYS_VERSION = "oresmith.problem-keys/1"
"""Name and version of the derivation below; files that hold keys carry it."""

ABSENT = bytes(32)
"""Stands for a missing key where keys are strung together."""
_NAME_PREFIX = f"problem\0{KEYS_VERSION}\0".encode()
FLAGS = ("no_query", "no_base", "no_reward", "no_gold", "malformed_reward", "voucher_text_missing")
"""What a problem lacks, so that a missing key is never mistaken for a distinct one. Bit i of a flag set is entry i."""


class ProblemKeys(Record, frozen=True):
    """The keys of one problem, hex; "" where the problem does not state what the key is made of."""

    problem: str
    """Names the problem: sha256 of "problem", NUL, `KEYS_VERSION`, NUL and the 32 bytes of each key below in the order
    query, base, tokens, spec, then gold; 32 zero bytes where one is missing. Two rows with one name are one problem."""
    query: str = ""
    """The whole query: NFKC, case folded, word characters only."""
    base: str = ""
    """The same without its voucher text; equal to `query` where there is none."""
    tokens: str = ""
    """The order-free set of the base query's words, without function words and plural s."""
    gold: tuple[str, ...] = ()
    """One key for each gold product id, in the order of the ids, whatever the category."""
    spec: str = ""
    """The order-free reward specification without gold ids and titles."""
    constraints: int = 0
    """Constraints that `spec` states."""
    pairs: int = 0
    """How many of them are attribute or SKU pairs."""
    flags: tuple[str, ...] = ()
    """Of `FLAGS`."""

    @property
    def known(self) -> bool:
        """Whether anything is known of the problem; of two that are unknown nobody can say whether they are one."""
        return bool(self.query or self.gold or self.spec)


class Reading(NamedTuple):
    """The keys as bytes (b"" where absent), and what clustering needs beside them and no file may hold."""

    problem: bytes
    query: bytes
    base: bytes
    tokens: bytes
    spec: bytes
    gold: tuple[bytes, ...]
    constraints: int
    pairs: int
    flags: int
    """Bit i is entry i of `FLAGS`."""
    gold_ids: tuple[str, ...]
    """In the order of `gold`."""
    words: frozenset[str]
    """Token set of the base query."""
    title_words: frozenset[str]
    """Token set of the gold titles."""

    def keys(self) -> ProblemKeys:
        """The keys in the form that files hold."""
        return ProblemKeys(
            problem=self.problem.hex(),
            query=self.query.hex(),
            base=self.base.hex(),
            tokens=self.tokens.hex(),
            gold=tuple(gold.hex() for gold in self.gold),
            spec=self.spec.hex(),
            constraints=self.constraints,
            pairs=self.pairs,
            flags=flag_names(self.flags),
        )


def flag_names(bits: int) -> tuple[str, ...]:
    """The entries of `FLAGS` whose bits are set."""
    return tuple(flag for bit, flag in enumerate(FLAGS) if bits >> bit & 1)


def read_problem(problem: Problem) -> Reading:
    """Read one problem's keys and words.

    Never raises, whatever JSON stands in `reward` and `voucher`: a problem without a readable reward has the keys of
    its query alone, and the flags say so.
    """
    folded = fold(problem.query) if isinstance(problem.query, str) else ""
    rest, cut = without_voucher(folded, problem.voucher)
    whole = words(folded)
    kept = words(rest) if cut else whole
    query, bag = squeeze(whole), tokens(kept)
    base = squeeze(kept) if cut else query
    spec = read_reward(problem.reward)
    query_key = digest(b"query", query) if query else b""
    base_key = query_key if base == query else digest(b"query", base) if base else b""
    tokens_key = digest(b"tokens", "\n".join(sorted(bag))) if bag else b""
    spec_key = digest(b"spec", spec.text) if spec.text else b""
    gold = tuple([digest(b"gold", gold_id) for gold_id in spec.gold_ids])
    parts = [key or ABSENT for key in (query_key, base_key, tokens_key, spec_key)]
    if not query:
        # Queries without any word character still differ, and so do ids where nothing else is known.
        parts.append(digest(b"anonymous", f"{folded}\0{problem.problem_id}"))
    lost_voucher = isinstance(problem.voucher, dict) and not cut
    return Reading(
        problem=hashlib.sha256(_NAME_PREFIX + b"".join([*parts, *gold])).digest(),
        query=query_key,
        base=base_key,
        tokens=tokens_key,
        spec=spec_key,
        gold=gold,
        constraints=spec.constraints,
        pairs=spec.pairs,
        flags=(not query)
        | (not base) << 1
        | (problem.reward is None) << 2
        | (not gold) << 3
        | spec.malformed << 4
        | lost_voucher << 5,
        gold_ids=spec.gold_ids,
        words=bag,
        title_words=spec.title_words,
    )


def problem_keys(problem: Problem) -> ProblemKeys:
    """The keys of one problem; see `read_problem`."""
    return read_problem(problem).keys()


def word_hash(word: str) -> int:
    """64-bit hash of a token, the same on every machine and in every process."""
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
