"""What a model directory says of itself (`oresmith_model.json`), beside what the ecosystem's own files say."""

from __future__ import annotations

from pathlib import Path

import msgspec

from oresmith.errors import OresmithError

MODEL_SCHEMA = "oresmith.model/1"
FACTS_FILE = "oresmith_model.json"


class ModelFacts(msgspec.Struct, kw_only=True, frozen=True):
    """Identity of a model, without times or versions of programs: the same model has the same facts."""

    schema: str = MODEL_SCHEMA
    model: str
    """The parameter: `embedded`, `tiny`, `hub:ORG/NAME@SHA`, or `directory`."""
    origin: str
    """What it was made from, with version, revision or hash."""
    licence: str | None
    """None where the source does not say."""
    notes: list[str] = []
    """What a model card must say of it."""
    architecture: str
    model_type: str
    parameters: int
    """Numbers in the weight files; tied weights count once."""
    dtypes: list[str]
    context: int
    """Tokens, from the config."""
    vocabulary: int
    """Rows of the embedding."""
    template: str
    """Id of the chat template, as in `hermes/1`."""
    template_sha256: str
    tokenizer_sha256: str
    end_token: str


def write_facts(directory: Path, facts: ModelFacts) -> None:
    """Write the facts file."""
    (directory / FACTS_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(facts), indent=2) + b"\n")


def read_facts(directory: Path) -> ModelFacts | None:
    """The facts of a directory that this program made; None where there are none.

    Raises:
        OresmithError: the file is there and is not what it should be.
    """
    path = directory / FACTS_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=ModelFacts)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise OresmithError("unreadable facts of a model", where=str(path), got=str(error)[:200]) from error
