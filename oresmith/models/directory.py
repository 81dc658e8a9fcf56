"""The check of a model directory before anything of it is used, and the loading of its weights.

Nothing in a directory may run: weights are safetensors, never pickles, and code of the model's own is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from oresmith.errors import OresmithError
from oresmith.models.facts import read_facts
from oresmith.models.template import TEMPLATES, Template, template_by_id, template_for
from oresmith.models.tokenizer import ChatTokenizer

CONFIG, INDEX, CHAT_TEMPLATE = "config.json", "model.safetensors.index.json", "chat_template.jinja"
PICKLES = frozenset(".bin .pt .pth .pkl .pickle .ckpt .joblib .h5 .keras .msgpack .mar .dill .npy .npz".split())
"""Files that can run code when they are read, or that the reader would take for weights."""
CODE = frozenset(".py .pyc .so .dll .dylib .pyd".split())
MAX_JSON = 64 * 2**20
MAX_FILES = 10_000


class CheckedModel(NamedTuple):
    """A directory that may be used."""

    path: Path
    config: dict[str, Any]
    tokenizer: ChatTokenizer
    template: Template
    weights: list[Path]
    parameters: int
    dtypes: list[str]
    context: int
    vocabulary: int


def check_directory(path: Path, *, wish: str = "auto", min_context: int = 1) -> CheckedModel:
    """Check a model directory without running anything of it.

    Args:
        path: the directory.
        wish: family of the chat template, or "auto".
        min_context: least tokens that its config must allow.

    Raises:
        OresmithError: it is missing, holds pickles or code, has no config that transformers knows, no sound
            safetensors, no usable tokenizer, too short a context, or no chat template of ours fits.
    """
    if not path.is_dir():
        raise OresmithError(
            "no such model directory",
            where=str(path),
            expected="embedded, tiny, hub:ORG/NAME@SHA, or a directory with config.json and safetensors",
        )
    _refuse_unsafe(path)
    config = read_config(path)
    _refuse_unusable(path, config)
    weights = _weight_files(path)
    parameters, dtypes = _weigh(weights)
    tokenizer = ChatTokenizer.load(path)
    context, vocabulary = (_number(config, key, path) for key in ("max_position_embeddings", "vocab_size"))
    if context < min_context:
        raise OresmithError(
            "the model's context is too short",
            where=str(path / CONFIG),
            expected=f"max_position_embeddings of at least {min_context}",
            got=str(context),
            todo="choose another model, or lower base.min_context",
        )
    if tokenizer.size > vocabulary:
        raise OresmithError(
            "the tokenizer has tokens that the model has no embedding for",
            where=str(path),
            expected=f"up to {vocabulary}",
            got=str(tokenizer.size),
        )
    template = template_of(path, wish)
    return CheckedModel(path, config, tokenizer, template, weights, parameters, dtypes, context, vocabulary)


def read_config(path: Path) -> dict[str, Any]:
    """The model's config.

    Raises:
        OresmithError: there is none, or it is no JSON object.
    """
    if not (path / CONFIG).is_file():
        adapter = (path / "adapter_config.json").is_file()
        raise OresmithError(
            "an adapter alone is no model" if adapter else "the model directory has no config",
            where=str(path),
            expected=CONFIG,
            todo="name the merged model" if adapter else "",
        )
    config: dict[str, Any] = _read_json(path / CONFIG)
    return config


def template_of(path: Path, wish: str = "auto") -> Template:
    """The chat template of a directory: the one that its facts or its template file name, else its family's.

    Args:
        path: a model directory.
        wish: a family, which then rules; "auto" leaves the choice.

    Raises:
        OresmithError: unreadable config or facts, or an unknown family.
    """
    if wish == "auto":
        facts = read_facts(path)
        if facts is not None:
            return template_by_id(facts.template)
        own = path / CHAT_TEMPLATE
        text = own.read_bytes() if own.is_file() else b""
        for template in TEMPLATES.values():
            if template.text().encode() == text:
                return template
    return template_for(str(read_config(path).get("model_type")), wish)


def load_model(path: Path, *, dtype: str = "float32") -> Any:
    """Load a checked directory's weights with transformers, for training or generation.

    Args:
        path: a directory that `check_directory` accepted.
        dtype: torch's name, such as bfloat16.

    Returns:
        The model in evaluation mode.

    Raises:
        OresmithError: weights are missing (transformers would fill them at random) or left over.
    """
    import torch
    from transformers import AutoModelForCausalLM

    try:
        model, info = AutoModelForCausalLM.from_pretrained(
            str(path),
            dtype=getattr(torch, dtype),
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise OresmithError("the model cannot be loaded", where=str(path), got=str(error)[:300]) from error
    faults = {
        kind: sorted(map(str, info.get(kind) or [])) for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")
    }
    if any(faults.values()):
        raise OresmithError(
            "the weights are not those of the config",
            where=str(path),
            got="; ".join(f"{kind}: {', '.join(names[:3])}" for kind, names in faults.items() if names)[:300],
        )
    return model.eval()


def _files(path: Path) -> Iterator[Path]:
    count = 0
    for folder, _, names in os.walk(path):
        for name in sorted(names):
            count += 1
            if count > MAX_FILES:
                raise OresmithError("too many files for a model", where=str(path), expected=f"up to {MAX_FILES}")
            yield Path(folder) / name


def _refuse_unsafe(path: Path) -> None:
    for file in _files(path):
        ending = file.suffix.lower()
        if ending in PICKLES or ending in CODE:
            raise OresmithError(
                "the model directory holds a pickle" if ending in PICKLES else "the model brings code of its own",
                where=str(file),
                expected="safetensors, JSON and text only",
                todo="save the weights as safetensors, and leave the file out" if ending in PICKLES else "",
            )
        if ending == ".json" and file.name != "tokenizer.json" and file.parent == path:
            found = _read_json(file, any_value=True)
            # Transformers looks for the key in each of these files.
            if isinstance(found, dict) and "auto_map" in found:
                raise OresmithError(
                    "the model asks for code of its own", where=str(file), expected="no auto_map", got="auto_map"
                )


def _refuse_unusable(path: Path, config: dict[str, Any]) -> None:
    if config.get("quantization_config"):
        raise OresmithError(
            "quantised weights are not trained on", where=str(path / CONFIG), todo="name the model that they came from"
        )
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    model_type = config.get("model_type")
    if not isinstance(model_type, str) or model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise OresmithError(
            "transformers knows no such language model",
            where=str(path / CONFIG),
            expected="a model_type of its causal language models",
            got=str(model_type)[:80],
        )
    try:
        AutoConfig.from_pretrained(str(path), local_files_only=True, trust_remote_code=False)
    except Exception as error:  # each architecture raises what it likes on values that make no sense
        raise OresmithError(
            "transformers refuses the model's config", where=str(path / CONFIG), got=str(error)[:200]
        ) from error


def _weight_files(path: Path) -> list[Path]:
    if (path / INDEX).is_file():
        named = _read_json(path / INDEX).get("weight_map")
        names = sorted(set(map(str, named.values()))) if isinstance(named, dict) else []
        if any("/" in name or "\\" in name or not name.endswith(".safetensors") for name in names):
            raise OresmithError("the index names files outside the directory", where=str(path / INDEX))
    else:
        names = ["model.safetensors"]
    missing = [name for name in names if not (path / name).is_file()]
    if missing or not names:
        raise OresmithError(
            "the model directory lacks weights",
            where=str(path),
            expected=f"model.safetensors, or the files that {INDEX} names",
            got=f"no {missing[0]}" if missing else "an index that names none",
        )
    return [path / name for name in names]


def _weigh(files: list[Path]) -> tuple[int, list[str]]:
    """Parameters and dtypes of weight files, from their headers."""
    from safetensors import SafetensorError, safe_open

    parameters, dtypes = 0, set()
    for file in files:
        try:
            with safe_open(str(file), framework="np") as opened:
                for key in opened.keys():  # noqa: SIM118 - no mapping
                    part = opened.get_slice(key)
                    size = 1
                    for length in part.get_shape():
                        size *= length
                    parameters += size
                    dtypes.add(str(part.get_dtype()))
        except (SafetensorError, OSError) as error:
            raise OresmithError("not a sound safetensors file", where=str(file), got=str(error)[:200]) from error
    return parameters, sorted(dtypes)


def _number(config: dict[str, Any], key: str, path: Path) -> int:
    value = config.get(key)
    if type(value) is not int or value < 1:
        raise OresmithError("the config lacks a number", where=str(path / CONFIG), expected=key, got=str(value)[:40])
    return value


def _read_json(file: Path, *, any_value: bool = False) -> Any:
    if not file.is_file():
        raise OresmithError("not a regular file", where=str(file))
    try:
        if file.stat().st_size > MAX_JSON:
            raise OresmithError("too large for a model's JSON", where=str(file), expected=f"up to {MAX_JSON} bytes")
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise OresmithError("unreadable JSON in a model directory", where=str(file), got=str(error)[:200]) from error
    if not any_value and not isinstance(found, dict):
        raise OresmithError("not a JSON object", where=str(file))
    return found
