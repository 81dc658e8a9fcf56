"""A model's tokenizer as rendering uses it: plain text and control tokens are encoded apart.

Only `tokenizers` is needed, no torch. Plain text goes through a copy that knows no control token at all, so that no
text can become one, whichever control tokens the tokenizer has.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from oresmith.errors import OresmithError
from oresmith.models.template import CHATML

TOKENIZER_FILE = "tokenizer.json"
MAX_BYTES = 64 * 2**20
"""Of the tokenizer's file."""
_PROBE = " Two  blanks,\n\n\tlines and 1203 é 価格 🛒 <|im_end|> </tool_call>"


class ChatTokenizer:
    """Encodes segments of a rendered conversation.

    Args:
        raw: bytes of a `tokenizer.json`.
        where: its place, for messages.

    Raises:
        OresmithError: it is no such file, it lacks the control tokens of our templates, or it does not keep text.
    """

    def __init__(self, raw: bytes, where: str = TOKENIZER_FILE) -> None:
        self.sha256 = hashlib.sha256(raw).hexdigest()
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise OresmithError(
                "the package `tokenizers` is not installed", todo="pip install 'oresmith[data]'"
            ) from error
        try:
            definition = json.loads(raw)
            self.control = {str(token["content"]): int(token["id"]) for token in definition["added_tokens"]}
            self._whole = Tokenizer.from_str(raw.decode())
            self._plain = Tokenizer.from_str(json.dumps(definition | {"added_tokens": [], "post_processor": None}))
            self._whole.no_truncation()
            self._plain.no_truncation()
            self._plain.no_padding()
        except Exception as error:  # `tokenizers` raises bare Exception
            raise OresmithError("not a tokenizer", where=where, got=str(error)[:200]) from error
        missing = [token for token in CHATML if token not in self.control]
        if missing:
            raise OresmithError(
                "no chat template of ours fits this tokenizer",
                where=where,
                expected=f"the control tokens {' and '.join(CHATML)}",
                got=f"without {' and '.join(missing)}",
                todo="choose a model that was trained on ChatML, such as Qwen3 or SmolLM2",
            )
        self._check(where)

    @classmethod
    def load(cls, directory: Path) -> ChatTokenizer:
        """The tokenizer of a model's directory.

        Raises:
            OresmithError: as the class; or there is no `tokenizer.json`, or it is too large.
        """
        path = directory / TOKENIZER_FILE
        if not path.is_file():
            raise OresmithError(
                "no readable tokenizer",
                where=str(path),
                todo=f"save the tokenizer in its fast form, which writes {TOKENIZER_FILE}",
            )
        if path.stat().st_size > MAX_BYTES:
            raise OresmithError("the tokenizer is too large", where=str(path), expected=f"up to {MAX_BYTES} bytes")
        return cls(path.read_bytes(), str(path))

    @property
    def end(self) -> int:
        """Id of the token that ends a turn."""
        return self.control[CHATML[1]]

    @property
    def start(self) -> int:
        """Id of the token that begins a turn."""
        return self.control[CHATML[0]]

    @cached_property
    def size(self) -> int:
        """One more than the largest id."""
        return 1 + max(self._whole.get_vocab(with_added_tokens=True).values())

    def plain(self, text: str) -> list[int]:
        """Ids of a text as plain text, whatever control tokens are written out in it."""
        ids: list[int] = self._plain.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, control tokens written out."""
        text: str = self._whole.decode(list(ids), skip_special_tokens=False)
        return text

    def normal(self, text: str) -> str:
        """The text as encoding sees it: Qwen's tokenizer brings it to NFC."""
        normalizer: Any = self._whole.normalizer
        return text if normalizer is None else str(normalizer.normalize_str(text))

    def _check(self, where: str) -> None:
        """Refuse a tokenizer that loses text or lets plain text become a control token."""
        for text in (_PROBE, *self.control):
            ids = self.plain(text)
            if set(ids) & set(self.control.values()) or self.decode(ids) != self.normal(text):
                raise OresmithError(
                    "the tokenizer does not keep text as it is",
                    where=where,
                    expected="a byte-level tokenizer, as those of Qwen3 and SmolLM2",
                    got=repr(text[:60]),
                )
