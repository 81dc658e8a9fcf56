"""What a server is told, and where it reads its secrets: from the environment or a file, never from a command line."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oresmith.errors import OresmithError

Policy = Callable[[dict[str, Any]], str | dict[str, Any]]
"""A model in Python: takes the body of a chat completion, gives the reply's text or its whole message."""
DEFAULT_SESSION = "serve"
"""Name of the session of requests outside any other."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one server takes before it refuses."""

    body_bytes: int = 2 * 2**20
    """Of a request; 413 above."""
    requests: int = 2_000
    """In a session that was opened; 429 above, and no longer logged."""
    at_once: int = 16
    """Requests of such a session at the same time; 429 above. The default session has neither limit."""
    sessions: int = 20_000
    """Open at the same time."""
    connections: int = 256
    """Of all clients together; 503 above."""
    searches: int = 4
    """Threads that search."""
    read_s: float = 30.0
    """Seconds for a request to come on a new connection, and for its body to arrive."""


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """An OpenAI-compatible server that answers inference."""

    url: str
    """Base, as in "https://host/v1"; `/chat/completions` is added."""
    key: Secret = field(default_factory=lambda: Secret(env="ORESMITH_UPSTREAM_KEY"))
    model: str | None = None
    """Replaces the model that agents ask for."""
    timeout_s: float = 120.0
    """Of one try, from connecting to the last byte."""
    retries: int = 2
    """Further tries after 429, 5xx, a broken connection or a reply that is none."""
    backoff_s: float = 0.5
    """Wait before the first of them; doubled each time, at most 10 s."""
    reply_bytes: int = 8 * 2**20


@dataclass(frozen=True, kw_only=True)
class Secret:
    """Where a secret stands."""

    env: str | None = None
    """Name of an environment variable."""
    file: Path | None = None
    """A file that holds nothing else; it goes before the variable."""

    def read(self) -> str | None:
        """The secret; None where none is set.

        Raises:
            OresmithError: the file cannot be read or holds none, or it is not one line of ASCII, which alone an HTTP
                header carries (the secret is never in the message).
        """
        if self.file is not None:
            try:
                text = self.file.read_text("utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise OresmithError(
                    "the secret's file cannot be read", where=str(self.file), got=type(error).__name__
                ) from None
            if not text or not _one_line(text):
                raise OresmithError("the secret's file does not hold one line of ASCII", where=str(self.file))
            return text
        text = os.environ.get(self.env, "").strip() if self.env else ""
        if not _one_line(text):
            raise OresmithError("the secret is not one line of ASCII", where=f"environment variable {self.env}")
        return text or None


def _one_line(text: str) -> bool:
    return text.isprintable() and text.isascii()


@dataclass(frozen=True, kw_only=True)
class ServeConfig:
    """Everything but the shop."""

    log: Path
    """The server's own request log (`oresmith.witness/1`), kept where agents cannot write."""
    port: int = 8931
    """On 127.0.0.1; 0 for any free one."""
    model: Upstream | Policy | str = "echo"
    """Who answers inference: a server, a Python callable, or "echo", which repeats the user's last message."""
    admin_token: Secret = field(default_factory=lambda: Secret(env="ORESMITH_ADMIN_TOKEN"))
    """Opens and closes sessions; without one nobody can."""
    inference_key: Secret = field(default_factory=lambda: Secret(env="ORESMITH_INFERENCE_KEY"))
    """The bearer token for inference in the default session; without one there is none there."""
    log_messages: bool = False
    """Also log the messages sent to the model: whole prompts, with whatever they hold."""
    limits: Limits = field(default_factory=Limits)
