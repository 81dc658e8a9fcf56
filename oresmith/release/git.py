"""The project's git repository, through `git` itself; never through a shell, and never by the user's index."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from oresmith.errors import OresmithError

_SECONDS = 600


class Repository:
    """The repository that a directory of the project stands in.

    Args:
        root: the project's root, which need not be the repository's.

    Raises:
        OresmithError: there is no git, or no repository, or the project is ignored in it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        try:
            self.top = Path(self.run("rev-parse", "--show-toplevel"))
        except OresmithError as error:
            raise OresmithError(
                "a release is cut in a git repository",
                where=str(root),
                got=error.got,
                todo="git init, and commit the project",
            ) from error
        self.prefix = self.run("rev-parse", "--show-prefix")
        """Of the project's paths inside the repository: empty, or with a slash at its end."""
        if self.prefix and self.ok("check-ignore", "-q", "."):
            raise OresmithError(
                "git ignores this directory", where=str(root), todo="cut the release in the project's own root"
            )

    def run(self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> str:
        """What a git command prints, without its last line end.

        Raises:
            OresmithError: it fails; the message holds what it said.
        """
        done = self._run(arguments, stdin, env)
        if done.returncode:
            raise OresmithError(
                f"git {arguments[0]} failed",
                where=str(self.root),
                got=done.stderr.decode(errors="replace").strip()[:400],
            )
        return done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")

    def ok(self, *arguments: str) -> bool:
        """Whether a git command succeeds."""
        return self._run(arguments, b"", None).returncode == 0

    def _run(
        self, arguments: Sequence[str], stdin: bytes, env: Mapping[str, str] | None
    ) -> subprocess.CompletedProcess[bytes]:
        command = ["git", "-c", "core.quotePath=false", "-c", "core.fsmonitor=false", *arguments]
        try:
            return subprocess.run(  # noqa: S603 - arguments are ours, and no shell reads them
                command,
                cwd=self.root,
                input=stdin,
                capture_output=True,
                check=False,
                timeout=_SECONDS,
                env=os.environ | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"} | dict(env or {}),
            )
        except FileNotFoundError as error:
            raise OresmithError("git is not installed", todo="install git") from error

    def head(self) -> str:
        """The commit that is checked out.

        Raises:
            OresmithError: nothing was committed yet.
        """
        return self.run("rev-parse", "--verify", "HEAD^{commit}")

    def changed(self) -> list[str]:
        """Paths in which the working tree or the index differ from HEAD, untracked ones included.

        Those of the project are relative to its root; others begin with `../` or `:/`.
        """
        listed = self.run("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
        paths = [entry[3:] for entry in listed.split("\0") if entry]
        return [path.removeprefix(self.prefix) if path.startswith(self.prefix) else f":/{path}" for path in paths]

    def changed_in(self, path: str, *, deleted: bool = True) -> bool:
        """Whether the working tree differs from the index at a path; files that are missing count where `deleted`."""
        kinds = "DMT" if deleted else "MT"
        return bool(self.run("diff-files", "--name-only", f"--diff-filter={kinds}", "--", path))

    def identity(self) -> None:
        """Make sure that a commit has an author.

        Raises:
            OresmithError: git knows no name and address.
        """
        if not all(
            self.ok("-c", "user.useConfigOnly=true", "var", f"GIT_{who}_IDENT") for who in ("AUTHOR", "COMMITTER")
        ):
            raise OresmithError(
                "git does not know who commits",
                where=str(self.root),
                expected="user.name and user.email",
                todo="git config user.name NAME; git config user.email ADDRESS",
            )

    def commit_of(self, ref: str) -> str | None:
        """The commit that a ref names; None where there is no such ref."""
        if not self.ok("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}"):
            return None
        return self.run("rev-parse", "--verify", f"{ref}^{{commit}}")

    def holds(self, commit: str, path: str) -> bool:
        """Whether a commit's tree has this path of the project."""
        return self.ok("cat-file", "-e", f"{commit}:{self.prefix}{path}")

    def tree_of(self, commit: str, path: str) -> str | None:
        """The hash of a folder of the project in a commit; None where it has none."""
        name = f"{commit}:{self.prefix}{path}"
        return self.run("rev-parse", "--verify", name) if self.ok("cat-file", "-e", name) else None

    def directory(self) -> Path:
        """The repository's own directory, which no working tree shows."""
        return Path(self.run("rev-parse", "--absolute-git-dir"))
