"""The typed parameters: `params.yaml` is read and checked here, whole, before any stage does any work.

Each namespace is the name of the stage that reads it; `run` says how to run and never changes an artefact.
Unknown keys, wrong types and combinations that cannot work are refused with the key's name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from oresmith.errors import ParameterError
from oresmith.param_checks import check_combinations
from oresmith.param_data import Benchmark, Cluster, Corpus, Evidence, Gate, Normalize, Snapshot, Split, Truth
from oresmith.param_faults import named
from oresmith.param_models import Base, Compare, Lmeval, Model, Rollout, Score
from oresmith.param_release import Release
from oresmith.param_training import Controls, Grpo, Kto, Rejection, Sft, Teacher, Train
from oresmith.param_types import Namespace
from oresmith.yamlfile import READ_FAULTS, read_yaml

PARAMS_FILE = Path("params.yaml")


class Run(Namespace, frozen=True):
    """How to run: changes time, never bytes."""

    executor: Literal["local", "ray"] = "local"
    workers: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 0
    """Processes at once; 0 takes the machine's cores, never more than there are shards."""
    launch: Annotated[
        str, msgspec.Meta(pattern=r"^(python|accelerate launch --config_file [A-Za-z0-9][A-Za-z0-9._/-]{0,255})\Z")
    ] = "python"
    """What starts a training stage: `python`, or accelerate and its configuration for several GPUs and nodes."""


class Params(Namespace, frozen=True):
    """All parameters."""

    snapshots: Annotated[list[Snapshot], msgspec.Meta(min_length=1)]
    normalize: Normalize = Normalize()
    evidence: Evidence = Evidence()
    gate: Gate = Gate()
    cluster: Cluster = Cluster()
    split: Split = Split()
    corpus: Corpus = Corpus()
    release: Release = Release()
    truth: Truth = Truth()
    base: Base = Base()
    models: Annotated[tuple[Model, ...], msgspec.Meta(min_length=1)] = (Model(name="base", stage="base"),)
    """The first is what the others are compared with."""
    train: Train = Train()
    sft: Sft = Sft()
    rejection: Rejection = Rejection()
    teacher: Teacher = Teacher()
    kto: Kto = Kto()
    grpo: Grpo = Grpo()
    control: Controls = Controls()
    rollout: Rollout = Rollout()
    score: Score = Score()
    compare: Compare = Compare()
    lmeval: Lmeval = Lmeval()
    run: Run = Run()


Kind = TypeVar("Kind", bound=Namespace)


def load_params(path: Path = PARAMS_FILE) -> Params:
    """Read and check the whole parameter file.

    Args:
        path: YAML file, `params.yaml` of the project by default.

    Returns:
        The typed parameters; each default that the file leaves out is filled in.

    Raises:
        ParameterError: missing file, no YAML, unknown key, wrong type, or an impossible combination, naming the key.
    """
    try:
        raw = read_yaml(path)
    except FileNotFoundError as error:
        raise ParameterError(
            "there is no parameter file",
            where=str(path),
            todo="run in the project's root, where params.yaml stands",
        ) from error
    except READ_FAULTS as error:
        raise ParameterError("the parameter file cannot be read", where=str(path), got=str(error)[:300]) from error
    params: Params = check_params(raw, str(path))
    check_combinations(params, str(path))
    return params


def check_params(raw: object, where: str, kind: type[Kind] | type[Params] = Params) -> Any:
    """Convert raw YAML to the typed parameters (or one namespace), translating faults to the key's name.

    Raises:
        ParameterError: naming the key, with the nearest known key for an unknown one.
    """
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise named(
            error, raw, where, kind, {"snapshots": Snapshot, "benchmarks": Benchmark, "models": Model}
        ) from error
