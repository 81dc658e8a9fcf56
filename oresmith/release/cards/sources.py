"""Which published files the cards take numbers from, and where each stands in the pipeline before it is published.

Whoever publishes a card publishes these files at these paths beside it; `oresmith cards check` reads them there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from oresmith.errors import OresmithError
from oresmith.param_models import Model
from oresmith.params import Params
from oresmith.release.layout import CONFIGS, DATASET, MODEL, ROLLOUTS

DATA = Path("data")
DATASET_CARDS, MODEL_CARD, REPORT, EVAL_RESULTS = (
    ("dataset.md", "changelog.md"),
    "model.md",
    "report.html",
    "eval_results",
)
"""Files of data/cards/ that hold numbers."""
_CITED = re.compile(r"(?:[A-Za-z0-9._+-]{1,200}/){0,8}[A-Za-z0-9._+-]{0,200}\*?[A-Za-z0-9._+-]{0,200}")
"""A path that a card may cite: plain names, and one star in the last."""
NUMBERS, PROVENANCE = "numbers.json", "provenance.json"
TRAINING = "training.json"


class Source(NamedTuple):
    """A published file (or all of a form) that cards cite."""

    repository: str
    """`dataset` or `model`."""
    path: str
    """In the repository; `*` stands for any part of a name."""
    origins: tuple[Path, ...]
    """Files, or patterns of them, relative to the project."""


def released(params: Params) -> Model:
    """The entry of `models` that is released: `release.model`, or the last.

    Raises:
        OresmithError: there is no entry of this name.
    """
    wanted = params.release.model
    for entry in params.models:
        if entry.name == wanted:
            return entry
    if wanted is None:
        return params.models[-1]
    raise OresmithError(
        "no such model",
        where="params.yaml: release.model",
        expected=", ".join(entry.name for entry in params.models),
        got=wanted,
    )


def step_folder(entry: Model) -> Path | None:
    """Folder below data/ of the step that made a model; None for one from outside the pipeline."""
    return DATA / entry.stage if entry.stage else None


def chain(params: Params, root: Path = Path()) -> list[tuple[str, dict[str, Any]]]:
    """The training steps that made the released model, first to last: name and `training.json`; none for a base.

    Raises:
        OresmithError: a step's `training.json` is missing or damaged, or the chain has no end.
    """
    name = released(params).stage
    found: list[tuple[str, dict[str, Any]]] = []
    while name and (root / DATA / name / TRAINING).exists():
        if len(found) > 16:
            raise OresmithError("the steps of the model have no first one", where=str(root / DATA / name))
        path = root / DATA / name / TRAINING
        try:
            told: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        except (OSError, msgspec.MsgspecError) as error:
            raise OresmithError("a step's account cannot be read", where=str(path), got=str(error)[:200]) from error
        if told.get("skipped") is not None:
            raise OresmithError(
                "the released model is of a step that is switched off",
                where="params.yaml: release.model",
                got=name,
                todo="name another entry of `models`, or switch the step on",
            )
        found.append((name, told))
        start = told.get("start")
        name = start.get("from") if isinstance(start, dict) else None
    return found[::-1]


def tag_of(version: str) -> str:
    """The tag by which a version's repositories are loaded."""
    return version


def rollout_split(params: Params) -> str:
    """The split of `heldout_rollouts`: named as the corpus names the pool that was played."""
    date = params.split.held_out
    return f"heldout_{date.replace('-', '_')}" if params.rollout.pool == "heldout" and date else params.rollout.pool


def recipe_path(step: str) -> str:
    """Where the account of a training step is published, in the model's repository."""
    return f"training/{step.replace('/', '-')}.json"


def sources(params: Params, root: Path = Path()) -> list[Source]:
    """Every file that the cards of this project cite.

    Args:
        params: of the project.
        root: its directory.

    Raises:
        OresmithError: as `released` and `chain`.
    """
    scores = [(entry.name, DATA / "score" / entry.name / "scores.json") for entry in params.models]
    tasks = [(entry.name, DATA / "lmeval" / entry.name / "results.json") for entry in params.models]
    played = tuple(DATA / "rollout" / entry.name / "rollouts.parquet" for entry in params.models)
    dataset = [
        Source(DATASET, "funnel.json", (DATA / "validate/funnel.json",)),
        Source(DATASET, "validation.json", (DATA / "validate/validation.json",)),
        Source(DATASET, "certificate/certificate.json", (DATA / "audit/certificate/certificate.json",)),
        Source(DATASET, "provenance.json", (DATA / "cards/provenance.json",)),
        Source(DATASET, "compare.json", (Path("metrics/compare.json"),)),
        *(Source(DATASET, f"scores/{name}.json", (path,)) for name, path in scores),
        *(
            Source(DATASET, f"{config}/*.parquet", (DATA / "corpus" / config / "*.parquet",))
            for config in CONFIGS
            if config != ROLLOUTS
        ),
        Source(DATASET, f"{ROLLOUTS}/*.parquet", played),
    ]
    model = [
        Source(MODEL, "compare.json", (Path("metrics/compare.json"),)),
        *(Source(MODEL, f"scores/{name}.json", (path,)) for name, path in scores),
        *(Source(MODEL, f"lmeval/{name}.json", (path,)) for name, path in tasks if (root / path).exists()),
        Source(MODEL, "oresmith_model.json", _model_facts(params)),
        *(Source(MODEL, recipe_path(step), (DATA / step / TRAINING,)) for step, _ in chain(params, root)),
    ]
    return dataset + model


def model_folder(params: Params, root: Path = Path()) -> Path:
    """The directory of the released model, relative to the project: a step's `model/`, or the directory itself."""
    entry = released(params)
    place = DATA / entry.stage if entry.stage else Path(entry.path or "")
    return place / "model" if (root / place / "model").is_dir() else place


def _model_facts(params: Params) -> tuple[Path, ...]:
    entry = released(params)
    place = DATA / entry.stage if entry.stage else Path(entry.path or "")
    return (place / "model" / "oresmith_model.json", place / "oresmith_model.json")


def repository_of(card: str) -> str:
    """The repository that a card is published in; report.html, which is not, cites the dataset's files."""
    return MODEL if card == MODEL_CARD or card.startswith(f"{EVAL_RESULTS}/") else DATASET


def in_project(params: Params, root: Path, repository: str, cards: Path | None = None) -> Callable[[str], list[Path]]:
    """Finds a repository's files in the pipeline that makes them.

    Args:
        params: of the project.
        root: its directory.
        repository: `dataset` or `model`.
        cards: where the cards are being made; null takes data/cards/.
    """
    known = {source.path: source.origins for source in sources(params, root) if source.repository == repository}

    def find(path: str) -> list[Path]:
        if path == PROVENANCE and cards is not None:
            return _all(cards, [Path(PROVENANCE)])
        direct = known.get(path)
        if direct is not None:
            return _all(root, direct)
        folder, _, name = path.rpartition("/")
        origins = known.get(f"{folder}/*.parquet", ()) if name.endswith(".parquet") else ()
        return _all(root, [origin.with_name(name) for origin in origins if origin.name == "*.parquet"])

    return find


def in_folder(root: Path) -> Callable[[str], list[Path]]:
    """Finds a repository's files in a folder that holds the repository, and nothing outside of it."""
    top = root.resolve()

    def find(path: str) -> list[Path]:
        if not _CITED.fullmatch(path) or ".." in path.split("/"):
            return []
        return [found for found in _all(root, [Path(path)]) if found.resolve().is_relative_to(top)]

    return find


def _all(root: Path, patterns: Sequence[Path]) -> list[Path]:
    found = {path for pattern in patterns for path in root.glob(pattern.as_posix()) if path.is_file()}
    return sorted(found)
