"""What the server answers: JSON, also where it refuses."""

from __future__ import annotations

from typing import Any


class RefusedError(Exception):
    """A request that is answered with an error.

    Args:
        status: HTTP status.
        message: for the client; nothing of its request, no secret and no path.
        logged: whether the request log keeps it.
    """

    def __init__(self, status: int, message: str, *, logged: bool = True) -> None:
        super().__init__(message)
        self.status, self.message, self.logged = status, message, logged

    def body(self) -> dict[str, Any]:
        """The answer, in OpenAI's form."""
        return {
            "error": {"message": self.message, "type": _TYPES.get(self.status, "server_error"), "code": self.status}
        }


_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}
