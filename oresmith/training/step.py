"""What all training steps have in common: the model that is started from, the staged directory, and what goes into it.

A step opens with `open_step`, takes its rows with `OpenStep.take`, trains into `OpenStep.path` with its checkpoints in
`OpenStep.checkpoints`, and ends with `OpenStep.publish`. Steps that are SFT do the three by `OpenStep.fit`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from oresmith.audit.certificate import CERTIFICATE_FILE, sha256_of
from oresmith.blocks.atomic import MANIFEST, stage_output
from oresmith.errors import OresmithError
from oresmith.params import Params
from oresmith.stage import DATA, PLOTS, builtins, write_metrics, write_small
from oresmith.training.arguments import training_process
from oresmith.training.artefact import adapter_sha256, finish_model
from oresmith.training.checkpoints import checkpoint_home, digest_of, disk_error, drop_checkpoints
from oresmith.training.energy import Energy, gpu_facts
from oresmith.training.spec import Outcome, Spec, Start, find_model
from oresmith.training.trained import (
    TRAINING_FILE,
    TRAINING_SCHEMA,
    Training,
    ends_of,
    versions,
    write_curve,
    write_training,
)

if TYPE_CHECKING:
    from oresmith.training.rows import RowSet

__all__ = ["OpenStep", "Outcome", "Spec", "Start", "find_model", "is_main", "open_step", "skip_step"]

_STARTS = "starts"
_NOT_OF_THE_WEIGHTS = ("save_dtype", "checkpoint_steps")
"""Parameters of `train` under which a run may go on that began under others."""


def skip_step(spec: Spec, reason: str = "switched off") -> None:
    """Publish the directory of a step that does not run: a training.json that says so, and no model."""
    with stage_output(DATA / spec.name, spec.flat, schema=TRAINING_SCHEMA, params={"skipped": reason}) as staged:
        write_training(staged.path, Training(step=spec.step, name=spec.name, skipped=reason))
    curves = PLOTS / "training" / spec.flat
    shutil.rmtree(curves, ignore_errors=True)
    curves.mkdir(parents=True)
    write_metrics(spec.flat, {"skipped": reason})


@contextmanager
def open_step(params: Params, spec: Spec) -> Iterator[OpenStep]:
    """Check corpus and certificate, find the start model, and stage the step's directory.

    When the block ends well the directory is put in place and the checkpoints go; otherwise they stay. In a distributed
    run only rank 0 writes: the others have a directory of their own that vanishes.

    Raises:
        OresmithError: the corpus' certificate fails, no start model, or another run of the same step.
    """
    from oresmith.training.rows import check_certificate

    _without_bars()
    start = find_model(spec.start, f"params.yaml: {spec.namespace}.from")
    if not is_main():
        with tempfile.TemporaryDirectory() as folder:
            yield OpenStep(params, spec, start, Path(folder))
        return
    check_certificate(DATA / "audit", DATA / "corpus")
    observed = DATA / "observed" / f"{spec.flat}.json"
    parameters = spec.stated(params)
    energy = Energy()
    with stage_output(
        DATA / spec.name, spec.flat, schema=TRAINING_SCHEMA, params=parameters, observed=observed
    ) as staged:
        step = OpenStep(params, spec, start, staged.path)
        try:
            yield step
        except OresmithError:
            raise
        except Exception as error:
            fault = disk_error(error, staged.path)
            if fault is None:
                raise
            raise fault from error
        if not (staged.path / TRAINING_FILE).is_file():
            raise OresmithError("the step ended without a model", where=spec.name)
        staged.rows |= step.counted
    write_metrics(spec.flat, step.metrics)
    _observe(observed, step.facts | energy.spent())
    # Only now does the output stand.
    drop_checkpoints(DATA, spec.name)


class OpenStep:
    """A step under way.

    Attributes:
        path: the staged directory: adapter/ or model/, rollouts and whatever else belongs to the artefact.
        main: whether this process writes: rank 0 of a distributed run, else always.
    """

    def __init__(self, params: Params, spec: Spec, start: Start, path: Path) -> None:
        self.params, self.spec, self.start, self.path, self.main = params, spec, start, path, is_main()
        self.counted: dict[str, int] = {}
        self.facts: dict[str, Any] = {}
        self.metrics: dict[str, Any] = {}
        self._rows: dict[str, Any] = {}
        self._rendering: dict[str, Any] = {}
        self._leaks: list[dict[str, Any]] = []
        self._trainer: dict[str, Any] = {}

    @property
    def live(self) -> Path:
        """Directory of the curves that DVC shows."""
        return PLOTS / "training" / self.spec.flat

    def corpus_rows(self, max_rows: int | None = None) -> RowSet:
        """Rows of the corpus' train split, as `train` asks for.

        Args:
            max_rows: most rows (`rows.corpus_rows`).
        """
        from oresmith.training.rows import corpus_rows

        train = self.params.train
        return corpus_rows(
            DATA / "corpus",
            self.start.chat,
            split="train",
            view=train.view,
            prompt=train.prompt,
            replace_prompts=train.logged_prompts == "replace",
            max_tokens=train.max_tokens,
            max_rows=max_rows,
            min_rows=train.min_rows,
        )

    def take(self, rows: RowSet) -> str:
        """Refuse too few rows, check them for leaks, and write rows.jsonl.zst.

        Returns:
            sha256 over the rows, token ids and masks included.

        Raises:
            OresmithError: fewer than `train.min_rows`, or a leak.
        """
        from oresmith.training.manifest import ROWS_FILE, write_rows

        least = self.params.train.min_rows
        if len(rows.rows) < least:
            counts = rows.report.rejected | rows.left_out
            raise OresmithError(
                "there are too few rows to train on",
                where=self.spec.name,
                expected=f"{least} or more (train.min_rows)",
                got=f"{len(rows.rows)}; " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())),
            )
        self.check_text(rows)
        self._rendering = builtins(rows.report)
        self._rendering["left_out"] = dict(rows.left_out)
        del self._rendering["rejects"]  # ids of every reject, which the counts sum up
        self._rows = write_rows(rows.rows, self.path)
        self.counted[ROWS_FILE] = len(rows.rows)
        return str(self._rows["sha256"])

    def check_text(self, texts: RowSet | Iterable[Any]) -> None:
        """Check text for leaks that is no `TrainingRow` of `take`: pairs of row id and messages. Its report is kept.

        Raises:
            OresmithError: a leak (`leaks.check_training_text`).
        """
        from oresmith.training.leaks import check_training_text

        if self.main:
            self._leaks.append(builtins(check_training_text(texts, DATA)))

    def checkpoints(self, identity: Mapping[str, Any] | None = None) -> Path:
        """The directory for the checkpoints of just this training; those of another are removed.

        It is named by parameters, seed, start model, versions, the rows that were taken, and `identity`.

        Args:
            identity: what else the training depends on, JSON values.
        """
        stated_here = self.spec.stated(self.params)
        stated_here["train"] = {k: v for k, v in stated_here["train"].items() if k not in _NOT_OF_THE_WEIGHTS}
        digest = digest_of(
            {
                "parameters": stated_here,
                "start": self.start.model_sha256,
                "versions": versions(),
                "rows": self._rows.get("sha256"),
                "identity": dict(identity or {}),
            }
        )
        home = checkpoint_home(DATA, self.spec.name, digest)
        if self.main:
            self.facts["starts"] = _count_start(home / _STARTS)
        return home

    def fit(self, rows: RowSet) -> Outcome:
        """Train on the rows by SFT: takes them, and goes on from a checkpoint where there is one.

        Args:
            rows: not yet taken.

        Raises:
            OresmithError: as `take` and `sft.fit`.
            KeyboardInterrupt: stopped by a signal, with a checkpoint.
        """
        from oresmith.training.sft import fit

        self.take(rows)
        fitted = fit(
            rows.rows,
            self.start.checked.path,
            self.params.train,
            self.spec.fit,
            seed=self.spec.seed,
            checkpoints=self.checkpoints(),
            out=self.path,
            name=self.spec.name,
            live=self.live,
        )
        self._trainer = {name: getattr(fitted, name) for name in ("order_sha256", "packing", "computed")}
        return Outcome(fitted.steps, fitted.tokens, fitted.supervised, fitted.curve, fitted.resumed_from)

    def publish(self, outcome: Outcome, **extra: Any) -> None:
        """Merge, probe, and write model/, training.json and curve.csv.

        Args:
            outcome: of the training.
            extra: JSON values that only this step has, for training.json.

        Raises:
            OresmithError: the model is not sound (`artefact.finish_model`).
        """
        if not self.main:
            return
        spec, start, train = self.spec, self.start, self.params.train
        with training_process(train):  # the probe's last digits, too, depend on the threads
            facts, probe = finish_model(
                start.checked, start.facts, self.path, dtype=train.save_dtype, step=spec.name, seed=spec.seed
            )
        training = Training(
            step=spec.step,
            name=spec.name,
            seed=spec.seed,
            start=start.told(),
            data=_data_hashes(),
            rows=self._rows,
            chat=start.chat.identity(),
            parameters=spec.stated(self.params),
            versions=versions(),
            steps=outcome.steps,
            tokens=outcome.tokens,
            supervised=outcome.supervised,
            loss=ends_of(outcome.curve),
            adapter_sha256=adapter_sha256(self.path),
            model=builtins(facts),
            rendering=self._rendering,
            leaks=self._leaks,
            probe=builtins(probe),
            extra=self._trainer | extra,
        )
        write_training(self.path, training)
        write_curve(self.path, outcome.curve)
        shown = {"rows": self._rows.get("rows"), "steps": outcome.steps, "tokens": outcome.tokens}
        self.metrics = {name: value for name, value in shown.items() if value is not None} | {"loss": training.loss}
        self.facts |= {"resumed_from_step": outcome.resumed_from, **gpu_facts()}


def is_main() -> bool:
    """Whether this process is rank 0 of a distributed run, as `accelerate launch` states it, or alone."""
    return os.environ.get("RANK", "0") == "0"


def _without_bars() -> None:
    """No bars of transformers for each loading of weights, which say nothing of the step's own progress."""
    from transformers.utils import logging

    logging.disable_progress_bar()


def _data_hashes() -> dict[str, str]:
    corpus, certificate = DATA / "corpus" / MANIFEST, DATA / "audit" / CERTIFICATE_FILE
    return {"corpus_manifest_sha256": sha256_of(corpus), "certificate_sha256": sha256_of(certificate)}


def _count_start(path: Path) -> int:
    """How often this training was begun or taken up again, this time included."""
    try:
        before = msgspec.json.decode(path.read_bytes(), type=int)
    except (OSError, msgspec.DecodeError):
        before = 0
    write_small(path, msgspec.json.encode(before + 1))
    return before + 1


def _observe(path: Path, facts: Mapping[str, Any]) -> None:
    """Add what this run did to the facts that `stage_output` observed of it."""
    whole = orjson.loads(path.read_bytes()) | dict(facts)
    write_small(
        path, orjson.dumps(whole, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
    )
