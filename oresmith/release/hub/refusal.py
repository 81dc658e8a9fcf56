"""What the Hub answers when it does not do what was asked, in the form that the clients turn into their errors."""

from __future__ import annotations

from typing import Any, Literal

Code = Literal["RepoNotFound", "RevisionNotFound", "EntryNotFound"]
"""`X-Error-Code`: over plain http the clients know a missing repository by it alone."""


class Refusal(Exception):  # noqa: N818 (an answer, not a fault of the program)
    """An answer that is no success.

    Args:
        status: of HTTP.
        message: for people; goes into the body and a header.
        code: what is missing.
        commit: the commit that was looked into; the clients cache "no such file" by it.
        body: further fields of the body, such as the address of what exists already.
    """

    def __init__(
        self, status: int, message: str, code: Code | None = None, *, commit: str | None = None, **body: Any
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.commit, self.body = status, message, code, commit, body
