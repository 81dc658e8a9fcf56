"""Combinations of parameters that each key alone would allow but that cannot work together."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from oresmith.errors import ParameterError
from oresmith.param_data import Snapshot
from oresmith.param_types import HUB_MODEL, MAX_RUNS

if TYPE_CHECKING:
    from oresmith.params import Params


def check_combinations(params: Params, where: str) -> None:
    """Refuse combinations that each key alone would allow but that cannot work together."""
    if params.release.model not in [None, *(model.name for model in params.models)]:
        raise ParameterError(
            "the model that is released is not evaluated",
            where=f"{where}: release.model",
            expected=", ".join(model.name for model in params.models),
            got=str(params.release.model),
        )
    names = [entry.name for entry in params.snapshots]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ParameterError("two snapshots share a name", where=f"{where}: snapshots", got=", ".join(twice))
    for place, entry in enumerate(params.snapshots):
        _check_source(entry, f"{where}: snapshots[{place}]")
    gate, evidence = params.gate, params.evidence
    if evidence.tokenizer == "none" and gate.max_tokens is not None and gate.length_missing == "reject":
        raise ParameterError(
            "every row would be rejected: the tokens are not counted, but a length is asked for",
            where=f"{where}: evidence.tokenizer with gate.length_missing",
            todo="name a tokenizer, or set gate.length_missing to pass, or gate.max_tokens to null",
        )
    for name, titled in (("evidence", evidence), ("score", params.score)):
        if titled.title_min is not None and titled.title_model == "none":
            raise ParameterError(
                "a threshold without a model decides nothing",
                where=f"{where}: {name}.title_min with {name}.title_model",
                todo=f"name a model, or set {name}.title_min to null",
            )
    for key, chosen in (("origin", gate.origin), ("provenance", gate.provenance)):
        if not chosen:
            raise ParameterError(
                "an empty list accepts no row at all", where=f"{where}: gate.{key}", expected="at least one label"
            )
    _check_split(params, where)
    if params.base.model.startswith("hub:") and not HUB_MODEL.fullmatch(params.base.model):
        raise ParameterError(
            "a model of the Hub must be pinned by a full commit hash; branches and tags can move",
            where=f"{where}: base.model",
            expected="hub:ORG/NAME@ and 40 hex digits",
            got=params.base.model[:200],
        )
    _check_rollout(params, where)
    if (params.lmeval.engine == "local-completions") != (params.lmeval.url is not None):
        raise ParameterError(
            "a server has an address, and this process has none",
            where=f"{where}: lmeval.url with lmeval.engine",
            todo="set both for engine: local-completions, or leave url null",
        )
    if gate.reasoning_missing == "reject" and not gate.reasoning_eras:
        raise ParameterError(
            "every row would be rejected: no judge era counts, and a missing score rejects",
            where=f"{where}: gate.reasoning_eras with gate.reasoning_missing",
        )


def _check_source(entry: Snapshot, where: str) -> None:
    """Each kind of source has its own keys: what it does not read would be a wish without effect."""
    needed = ("suite", "seed", "day", "days", "miners")
    given = [key for key in (*needed, "products", "catalogue", "witness") if getattr(entry, key) not in (None, False)]
    if entry.source == "files" and given:
        raise ParameterError("only an arena reads this key", where=f"{where}.{given[0]}", todo="set source: arena")
    if entry.source == "files":
        return
    missing = [key for key in needed if getattr(entry, key) is None]
    if missing:
        raise ParameterError("missing parameter of an arena", where=f"{where}.{missing[0]}")
    if entry.pattern is not None:
        raise ParameterError("an arena makes its own files", where=f"{where}.pattern", todo="remove the key")
    if (entry.products is None) == (entry.catalogue is None):
        raise ParameterError("an arena needs a world's size or a catalogue, not both", where=f"{where}.products")
    if not sum((entry.miners or {}).values()):
        raise ParameterError("nobody would play", where=f"{where}.miners", expected="at least one agent version")
    runs = sum((entry.miners or {}).values()) * (entry.days or 1)
    if runs > MAX_RUNS:
        what = "more runs than one snapshot may hold: agent versions by days"
        raise ParameterError(what, where=f"{where}.miners", expected=f"at most {MAX_RUNS:,}", got=f"{runs:,}")
    _check_day(entry.day or "", f"{where}.day")


def _check_day(text: str, where: str) -> None:
    try:
        date.fromisoformat(text)
    except ValueError as error:
        raise ParameterError("no such day", where=where, got=text) from error


def _check_split(params: Params, where: str) -> None:
    split = params.split
    if split.held_out is not None:
        _check_day(split.held_out, f"{where}: split.held_out")
    if split.heldout_share + split.dev_share >= 1:
        raise ParameterError(
            "the pools leave nothing to train on",
            where=f"{where}: split.heldout_share with split.dev_share",
            expected="shares that add up to less than 1",
            got=str(split.heldout_share + split.dev_share),
        )
    named = [benchmark.name for benchmark in params.cluster.benchmarks]
    twice = sorted({name for name in named if named.count(name) > 1})
    unknown = sorted(set(split.allow_benchmark) - set(named))
    if twice or unknown:
        raise ParameterError(
            "a benchmark is named twice" if twice else "an allowed benchmark is not among the named ones",
            where=f"{where}: " + ("cluster.benchmarks" if twice else "split.allow_benchmark"),
            got=", ".join(twice or unknown),
        )
    if (split.vault is None) != (split.vault_secret is None):
        raise ParameterError(
            "a vault needs its secret, and a secret its vault", where=f"{where}: split.vault with split.vault_secret"
        )


def _check_rollout(params: Params, where: str) -> None:
    rollout, names = params.rollout, [model.name for model in params.models]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ParameterError("two models share a name", where=f"{where}: models", got=", ".join(twice))
    for place, model in enumerate(params.models):
        unknown = sorted({*model.against} - {*names[:place]})
        if unknown:
            raise ParameterError(
                "a model is compared with models that stand before it in the list",
                where=f"{where}: models[{place}].against",
                expected=", ".join(names[:place]) or "none",
                got=", ".join(unknown),
            )
        known = (model.stage is not None) + (model.path is not None)
        if known > 1 or (known == 0 and rollout.engine != "openai"):
            raise ParameterError("a model needs `from` or `path`, not both", where=f"{where}: models[{place}]")
    if rollout.temperature == 0 and rollout.samples > 1:
        raise ParameterError(
            "greedy samples of one problem are all the same",
            where=f"{where}: rollout.samples with rollout.temperature",
            todo="set a temperature above 0, or samples: 1",
        )
    if rollout.max_context is not None and rollout.max_new_tokens >= rollout.max_context:
        raise ParameterError(
            "the answer alone fills the context", where=f"{where}: rollout.max_new_tokens with rollout.max_context"
        )
    needs = dict.fromkeys(("url", "served_model", "key_env", "key_file"), "openai") | {"vllm_python": "vllm"}
    for key, engine in needs.items():
        if getattr(rollout, key) is not None and rollout.engine != engine:
            raise ParameterError(
                "only another engine reads this key", where=f"{where}: rollout.{key}", expected=f"engine: {engine}"
            )
    if rollout.engine == "openai" and rollout.url is None:
        raise ParameterError("the engine needs the server's address", where=f"{where}: rollout.url")
