"""What every trainer of transformers is given beside its own work: a clear stop, progress and time left, curves."""

from __future__ import annotations

import math
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from oresmith.errors import OresmithError

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHARE = 10
"""Lines that a run writes where nobody watches a bar."""
_OF_TIME = ("epoch", "runtime", "per_second", "flos", "step_time")
"""Parts of the names of what a trainer logs that say nothing, or another thing at each run."""


class Stop:
    """Whether a signal asked the training to end after the update under way."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Take a signal: the first asks for a checkpoint and an end, the second ends at once."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def stopping() -> Iterator[Stop]:
    """While open, Ctrl-C and SIGTERM end a training after the update under way, with a checkpoint."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def step_callbacks(
    name: str,
    stop: Stop,
    *,
    live: Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    quiet: bool = False,
) -> list[Any]:
    """The callbacks of a training step, for the `callbacks` of any trainer.

    Args:
        name: of the step, which progress shows.
        stop: of `stopping`.
        live: directory of the DVCLive curves, written anew and complete also after a resume; None for none.
        on_progress: called after each update with the updates done and those in all.
        quiet: show no progress.
    """
    from transformers import TrainerCallback

    class Step(TrainerCallback):  # type: ignore[misc]
        """Stops, shows and records."""

        def __init__(self) -> None:
            self.meter = _Meter(name, quiet=quiet)
            self.curves: _Curves | None = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            if not state.is_world_process_zero:
                return
            self.meter.begin(state.global_step, state.max_steps)
            if live is not None:
                self.curves = _Curves(live, curve_of(state.log_history))

        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> Any:
            if on_progress is not None and state.is_world_process_zero:
                on_progress(state.global_step, state.max_steps)
            if stop.asked:
                control.should_save = control.should_training_stop = True
            return control

        def on_log(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            rows = curve_of(state.log_history[-1:])
            if rows and not math.isfinite(rows[-1]["loss"]):
                raise OresmithError(
                    "the loss is no number any more",
                    where=f"{name}, update {state.global_step}",
                    got=str(rows[-1]["loss"]),
                    todo="lower the learning rate",
                )
            if not rows or not state.is_world_process_zero:
                return
            self.meter.show(state.global_step, rows[-1])
            if self.curves is not None:
                self.curves.add(rows[-1])

        def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self.meter.end()
            if self.curves is not None:
                self.curves.end()

    return [Step()]


def curve_of(log_history: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """The rows of a trainer's log that belong to an update, each with `step`, without epochs and times."""
    return [
        {"step": int(row["step"])}
        | {
            key: float(value)
            for key, value in row.items()
            if key != "step" and isinstance(value, int | float) and not any(part in key for part in _OF_TIME)
        }
        for row in log_history
        if "loss" in row
    ]


class _Meter:
    """Updates and the time that is left on standard error: a bar on a terminal, else a line every tenth."""

    def __init__(self, name: str, *, quiet: bool) -> None:
        self.name, self.quiet, self.console = name, quiet, Console(stderr=True)
        self.bar: Progress | None = None
        self.first = self.total = 0
        self.began = 0.0
        self.shown = -1

    def begin(self, done: int, total: int) -> None:
        self.first, self.total, self.began, self.shown = done, total, time.monotonic(), -1
        if self.quiet:
            return
        if done:
            self._line(f"{self.name}: goes on after update {done} of {total}")
        if self.console.is_terminal:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[loss]}", markup=False),
            )
            self.bar = Progress(*columns, console=self.console)
            self.bar.start()
            self.bar.add_task(self.name, total=total, completed=done, loss="")

    def show(self, done: int, row: Mapping[str, float]) -> None:
        if self.quiet:
            return
        loss = f"loss {row['loss']:.4f}"
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=done, loss=loss)
            return
        part = _SHARE * done // max(1, self.total)
        if part != self.shown:
            self.shown = part
            self._line(f"{self.name}: {done} of {self.total} updates, {loss}{self._left(done)}")

    def end(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def _line(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False)

    def _left(self, done: int) -> str:
        """The time that is left, at the pace of this process."""
        here = done - self.first
        if here <= 0 or done >= self.total:
            return ""
        return f", about {(time.monotonic() - self.began) / here * (self.total - done) / 60:,.1f} min left"


class _Curves:
    """DVCLive's files of a curve. Where the package is not installed there are none."""

    def __init__(self, folder: Path, rows: Sequence[Mapping[str, float]]) -> None:
        try:
            from dvclive import Live
        except ImportError:
            self.live = None
            return
        shutil.rmtree(folder, ignore_errors=True)
        self.live = Live(dir=str(folder), save_dvc_exp=False, dvcyaml=None)
        for row in rows:
            self.add(row)

    def add(self, row: Mapping[str, float]) -> None:
        if self.live is None:
            return
        self.live.step = int(row["step"])
        for key, value in row.items():
            if key != "step" and math.isfinite(value):
                self.live.log_metric(key, value)
        self.live.make_summary()

    def end(self) -> None:
        if self.live is not None:
            self.live.end()
