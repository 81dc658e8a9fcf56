"""Progress of a run on standard error: samples, tokens and the time that is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from oresmith.evaluation.harness import Tally

_SHARE = 10
"""Lines that a run writes where nobody watches a bar."""


@contextmanager
def meter(name: str, *, quiet: bool = False) -> Iterator[Callable[[Tally, int], None]]:
    """A `watch` for `play`: a bar on a terminal, else a line every tenth of the samples.

    Args:
        name: of the model.
        quiet: show nothing.
    """
    console = Console(stderr=True)
    if quiet:
        yield lambda tally, done: None
    elif console.is_terminal:
        with _bar(console) as progress:
            task = progress.add_task(name, total=None, cost="")
            yield lambda tally, done: progress.update(task, completed=done, total=tally.samples, cost=_cost(tally))
    else:
        yield _Lines(name, console)


class _Lines:
    def __init__(self, name: str, console: Console) -> None:
        self.name, self.console, self._shown = name, console, -1

    def __call__(self, tally: Tally, done: int) -> None:
        part = _SHARE * done // tally.samples
        if part == self._shown:
            return
        self._shown = part
        left = _left(tally, done)
        self.console.print(
            f"{self.name}: {done} of {tally.samples} samples, {_cost(tally)}{left}", highlight=False, markup=False
        )


def _bar(console: Console) -> Progress:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[cost]}", markup=False),
    )
    return Progress(*columns, console=console)


def _cost(tally: Tally) -> str:
    speed = tally.completion_tokens / tally.engine_seconds if tally.engine_seconds else 0.0
    return f"{tally.prompt_tokens:,} tokens read, {tally.completion_tokens:,} written, {speed:,.0f}/s"


def _left(tally: Tally, done: int) -> str:
    """The time that is left, at the pace so far."""
    played = done - tally.resumed
    if played == 0 or done == tally.samples:
        return ""
    return f", about {tally.engine_seconds / played * (tally.samples - done) / 60:,.1f} min left"
