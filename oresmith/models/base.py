"""The base model of a run: made or fetched by parameter, checked, and written as one directory that anyone can load."""

from __future__ import annotations

import json
import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from oresmith.models import embedded, tiny
from oresmith.models.directory import CHAT_TEMPLATE, CheckedModel, check_directory, read_config
from oresmith.models.facts import ModelFacts, write_facts
from oresmith.models.hub import PREFIX, WANTED, HubModel, fetch_hub, parse_hub
from oresmith.models.replies import END
from oresmith.param_models import Base

EMBEDDED, TINY = "embedded", "tiny"
LICENCE_OF_OURS = "apache-2.0"


def write_base(params: Base, target: Path) -> ModelFacts:
    """Write the base model: its files, our chat template in place of its own, and its facts.

    Args:
        params: which model.
        target: an existing, empty directory.

    Raises:
        OresmithError: the model is missing, unpinned, unsafe, or unfit (`check_directory`).
    """
    origin, licence, notes = _fill(params, target)
    checked = check_directory(target, wish=params.template, min_context=params.min_context)
    install_template(checked)
    facts = ModelFacts(
        model=params.model if params.model in (EMBEDDED, TINY) or params.model.startswith(PREFIX) else "directory",
        origin=origin,
        licence=licence,
        notes=notes,
        **measured(checked),
    )
    write_facts(target, facts)
    return facts


def measured(checked: CheckedModel) -> dict[str, Any]:
    """The facts that the files themselves state."""
    return {
        "architecture": str((checked.config.get("architectures") or ["unknown"])[0]),
        "model_type": str(checked.config["model_type"]),
        "parameters": checked.parameters,
        "dtypes": checked.dtypes,
        "context": checked.context,
        "vocabulary": checked.vocabulary,
        "template": checked.template.id,
        "template_sha256": checked.template.sha256,
        "tokenizer_sha256": checked.tokenizer.sha256,
        "end_token": END,
    }


def install_template(checked: CheckedModel) -> None:
    """Make our template the one that every program finds in the directory."""
    (checked.path / CHAT_TEMPLATE).write_text(checked.template.text(), "utf-8")
    path = checked.path / "tokenizer_config.json"
    if path.is_file():
        config = json.loads(path.read_bytes())
        config.pop("chat_template", None)
        path.write_text(json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")


def _fill(params: Base, target: Path) -> tuple[str, str | None, list[str]]:
    """Put the model's files into `target`: (origin, licence, notes)."""
    if params.model == EMBEDDED:
        embedded.write_embedded(target, params.dtype)
        return embedded.ORIGIN, embedded.LICENCE, embedded.NOTES
    if params.model == TINY:
        tiny.write_tiny(target, params.dtype, params.seed)
        return f"{tiny.ORIGIN}, seed {params.seed}", LICENCE_OF_OURS, tiny.NOTES
    pinned = parse_hub(params.model) if params.model.startswith(PREFIX) else None
    if pinned:
        # What else lies in the cache is not copied, so only the copy is checked.
        source = fetch_hub(pinned, download=params.download)
    else:
        source = check_directory(Path(params.model), wish=params.template, min_context=params.min_context).path
    _copy(source, target)
    return _origin(pinned, target), _licence(target), []


def _origin(pinned: HubModel | None, target: Path) -> str:
    if pinned:
        return f"{pinned.repository} at commit {pinned.revision} of the Hugging Face Hub"
    return f"a directory; config {read_config(target).get('model_type')}, files by hash in the manifest"


def _copy(source: Path, target: Path) -> None:
    for path in sorted(source.iterdir()):
        if path.is_file() and any(fnmatch(path.name, pattern) for pattern in WANTED):
            shutil.copyfile(path, target / path.name)


def _licence(target: Path) -> str | None:
    """The licence that the model's card names in its head; None where it names none."""
    from huggingface_hub import ModelCard

    path = target / "README.md"
    if not path.is_file():
        return None
    try:
        licence = ModelCard.load(path).data.license
        return str(licence) if licence else None
    except Exception:  # a card is free text, and no card at all is fine too
        return None
