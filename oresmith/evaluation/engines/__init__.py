"""Engines: what writes a model's turns."""

from __future__ import annotations

from pathlib import Path

from oresmith.errors import OresmithError
from oresmith.evaluation.records import Engine
from oresmith.param_models import Rollout


def open_engine(settings: Rollout, name: str, model: Path | None) -> Engine:
    """The engine that the parameters name, ready to write turns; the caller closes it.

    Args:
        settings: namespace `rollout`: engine, batch, max_context, url, ..
        name: of the model in `models`: what a server is asked for where `served_model` is null.
        model: its directory; None where a server has the model.

    Raises:
        OresmithError: an engine that is not installed, or a model that it cannot load.
    """
    try:
        if settings.engine == "openai":
            return _openai(settings, name)
        if model is None:
            raise OresmithError("the engine needs the model's directory", where=f"rollout.engine: {settings.engine}")
        return _vllm(settings, name, model) if settings.engine == "vllm" else _transformers(settings, model)
    except ImportError as error:
        raise OresmithError(
            "a package that the engine needs is not installed",
            where=f"rollout.engine: {settings.engine}",
            got=str(error)[:200],
            todo="pip install 'oresmith[arena,eval]'",
        ) from error


def _transformers(settings: Rollout, model: Path) -> Engine:
    from oresmith.evaluation.engines.inprocess import InProcess

    return InProcess(
        model,
        dtype=settings.dtype,
        threads=settings.threads,
        batch=settings.batch,
        max_context=settings.max_context,
    )


def _openai(settings: Rollout, name: str) -> Engine:
    from oresmith.arena.server.config import Secret
    from oresmith.evaluation.engines.remote import OpenAIEngine

    key = Secret(env=settings.key_env, file=Path(settings.key_file) if settings.key_file else None)
    if settings.key_env and key.read() is None:
        raise OresmithError(
            "the variable that should hold the key is not set", where=f"rollout.key_env: {settings.key_env}"
        )
    if settings.url is None:
        raise OresmithError("the engine needs the server's address", where="rollout.url")
    return OpenAIEngine(
        settings.url,
        settings.served_model or name,
        key=key,
        batch=settings.batch,
        max_context=settings.max_context,
    )


def _vllm(settings: Rollout, name: str, model: Path) -> Engine:
    from oresmith.evaluation.engines.vllm import VllmEngine

    return VllmEngine(
        model,
        name,
        python=settings.vllm_python,
        dtype=settings.dtype,
        batch=settings.batch,
        max_context=settings.max_context,
    )
