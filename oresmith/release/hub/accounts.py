"""Who calls: tokens, and what the one who holds a token may read and write."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from oresmith.release.hub.refusal import Refusal


def new_token() -> str:
    """A random token, in the form that the clients expect."""
    return "hf_" + secrets.token_hex(20)


@dataclass(frozen=True)
class Account:
    """Somebody who holds a token."""

    user: str
    spaces: tuple[str, ...]
    """Owners of repositories that belong to this account: read where private, written with the role `write`."""
    role: Literal["read", "write"] = "write"
    token: str = field(default_factory=new_token, repr=False)


class Accounts:
    """The accounts of a Hub."""

    def __init__(self, accounts: Sequence[Account]) -> None:
        self._accounts = tuple(accounts)

    def holder(self, authorization: str | None) -> Account | None:
        """The account of an `Authorization` header; None where there is none.

        Raises:
            Refusal: 401, a token that nobody has.
        """
        if not authorization:
            return None
        given = authorization.removeprefix("Bearer ").encode()
        found = None
        for account in self._accounts:  # all of them: how long it takes tells nothing
            if hmac.compare_digest(given, account.token.encode()):
                found = account
        if found is None:
            raise Refusal(401, "Invalid credentials in Authorization header")
        return found


def may_read(account: Account | None, owner: str) -> bool:
    """Whether private things of an owner are shown to the account."""
    return account is not None and owner in account.spaces


def require_write(account: Account | None, owner: str) -> Account:
    """The account, where it may write what is the owner's.

    Raises:
        Refusal: 401 without a token, 403 with one that reads only or belongs to somebody else.
    """
    if account is None:
        raise Refusal(401, "Invalid username or password.")
    if account.role != "write":
        raise Refusal(403, "Forbidden: this token reads only; writing needs a write token.")
    if owner not in account.spaces:
        raise Refusal(403, f"Forbidden: this token has no write access to what {owner} owns.")
    return account
