"""Gates of the scores: each model has n, k and an interval on the same problems, and was played as published."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

import msgspec
import polars as pl

from oresmith.errors import OresmithError
from oresmith.param_models import Model
from oresmith.release.cards.sources import released
from oresmith.release.given import Given, read_as, read_json
from oresmith.release.layout import ROLLOUTS

_SAME = ("scorer", "titles", "problems", "harness", "prompt", "tools", "view", "sampling", "limits")


class _Rate(msgspec.Struct):
    k: int
    n: int
    share: float
    low: float
    high: float


class _Figures(msgspec.Struct):
    problems: int
    asr: _Rate


class Scored(msgspec.Struct):
    """What is read of scores/NAME.json."""

    scores: Literal["oresmith.scores/1"]
    model: str
    conditions: dict[str, Any]
    noted: dict[str, Any]
    samples: int
    overall: _Figures
    missing: list[Any]
    unscored: list[Any]


def scores(given: Given) -> str:
    """Whether each model of the parameters is scored on the same problems, and its rollouts are published."""
    params, told = given.params, []
    groups: dict[tuple[str, ...] | None, tuple[str, Scored]] = {}
    for model in params.models:
        path = given.dataset / f"scores/{model.name}.json"
        found = read_as(path, Scored)
        _check_rate(path, found, model.name)
        _check_rows(given.dataset / f"scores/{model.name}.parquet", found)
        _check_rollouts(given.dataset, model.name, found)
        first, shared = groups.setdefault(model.levels, (model.name, found))
        differing = [name for name in _SAME if found.conditions.get(name) != shared.conditions.get(name)]
        if differing and not params.compare.forced:
            raise OresmithError(
                "two models were scored under different conditions",
                where=f"{path}: conditions",
                got=f"{', '.join(differing)} of {first}",
            )
        rate = found.overall.asr
        told.append(f"{model.name} {rate.k}/{rate.n} ({100 * rate.low:.1f} to {100 * rate.high:.1f}%)")
    _check_compared(given)
    return "; ".join(told)


def _check_rate(path: Path, found: Scored, name: str) -> None:
    rate = found.overall.asr
    faults = {
        "of another model": found.model != name,
        "no interval, or one that does not hold the rate": not 0 <= rate.low <= rate.share <= rate.high <= 1,
        "an interval without width": rate.low == rate.high,
        "a rate that is not k of n": rate.n < 1 or abs(rate.k / rate.n - rate.share) > 1e-6,
        "another number of problems": rate.n != found.overall.problems * found.samples,
    }
    for fault, there in faults.items():
        if there:
            raise OresmithError(f"a score is not as it must be: {fault}", where=f"{path}: overall.asr")
    if found.missing:
        raise OresmithError("rollouts are missing", where=f"{path}: missing", got=f"{len(found.missing)} of {rate.n}")


def _check_rows(path: Path, found: Scored) -> None:
    rows = _read(path, ["success"])
    k, n = int(rows["success"].fill_null(False).sum()), rows.height
    if (k, n) != (found.overall.asr.k, found.overall.asr.n):
        raise OresmithError(
            "the rows give another score",
            where=str(path),
            expected=f"{found.overall.asr.k} of {found.overall.asr.n}",
            got=f"{k} of {n}",
        )


def _check_rollouts(dataset: Path, name: str, found: Scored) -> None:
    files = sorted((dataset / ROLLOUTS).glob(f"*-[0-9][0-9][0-9]-{name}-[0-9]*.parquet"))
    rows = [_read(file, ["model", "problem", "sample"]) for file in files]
    count = sum(table.height for table in rows)
    if count != found.overall.asr.n or any((table["model"] != name).any() for table in rows):
        raise OresmithError(
            "the rollouts behind a score are not published",
            where=f"{dataset / ROLLOUTS}: {name}",
            expected=f"{found.overall.asr.n} rows of this model",
            got=str(count),
            todo="evaluate on the held-out pool (rollout.pool), and run `dvc repro`",
        )


def _check_compared(given: Given) -> None:
    path = given.dataset / "compare.json"
    told = read_json(path)
    names = [model.name for model in given.params.models]
    if told.get("models") != names:
        raise OresmithError(
            "the comparison is of other models",
            where=str(path),
            expected=", ".join(names),
            got=str(told.get("models"))[:200],
        )
    pairs = {(pair.get("first"), pair.get("second")) for pair in told.get("pairs", [])}
    seen: dict[tuple[str, ...] | None, str] = {}
    for model in given.params.models:
        first = seen.setdefault(model.levels, model.name)
        if first != model.name and (first, model.name) not in pairs:
            raise OresmithError("two models are not compared", where=str(path), got=f"{first} and {model.name}")


def parity(given: Given) -> str:
    """Whether the released model was trained, played and published with one template, tokenizer, prompt and view."""
    entry: Model = released(given.params)
    noted = read_as(given.dataset / f"scores/{entry.name}.json", Scored)
    played = noted.noted.get("model") or {}
    path = given.model / "oresmith_model.json"
    if not path.is_file():
        raise OresmithError("the model does not say what it is", where=str(path))
    facts = read_json(path)
    found = {
        "template_sha256": _sha256(given.model / "chat_template.jinja"),
        "tokenizer_sha256": _sha256(given.model / "tokenizer.json"),
    }
    for key, value in found.items():
        for where, stated in (
            ("oresmith_model.json", facts.get(key)),
            (f"the rollouts of {entry.name}", played.get(key)),
        ):
            if stated != value:
                raise OresmithError(
                    f"{key.partition('_')[0]} parity does not hold: what is published is not what was used",
                    where=where,
                    expected=value,
                    got=str(stated)[:64],
                )
    config = given.model / "tokenizer_config.json"
    if config.is_file() and "chat_template" in read_json(config):
        raise OresmithError("a second chat template stands beside chat_template.jinja", where=str(config))
    identity = _identity(given.model)
    if played.get("model_sha256") != identity:
        raise OresmithError(
            "the scores are of other weights than those that are published",
            where=f"scores/{entry.name}.json: noted.model.model_sha256",
            expected=identity,
            got=str(played.get("model_sha256"))[:64],
        )
    told = _trained_as_played(given, noted)
    return f"template {facts.get('template')}, tokenizer and weights as they were played{told}"


def _trained_as_played(given: Given, noted: Scored) -> str:
    path = given.model / "training.json"
    if not path.is_file():
        return ""
    training = read_json(path)
    stated = (training.get("parameters") or {}).get("train") or {}
    chat = training.get("chat") or {}
    wanted = {name: (noted.conditions.get(name) or {}).get("id") for name in ("view", "prompt")}
    wanted |= {"template_sha256": (noted.noted.get("model") or {}).get("template_sha256")}
    for name, value in wanted.items():
        got = chat.get(name) if name == "template_sha256" else stated.get(name)
        if got != value:
            raise OresmithError(
                "the model was not asked as it was trained",
                where=f"{path}: {name}",
                expected=str(value),
                got=str(got)[:80],
            )
    return f"; view {wanted['view']}, prompt {wanted['prompt']} as trained"


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as reader:
            return hashlib.file_digest(reader, "sha256").hexdigest()
    except OSError as error:
        raise OresmithError("cannot be read", where=str(path), got=str(error)[:200]) from error


def _identity(model: Path) -> str:
    """As `evaluation.engines.model.model_identity` has it: config, generation config, tokenizer and weights."""
    named = [model / name for name in ("config.json", "generation_config.json", "tokenizer.json")]
    files = [path for path in named if path.is_file()] + sorted(model.glob("*.safetensors"))
    lines = [f"{file.name} {_sha256(file)}\n" for file in files]
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def _read(path: Path, columns: list[str]) -> pl.DataFrame:
    try:
        return pl.read_parquet(path, columns=columns)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise OresmithError("a file cannot be read", where=str(path), got=str(error)[:200]) from error
