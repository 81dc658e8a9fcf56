"""The hook by which tests disturb a server; nothing that comes over the network reaches it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Instead:
    """What a client gets in place of the answer."""

    status: int = 0
    """Of HTTP; 0 breaks the connection off."""
    headers: Mapping[str, str] = field(default_factory=dict)


class Hook:
    """Does nothing; tests override. Called from several threads, and may block."""

    def before(self, method: str, path: str) -> Instead | None:
        """Called before anything is done; what it gives is answered, and nothing is done."""
        return None

    def after(self, method: str, path: str) -> Instead | None:
        """Called when all is done; what it gives is answered in place of the truth."""
        return None
