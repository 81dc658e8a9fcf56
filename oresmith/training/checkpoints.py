"""Checkpoints of any trainer of transformers: whole or not at all, kept for the same work only, gone after success.

They lie in data/.NAME.checkpoints/DIGEST, beside what a stage publishes. The digest is of all that the training
depends on, so that a run with other parameters or rows can never go on from them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from oresmith.blocks.atomic import disk_fault
from oresmith.errors import OresmithError
from oresmith.stage import write_small
from oresmith.training.callbacks import Stop, curve_of

WHOLE = "whole.json"
"""Written last into a checkpoint: its files and their sizes."""
_PREFIX = "checkpoint-"
_DISK_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)
_OF_SAFETENSORS = re.compile(r"\(os error (\d{1,4})\)")
_OF_TORCH = ("unexpected pos", "PytorchStreamWriter failed writing", "file write failed")
"""What these say of a full disk: their errors are no `OSError`."""


class Ran(NamedTuple):
    """How a training went."""

    steps: int
    """Updates in all, those before a resume included."""
    resumed_from: int
    """Update of the checkpoint that this process went on from; 0 for a fresh start."""
    curve: list[dict[str, float]]
    """A row an update: `step`, `loss`, `learning_rate` and what else the trainer logs; over all processes."""


def digest_of(parts: Mapping[str, Any]) -> str:
    """Hex sha256 of JSON values, whatever the order of keys."""
    return hashlib.sha256(orjson.dumps(dict(parts), option=orjson.OPT_SORT_KEYS)).hexdigest()


def checkpoint_home(data: Path, name: str, digest: str) -> Path:
    """Directory of the checkpoints of one step, made; those of other parameters or rows are removed.

    Args:
        data: the pipeline's directory.
        name: of the step's directory below it, as in sft/1.
        digest: of all that the training depends on (`digest_of`).
    """
    home = _all_of(data, name) / digest[:32]
    if home.parent.is_dir():
        for other in sorted(home.parent.iterdir()):
            if other != home:
                shutil.rmtree(other, ignore_errors=True)
    home.mkdir(parents=True, exist_ok=True)
    return home


def drop_checkpoints(data: Path, name: str) -> None:
    """Remove all checkpoints of a step: what comes after success."""
    shutil.rmtree(_all_of(data, name), ignore_errors=True)


def newest_checkpoint(home: Path) -> Path | None:
    """The checkpoint of most updates that is whole; None where there is none."""
    found = [(step, path) for step, path in _checkpoints(home) if _is_whole(path)]
    return max(found)[1] if found else None


class WholeCheckpoints:
    """Mixed into a trainer, before its class: a checkpoint counts only when it is complete; then the earlier ones go.

    A full disk ends the training with an `OresmithError`, and the earlier checkpoint stays.
    """

    def create_model_card(self, *args: Any, **options: Any) -> None:
        """None for checkpoints."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        trainer: Any = self
        home = Path(trainer.args.output_dir)
        target = home / f"{_PREFIX}{trainer.state.global_step}"
        main = trainer.is_world_process_zero()
        try:
            super()._save_checkpoint(model, trial)  # type: ignore[misc]
            trainer.accelerator.wait_for_everyone()
            if main:
                _seal(target)
        except Exception as error:
            fault = disk_error(error, target)
            if fault is None:
                raise
            shutil.rmtree(target, ignore_errors=True)
            kept = newest_checkpoint(home)
            raise _no_room(fault, home, kept) from error
        if main:
            for _, path in _checkpoints(home):
                if path != target:
                    shutil.rmtree(path, ignore_errors=True)


def run_training(trainer: Any, home: Path, stop: Stop, name: str) -> Ran:
    """Train to the end, from the newest whole checkpoint where there is one.

    Args:
        trainer: with `WholeCheckpoints` mixed in, `home` as its `output_dir`, and `step_callbacks` among its
            callbacks.
        home: from `checkpoint_home`.
        stop: of `callbacks.stopping`, which is open.
        name: of the step, for messages.

    Raises:
        KeyboardInterrupt: a signal asked to stop; what was done is in a checkpoint.
        OresmithError: the disk is full, or a checkpoint cannot be read.
    """
    from transformers import PrinterCallback

    trainer.remove_callback(PrinterCallback)
    newest = newest_checkpoint(home)
    trainer.accelerator.wait_for_everyone()
    if trainer.is_world_process_zero():
        for _, path in _checkpoints(home):
            if path != newest:
                shutil.rmtree(path, ignore_errors=True)
    resumed = _step_of(newest) if newest else 0
    try:
        trainer.train(resume_from_checkpoint=str(newest) if newest else None)
    except OresmithError:
        raise
    except Exception as error:
        fault = disk_error(error, home)
        if fault is None:
            raise
        raise _no_room(fault, home, newest_checkpoint(home)) from error
    state = trainer.state
    if stop.asked and state.global_step < state.max_steps:
        raise KeyboardInterrupt(f"{name}: stopped after update {state.global_step} of {state.max_steps}")
    return Ran(int(state.global_step), resumed, curve_of(state.log_history))


def _all_of(data: Path, name: str) -> Path:
    return data / f".{name.replace('/', '-')}.checkpoints"


def _checkpoints(home: Path) -> Iterator[tuple[int, Path]]:
    if not home.is_dir():
        return
    for path in sorted(home.iterdir()):
        number = path.name.removeprefix(_PREFIX)
        if path.name.startswith(_PREFIX) and number.isascii() and number.isdecimal():
            yield int(number), path


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix(_PREFIX))


def _seal(path: Path) -> None:
    """State what belongs to a checkpoint, when all of it is on the disk."""
    files = {}
    for file in sorted(path.rglob("*")):
        if file.is_file():
            handle = os.open(file, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
            files[file.relative_to(path).as_posix()] = file.stat().st_size
    write_small(path / WHOLE, orjson.dumps(files, option=orjson.OPT_SORT_KEYS))


def _is_whole(path: Path) -> bool:
    try:
        files = orjson.loads((path / WHOLE).read_bytes())
        return bool(files) and all((path / name).stat().st_size == size for name, size in files.items())
    except (OSError, ValueError, AttributeError):
        return False


def disk_error(error: BaseException, target: Path) -> OSError | None:
    """The fault of the disk behind an exception; None where it is another fault."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in _DISK_FAULTS:
            return seen
        found = _OF_SAFETENSORS.search(str(seen))
        if found and int(found[1]) in _DISK_FAULTS:
            return OSError(int(found[1]), os.strerror(int(found[1])), str(target))
        if isinstance(seen, RuntimeError) and any(words in str(seen) for words in _OF_TORCH):
            return OSError(errno.EIO, "a file could not be written whole", str(target))
        seen = seen.__cause__ or seen.__context__
    return None


def _no_room(fault: OSError, home: Path, kept: Path | None) -> OresmithError:
    refusal = disk_fault(fault, home)
    went = f"the checkpoint of update {_step_of(kept)} is kept" if kept else "there is no earlier checkpoint"
    return OresmithError(
        "the disk refused a write of the training", where=refusal.where, got=f"{refusal.got}; {went}", todo=refusal.todo
    )
