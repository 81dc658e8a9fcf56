"""What stands in a bundle and where each file comes from; nothing is taken that is not named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from oresmith.blocks.atomic import MANIFEST
from oresmith.errors import OresmithError
from oresmith.param_models import Model
from oresmith.params import Params
from oresmith.release.cards.sources import chain, model_folder, recipe_path, released
from oresmith.release.layout import CARDS, CONFIGS, ROLLOUTS
from oresmith.stage import DATA

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
)
MODEL_FILES = (
    "config.json",
    "generation_config.json",
    "chat_template.jinja",
    "oresmith_model.json",
    "model.safetensors.index.json",
    *TOKENIZER,
)
"""Files of a model directory that are published beside `*.safetensors`."""
PRIVATE = frozenset({"vault", "vault_secret", "url", "key_env", "key_file", "vllm_python"})
"""Keys of parameters that say where something lies on somebody's machine."""


class Wanted(NamedTuple):
    """A file of a part and where it is taken from."""

    path: str
    """In the part."""
    source: Path
    """Relative to the project, or absolute for files of the code."""


def dataset_files(params: Params, root: Path = Path()) -> list[Wanted]:
    """The files of `dataset/` that are taken as they are.

    Raises:
        OresmithError: an input is missing.
    """
    found = [
        Wanted("README.md", CARDS / "dataset.md"),
        Wanted("CHANGELOG.md", CARDS / "changelog.md"),
        Wanted("croissant.json", CARDS / "croissant.json"),
        Wanted("provenance.json", CARDS / "provenance.json"),
        Wanted("contamination.tsv", DATA / "audit/contamination.tsv"),
        Wanted("verify_certificate.py", DATA / "audit/verify_certificate.py"),
        Wanted("compare.json", Path("metrics/compare.json")),
        Wanted("funnel.json", DATA / "validate/funnel.json"),
        Wanted("validation.json", DATA / "validate/validation.json"),
        *_folder("certificate", DATA / "audit/certificate", root),
        *_folder("figures", CARDS / "figures", root, ".png"),
        *(Wanted(f"schemas/{_flat(path)}", path) for path in sorted(SCHEMAS.rglob("*.json"))),
    ]
    for config in CONFIGS:
        if config != ROLLOUTS:
            found += _folder(config, DATA / "corpus" / config, root, ".parquet")
    for place, model in enumerate(params.models):
        scores = DATA / "score" / model.name
        found.append(Wanted(f"scores/{model.name}.json", scores / "scores.json"))
        found.append(Wanted(f"scores/{model.name}.parquet", scores / "rows.parquet"))
        if params.rollout.pool == "heldout" and params.split.held_out:
            played = DATA / "rollout" / model.name
            split = _split_of(root / played, params.split.held_out)
            name = f"{ROLLOUTS}/{split}-{place:03d}-{model.name}-00000.parquet"
            found.append(Wanted(name, played / "rollouts.parquet"))
    return _there(found, root)


def model_files(params: Params, root: Path = Path()) -> list[Wanted]:
    """The files of `model/` that are taken as they are.

    Raises:
        OresmithError: an input is missing, or the step that `release.model` names is switched off.
    """
    entry, steps = released(params), chain(params, root)
    folder = model_folder(params, root)
    found = [
        Wanted("README.md", CARDS / "model.md"),
        Wanted("compare.json", Path("metrics/compare.json")),
        *_folder(".eval_results", CARDS / "eval_results", root, ".yaml"),
        *(Wanted(path.name, path) for path in _model_directory(folder, root)),
        *(Wanted(f"scores/{model.name}.json", DATA / "score" / model.name / "scores.json") for model in params.models),
        *(Wanted(recipe_path(step), DATA / step / "training.json") for step, _ in steps),
    ]
    for model in params.models:
        measured = DATA / "lmeval" / model.name / "results.json"
        if (root / measured).is_file():
            found.append(Wanted(f"lmeval/{model.name}.json", measured))
    found += _of_step(entry, root)
    return _there(found, root)


def public_params(params: Params) -> dict[str, Any]:
    """The parameters as they are published: all, defaults filled in, but for `run` and places on a machine."""
    values: dict[str, Any] = msgspec.to_builtins(params)
    del values["run"]
    public: dict[str, Any] = _public(values)
    return public


def _public(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _public(part) for name, part in value.items() if name not in PRIVATE}
    if isinstance(value, list | tuple):
        return [_public(part) for part in value]
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


class _Problems(msgspec.Struct):
    pool: str


class _Played(msgspec.Struct):
    problems: _Problems


class _Manifest(msgspec.Struct):
    params: _Played


def _split_of(rollouts: Path, held_out: str) -> str:
    """The split that rollouts on a held-out pool are published in.

    Raises:
        OresmithError: they are of another pool than the one that the parameters open.
    """
    path = rollouts / MANIFEST
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Manifest).params.problems.pool
    except (OSError, msgspec.MsgspecError) as error:
        raise OresmithError(
            "there are no rollouts to publish", where=str(path), got=str(error)[:200], todo="run `dvc repro`"
        ) from error
    if found.partition(",")[0] != f"heldout {held_out}":
        raise OresmithError(
            "the rollouts are of another pool",
            where=str(path),
            expected=held_out,
            got=found[:80],
            todo="run `dvc repro`",
        )
    return f"heldout_{held_out.replace('-', '_')}"


def _of_step(entry: Model, root: Path) -> Iterator[Wanted]:
    """What a training step adds to the merged model."""
    if entry.stage is None:
        return
    step = DATA / entry.stage
    for name in ("training.json", "rows.jsonl.zst"):
        if (root / step / name).is_file():
            yield Wanted(name, step / name)
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        if (root / step / "adapter" / name).is_file():
            yield Wanted(f"adapter/{name}", step / "adapter" / name)


def _model_directory(folder: Path, root: Path) -> list[Path]:
    weights = sorted(path.relative_to(root) for path in (root / folder).glob("*.safetensors"))
    if not weights or not (root / folder / "config.json").is_file():
        raise OresmithError(
            "there is no model to release",
            where=str(folder),
            expected="config.json and *.safetensors",
            todo="run `dvc repro`, or name another entry of `models` in release.model",
        )
    return [folder / name for name in MODEL_FILES if (root / folder / name).is_file()] + weights


def _folder(place: str, folder: Path, root: Path, suffix: str = "") -> list[Wanted]:
    """The files of a folder, of one kind; folders below it are not looked into."""
    found = sorted(path for path in (root / folder).glob("*") if path.is_file() and path.name.endswith(suffix))
    return [Wanted(f"{place}/{path.name}", folder / path.name) for path in found]


def _flat(path: Path) -> str:
    return path.relative_to(SCHEMAS).as_posix().replace("/", "-")


def _there(found: list[Wanted], root: Path) -> list[Wanted]:
    missing = [str(wanted.source) for wanted in found if not (root / wanted.source).is_file()]
    if missing:
        raise OresmithError(
            "what a release holds is not there yet",
            where=missing[0],
            got=f"{len(missing)} missing",
            todo="run `dvc repro`",
        )
    return found
