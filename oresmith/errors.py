"""The one exception users see: it says what, where, what was expected, what came, and what to do."""

from __future__ import annotations

EXIT_REFUSED = 2
"""Exit code of a clear refusal (bad input, bad parameters, no space)."""


def shown(text: str, *, lines: bool = False) -> str:
    """Text from outside as a terminal may show it: controls, line ends and invisible characters by their number.

    Args:
        text: anything; half surrogates of file names included.
        lines: let line ends through, for a message of several lines.
    """
    return "".join(
        character if character.isprintable() or (lines and character == "\n") else ascii(character)[1:-1]
        for character in text
    )


class OresmithError(Exception):
    """A refusal that the command line prints without a traceback, with exit code 2.

    Args:
        what: the fault in one clause.
        where: file, line, id or parameter it concerns.
        expected: what would have been accepted.
        got: what was found instead (never secret or unbounded: callers shorten it).
        todo: the next step for the user.
    """

    exit_code = EXIT_REFUSED

    def __init__(self, what: str, *, where: str = "", expected: str = "", got: str = "", todo: str = "") -> None:
        self.what, self.where, self.expected, self.got, self.todo = what, where, expected, got, todo
        super().__init__(self.sentence())

    def sentence(self) -> str:
        """The whole message on one line per part, parts without content left out."""
        lines = [f"{shown(self.where)}: {self.what}" if self.where else self.what]
        for label, text in (("expected", self.expected), ("got", shown(self.got)), ("to do", self.todo)):
            if text:
                lines.append(f"  {label}: {text}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the trip from a worker process: keyword arguments are not pickled by default."""
        parts = {"where": self.where, "expected": self.expected, "got": self.got, "todo": self.todo}
        return _rebuild, (type(self), self.what, parts)


def _rebuild(kind: type[OresmithError], what: str, parts: dict[str, str]) -> OresmithError:
    return kind(what, **parts)


class AccountingError(OresmithError):
    """`read == kept + rejected` does not hold: a row would have vanished."""


class ParameterError(OresmithError):
    """A parameter is unknown, of the wrong type, or impossible beside another."""


class SnapshotError(OresmithError):
    """A source cannot be frozen: missing, empty, of an unknown format, or with a wrong provenance file."""
