"""Sessions: one an attempt of an agent at a problem, each with a URL that nobody guesses and a key of its own."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass

from oresmith.arena.server.config import DEFAULT_SESSION, Limits
from oresmith.arena.server.replies import RefusedError
from oresmith.arena.witness import session_name


@dataclass
class Session:
    """One session, and what it has used so far."""

    name: str
    inference_key: str | None
    limited: bool = True
    requests: int = 0
    in_flight: int = 0

    def may_infer(self, authorization: str | None) -> bool:
        """Whether a request's `Authorization` carries the session's key."""
        return self.inference_key is not None and same_token(bearer(authorization), self.inference_key)

    def enter(self, limits: Limits) -> None:
        """Count a request in. Raises RefusedError (429) where the session has had its share."""
        if self.limited and self.requests >= limits.requests:
            raise RefusedError(429, f"this session has had its {limits.requests} requests", logged=False)
        self.requests += 1
        if self.limited and self.in_flight >= limits.at_once:
            raise RefusedError(429, f"more than {limits.at_once} requests at once")
        self.in_flight += 1

    def leave(self) -> None:
        """Count it out."""
        self.in_flight -= 1


class Sessions:
    """All sessions of a server. Used from one thread."""

    def __init__(self, limits: Limits, inference_key: str | None) -> None:
        self.limits = limits
        self.default = Session(DEFAULT_SESSION, inference_key, limited=False)
        self._by_token: dict[str, Session] = {}
        self._names: set[str] = set()

    def __len__(self) -> int:
        return len(self._by_token)

    def find(self, token: str | None) -> Session | None:
        """The session of a URL; the default one for None."""
        return self.default if token is None else self._by_token.get(token)

    def open(self, run_id: object, problem_id: object) -> tuple[str, Session]:
        """A new session and the token of its URL.

        Raises:
            RefusedError: 400 for ids that name no session, 409 for a session that there has been, 429 for too many.
        """
        known = isinstance(run_id, str) and isinstance(problem_id, str)
        name = session_name(run_id, problem_id) if known else None  # type: ignore[arg-type]
        if name is None:
            raise RefusedError(
                400, 'run_id and problem_id must be printable text, up to 200 characters, no "/" in run_id'
            )
        if name in self._names:
            raise RefusedError(409, "there has been a session of this run and problem")
        if len(self) >= self.limits.sessions:
            raise RefusedError(429, f"{self.limits.sessions} sessions are open")
        token, session = secrets.token_urlsafe(24), Session(name, secrets.token_urlsafe(24))
        self._by_token[token] = session
        self._names.add(name)
        return token, session

    def close(self, token: str) -> Session | None:
        """End a session: its URL is unknown from now on, and its name stays taken."""
        return self._by_token.pop(token, None)


def bearer(authorization: str | None) -> str:
    """The token of an `Authorization` header; "" where there is none."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def same_token(given: str, token: str) -> bool:
    """Compare in a time that does not tell how much is right."""
    return bool(given) and hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
