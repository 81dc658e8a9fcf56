"""What the servers of a Hub share: what it holds, who may use it, where its addresses lead and what they grant."""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass, field

from oresmith.release.hub import names
from oresmith.release.hub.accounts import Accounts
from oresmith.release.hub.refusal import Refusal
from oresmith.release.hub.repository import Repository
from oresmith.release.hub.store import Store

PART_BYTES = 4 << 30
IMAGES = {"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif"}
"""What a browser may show by itself; all else is text or a download, so that no file of a repository runs in it."""
GUARDED = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}


@dataclass(frozen=True)
class Hub:
    """What endpoints share."""

    store: Store
    accounts: Accounts
    base: str
    """`http://127.0.0.1:PORT`."""
    files: str
    """Where large files come and go. Another origin, so that no client sends its token there."""
    part_bytes: int = PART_BYTES
    """Large files beyond it are uploaded in parts."""
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def sign(self, *facts: object) -> str:
        """A signature over what an address grants; it is good until this server ends."""
        return hmac.new(self.secret, repr(facts).encode(), "sha256").hexdigest()

    def require_signed(self, given: str | None, *facts: object) -> None:
        """Refuse an address that was not given out for this.

        Raises:
            Refusal: 403.
        """
        if not hmac.compare_digest((given or "").encode(), self.sign(*facts).encode()):
            raise Refusal(403, "SignatureDoesNotMatch")

    def addressed(self, kind: names.Kind, owner: str, name: str) -> Repository:
        """The repository of a signed address: the signature, looked at after, says who was allowed.

        Raises:
            Refusal: 404.
        """
        found = self.store.repository(kind, owner, name)
        if found is None:
            raise Refusal(404, "Repository not found", "RepoNotFound")
        return found


def span(asked: str | None, size: int) -> tuple[int, int]:
    """The bytes that a `Range` header asks for: first, and one after the last; all where it asks for no one range.

    Raises:
        Refusal: 416.
    """
    match = re.fullmatch(r"bytes=(\d{0,15})-(\d{0,15})", asked or "", re.ASCII)
    if match is None or not (match[1] or match[2]):
        return 0, size
    start = int(match[1]) if match[1] else max(size - int(match[2]), 0)
    end = min(int(match[2]) + 1, size) if match[1] and match[2] else size
    if start >= size or end <= start:
        raise Refusal(416, f"The file has {size} bytes")
    return start, end
