"""The model as lm-eval holds it: in this process, or behind a server that takes token ids; offline but for that."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from oresmith.errors import OresmithError
from oresmith.evaluation.engines.model import model_identity
from oresmith.models.directory import CheckedModel, check_directory, load_model
from oresmith.models.rendering import Chat
from oresmith.param_models import Lmeval

_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


class Held(NamedTuple):
    """A model ready for lm-eval."""

    lm: Any
    """`lm_eval.api.model.LM`."""
    chat: Chat
    context: int
    """Tokens of prompt and reply together."""
    identity: dict[str, Any]
    """Engine, and hashes of model, template and tokenizer."""

    def encode(self, text: str) -> list[int]:
        """The ids that lm-eval makes of a prompt."""
        return list(self.lm.tok_encode(text))


def need_lm_eval() -> None:
    """Make lm-eval importable, without a word to any network.

    Raises:
        OresmithError: it is not installed.
    """
    os.environ.update(_OFFLINE)  # read when the libraries are imported
    try:
        import lm_eval  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        raise OresmithError(
            "a package that lm-eval needs is not installed", got=str(error)[:200], todo="pip install 'oresmith[eval]'"
        ) from error
    logging.getLogger("lm_eval").setLevel(logging.ERROR)  # it warns of what is done here on purpose


@contextmanager
def held(directory: Path, settings: Lmeval, name: str) -> Iterator[Held]:
    """Hold a checked model for lm-eval; it says nothing but what it is asked, and adds no token of its own.

    Args:
        directory: of the model; of a served one, for its tokenizer and template.
        settings: namespace `lmeval`.
        name: of the model, which a server is asked for where `served_model` is null.

    Raises:
        OresmithError: a package is missing, or the directory is unfit (`check_directory`).
    """
    need_lm_eval()
    import torch

    checked = check_directory(directory)
    context = min(checked.context, settings.max_context or checked.context)
    threads = torch.get_num_threads()
    if settings.engine == "hf":
        torch.set_num_threads(settings.threads)
    try:
        lm = _served(checked, settings, name, context) if settings.url else _loaded(checked, settings, context)
        dtype = {} if settings.url else {"dtype": settings.dtype, "threads": settings.threads}
        identity = {"engine": settings.engine, **model_identity(checked), **dtype}
        # lm-eval keeps one token of a server's context for itself.
        room = context - 1 if settings.url else context
        yield Held(lm, Chat(checked.template, checked.tokenizer), room, identity)
    finally:
        torch.set_num_threads(threads)


def _loaded(checked: CheckedModel, settings: Lmeval, context: int) -> Any:
    from lm_eval.models.huggingface import HFLM

    return HFLM(
        pretrained=load_model(checked.path, dtype=settings.dtype),
        tokenizer=str(checked.path),
        max_length=context,
        batch_size=settings.batch,
        add_bos_token=False,
    )


def _served(checked: CheckedModel, settings: Lmeval, name: str, context: int) -> Any:
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    return LocalCompletionsAPI(
        base_url=f"{str(settings.url).rstrip('/')}/completions",
        model=settings.served_model or name,
        tokenizer=str(checked.path),
        tokenizer_backend="huggingface",
        tokenized_requests=True,
        add_bos_token=False,
        max_length=context,
        batch_size=1,
        num_concurrent=settings.batch,
        header={"Accept": "application/json"},  # without one, lm-eval sends the OPENAI_API_KEY of the environment
    )
