"""A token in a file that its owner alone can read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from oresmith.errors import OresmithError
from oresmith.release.hub.accounts import new_token


def token_of(file: Path) -> str:
    """The token in a file; a new one is put there, with mode 0600, where the file is absent.

    Raises:
        OresmithError: others can read the file, it is no regular file, or it cannot be read or made.
    """
    try:
        try:
            made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return _read(file)
        token = new_token()
        with os.fdopen(made, "w") as target:
            target.write(f"{token}\n")
    except OSError as error:
        raise OresmithError("the token file cannot be used", where=file.as_posix(), got=str(error.strerror)) from None
    return token


def _read(file: Path) -> str:
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as source:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_mode & 0o077:
            todo = f"chmod 600 {file}"
            raise OresmithError(
                "others can read the token file", where=file.as_posix(), expected="mode 0600", todo=todo
            )
        return source.read(1000).decode("ascii", "replace").strip()
