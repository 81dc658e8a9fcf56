"""What a training step is: its name, the model that it starts from, its parameters, and what its trainer came to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from oresmith.audit.certificate import sha256_of
from oresmith.blocks.atomic import MANIFEST
from oresmith.errors import OresmithError
from oresmith.evaluation.engines.model import model_identity
from oresmith.models.directory import CheckedModel, check_directory
from oresmith.models.facts import ModelFacts, read_facts
from oresmith.models.rendering import Chat
from oresmith.param_training import Fit
from oresmith.params import Params
from oresmith.stage import DATA, builtins
from oresmith.training.artefact import MODEL
from oresmith.training.trained import read_training

_CONTROL = "control"
_NOT_OF_THE_STEP = ("enabled", "seeds")


class Spec(NamedTuple):
    """One step to run."""

    name: str
    """Directory below data/: sft/1, rejection, teacher, kto, grpo, control/kto."""
    step: str
    """sft, rejection, teacher, kto, grpo, control."""
    start: str
    """Directory below data/ that holds the model to train: the parameter `from`."""
    seed: int
    fit: Fit
    """The step's own namespace: how it is fitted, and all else that the artefact states as its parameters."""

    @property
    def namespace(self) -> str:
        """Of the parameters: that of its step for a control."""
        return self.name.removeprefix(f"{_CONTROL}/") if self.step == _CONTROL else self.step

    @property
    def flat(self) -> str:
        """The name as one file name: sft-1."""
        return self.name.replace("/", "-")

    def stated(self, params: Params) -> dict[str, Any]:
        """The parameters that the step's artefact depends on: `train`, the step's own under its name, and `seed`."""
        own = {name: value for name, value in builtins(self.fit).items() if name not in _NOT_OF_THE_STEP}
        return {"train": builtins(params.train), self.step: own, "seed": self.seed}


class Start(NamedTuple):
    """A model of an earlier stage."""

    name: str
    checked: CheckedModel
    """Its `path` is the model's directory."""
    facts: ModelFacts
    chat: Chat
    model_sha256: str
    """Over config, tokenizer and weights (`engines.model.model_identity`)."""
    weights_sha256: str
    """Of the weights' file, or over lines of name and sha256 where there are several."""

    def told(self) -> dict[str, Any]:
        """What training.json says of it."""
        return {
            "from": self.name,
            "model_sha256": self.model_sha256,
            "weights_sha256": self.weights_sha256,
            "facts": builtins(self.facts),
        }


class Outcome(NamedTuple):
    """What a trainer came to. Its weights lie in the step's directory, as `artefact.save_trained` writes them."""

    steps: int
    tokens: int
    """Trained on, padding aside, each time that a row was seen."""
    supervised: int
    curve: Sequence[Mapping[str, float]]
    """A row an optimiser step: `step`, `loss`, `learning_rate`, and what else the step logs."""
    resumed_from: int = 0
    """Optimiser step of the checkpoint that this process went on from; 0 for a fresh start."""


def find_model(name: str, where: str) -> Start:
    """The model of an earlier stage.

    Args:
        name: directory below data/ that is the model or holds it in `model/`.
        where: the parameter that names it, for the refusal.

    Raises:
        OresmithError: there is none, its step is switched off, or it is unfit (`check_directory`).
    """
    stage = DATA / name
    if not (stage / MANIFEST).is_file():
        raise OresmithError(
            "there is no model to start from",
            where=where,
            expected="the name of a stage's directory below data/ that holds a model",
            got=name,
            todo=f"run the stage that writes {stage}",
        )
    trained = read_training(stage)
    if trained is not None and trained.skipped is not None:
        raise OresmithError(
            f"there is no model to start from: {name} is {trained.skipped}",
            where=where,
            todo="name another model, or switch that step on and run it",
        )
    checked = check_directory(stage / MODEL if (stage / MODEL).is_dir() else stage)
    facts = read_facts(checked.path)
    if facts is None:
        raise OresmithError("the model does not say what it is", where=str(checked.path), todo="run its stage again")
    whole = str(model_identity(checked)["model_sha256"])
    return Start(name, checked, facts, Chat(checked.template, checked.tokenizer), whole, _weights(checked.weights))


def _weights(files: Sequence[Path]) -> str:
    if len(files) == 1:
        return sha256_of(files[0])
    return hashlib.sha256("".join(f"{file.name} {sha256_of(file)}\n" for file in files).encode()).hexdigest()
