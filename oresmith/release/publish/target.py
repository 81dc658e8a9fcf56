"""Where a release goes, with whose rights, and how long is waited for it."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from oresmith.errors import OresmithError


class PublishError(OresmithError):
    """The Hub, or what stands there, does not allow this publication."""


@dataclass(frozen=True)
class Patience:
    """How long a Hub may keep a publication waiting. Every wait ends."""

    timeout: float = 60.0
    """Seconds without a byte until a request counts as lost."""
    tries: int = 6
    """Of each step, the first included; `huggingface_hub` repeats some requests by itself within one of them."""
    first_wait: float = 0.5
    """Seconds before the second try; they double from try to try."""
    longest_wait: float = 8.0
    """Seconds between two tries at most, where the Hub names none."""
    longest_asked: float = 300.0
    """Seconds of `Retry-After` that are still waited for; a Hub that asks for more ends the run."""
    slowest: float = 100_000.0
    """Bytes a second below which a Xet transfer counts as stuck."""
    load_seconds: float = 3600.0
    """For loading one repository back."""

    def transfer(self, size: int) -> float:
        """Seconds that a Xet transfer of so many bytes may take."""
        return 10 * self.timeout + size / self.slowest

    def wait(self, attempt: int, asked: float | None = None) -> float:
        """Seconds between try number `attempt` (from 0) and the next one."""
        if asked is not None and math.isfinite(asked):
            return min(max(asked, 0.0), self.longest_asked)
        return min(self.longest_wait, self.first_wait * 2.0**attempt)


@dataclass(frozen=True)
class Target:
    """A Hub, and the rights there."""

    endpoint: str
    """Its URL, without a slash at the end."""
    token: str = field(repr=False)
    """A token that may write; it goes into requests alone, never into a file, a message or an argument list."""
    private: bool = False
    """Leave the repositories private once the release is verified."""
    patience: Patience = Patience()

    def __post_init__(self) -> None:
        parts = urlsplit(self.endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise PublishError(
                "not the URL of a Hub", where="endpoint", expected="https://host", got=self.endpoint[:200]
            )
        if parts.scheme == "http" and not self.local:
            raise PublishError(
                "the token would cross the network in the clear", where=self.endpoint, expected="https://"
            )
        object.__setattr__(self, "endpoint", self.endpoint.rstrip("/"))

    @property
    def local(self) -> bool:
        """Whether the Hub is on this machine."""
        return on_this_machine(self.endpoint)


def on_this_machine(endpoint: str) -> bool:
    """Whether a URL leads to this machine."""
    return urlsplit(endpoint).hostname in ("127.0.0.1", "localhost", "::1")


def read_token() -> str | None:
    """The token of HF_TOKEN, or of `hf auth login`; None where there is none.

    Raises:
        PublishError: it is not printable ASCII without blanks: a client that cannot send it would print it.
    """
    from huggingface_hub import get_token

    token = os.environ.get("HF_TOKEN", "").strip() or get_token()
    if token and not all("!" <= character <= "~" for character in token):
        raise PublishError(
            "this is no token (it is not shown)",
            where="HF_TOKEN, or `hf auth login`",
            expected="printable ASCII without blanks or line ends",
            todo="set it anew: something came along when it was copied",
        )
    return token


def target_from_environment(endpoint: str | None = None, *, private: bool = False) -> Target:
    """The Hub of HF_ENDPOINT with the token of HF_TOKEN, or of `hf auth login`.

    Args:
        endpoint: another Hub than that of the environment.
        private: see `Target.private`.

    Raises:
        PublishError: no token, one that no header can carry, or no URL.
    """
    token = read_token()
    if not token:
        raise PublishError(
            "no token", where="HF_TOKEN", expected="a token that may write", todo="set HF_TOKEN, or run `hf auth login`"
        )
    return Target(endpoint or os.environ.get("HF_ENDPOINT") or "https://huggingface.co", token, private)
