"""A trained model as files: the adapter, the merged model that any program loads, and the proof that they are the same.

The merged model has the directory form of its start model (tokenizer and chat template are copies), so each step can
start from the one before. Nothing is pickled.
"""

from __future__ import annotations

import json
import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from oresmith.audit.certificate import sha256_of
from oresmith.errors import OresmithError
from oresmith.models.base import measured
from oresmith.models.directory import CONFIG, CheckedModel, check_directory, load_model
from oresmith.models.facts import ModelFacts, write_facts
from oresmith.models.hub import WANTED
from oresmith.models.rendering import Chat, render
from oresmith.records import Record

ADAPTER, MODEL = "adapter", "model"
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PROMPT = [
    {"role": "system", "content": "You help a customer to shop."},
    {"role": "user", "content": "I am looking for a blue cotton shirt, size large, that costs between 100 and 250."},
]
"""What the probe reads. A fixed text, so that figures of different models can be compared."""
MERGE_TOLERANCE = 1e-3
"""Largest difference of logits between base + adapter and the merged model before rounding, over the largest logit.
Both are float32, and only the order of sums differs: 1e-6 to 1e-5 is usual."""
MOST_LOST = 0.5
"""Largest error by rounding the merged weights, over what training changed (root mean square of logits)."""
_NOT_COPIED = (CONFIG, "*.safetensors", "*.safetensors.index.json", "README.md")


class Probe(Record, frozen=True):
    """What the start model, the trained one and the files of the merged one answer to the same prompt, in float32."""

    tokens: int
    """Of the prompt; the figures are over all its positions and the whole vocabulary."""
    changed_max: float
    """Largest difference of logits that training made."""
    changed_rms: float
    changed_argmax: int
    """Positions whose most likely next token is another one."""
    merged_max: float
    """Largest difference between base + adapter and the merged weights before they are rounded; 0 without adapter."""
    largest: float
    """Largest logit of base + adapter, either sign."""
    rounded_max: float
    """Largest difference that storing the weights in their dtype makes."""
    rounded_rms: float
    rounded_argmax: int
    """Positions whose most likely next token is another one than before rounding."""


def save_trained(model: Any, target: Path) -> None:
    """Write what was trained: `adapter/` for a PEFT model, else all weights as they are, in `model/`.

    Args:
        model: a PEFT model with one adapter, or a transformers model.
        target: the step's directory.
    """
    from peft import PeftModel

    adapted = isinstance(model, PeftModel)
    folder = target / (ADAPTER if adapted else MODEL)
    # PEFT would ask the Hub whether the base's vocabulary was changed.
    model.save_pretrained(str(folder), **({"save_embedding_layers": False} if adapted else {}))


def finish_model(
    start: CheckedModel, facts: ModelFacts, target: Path, *, dtype: str, step: str, seed: int
) -> tuple[ModelFacts, Probe]:
    """Make of what a trainer wrote the finished adapter and the complete merged model, and prove that they agree.

    Args:
        start: the model that was trained.
        facts: of it.
        target: the step's directory, with `adapter/` (PEFT) or `model/` (all weights) as the trainer saved it.
        dtype: of the merged weights, torch's name.
        step: name of the step, as in sft/1.
        seed: of the step.

    Returns:
        Facts of the merged model (also written), and what the probe found.

    Raises:
        OresmithError: neither is there, weights that are no numbers, training changed nothing, or the merged model is
            not base + adapter.
    """
    adapted = (target / ADAPTER).is_dir()
    if not adapted and not (target / MODEL).is_dir():
        raise OresmithError("the trainer left no weights", where=str(target), expected=f"{ADAPTER}/ or {MODEL}/")
    if adapted:
        tidy_adapter(target / ADAPTER, start.path)
    base = load_model(start.path)
    ids = _prompt(Chat(start.template, start.tokenizer))
    before = _logits(base, ids)
    if adapted:
        from peft import PeftModel

        model = PeftModel.from_pretrained(base, str(target / ADAPTER)).eval()
        after = _logits(model, ids)
        merged = model.merge_and_unload()
    else:
        del base
        _complete(start, target / MODEL, "float32")
        merged = load_model(target / MODEL)
        after = _logits(merged, ids)
    whole = _logits(merged, ids)
    _refuse_unsound(merged, target)
    _write(merged, target / MODEL, dtype)
    _complete(start, target / MODEL, dtype)
    checked = check_directory(target / MODEL)
    _refuse_other_weights(merged, checked, dtype)
    probe = _compare(before, after, whole, _logits(load_model(target / MODEL), ids))
    _judge(probe, target, dtype)
    if checked.parameters != start.parameters:
        raise OresmithError(
            "the merged model is of another size than its start",
            where=str(target / MODEL),
            expected=f"{start.parameters:,} parameters",
            got=f"{checked.parameters:,}",
        )
    _readable(target)
    return _facts(checked, facts, step, seed), probe


def tidy_adapter(folder: Path, start: Path) -> None:
    """Leave the two files that a reader needs, with the same bytes for the same training.

    Args:
        folder: as PEFT saved it. Its config names the base by an absolute path and its modules in any order.
        start: directory of the start model, relative to the project's root.

    Raises:
        OresmithError: a file is missing.
    """
    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        if not (folder / name).is_file():
            raise OresmithError("the adapter is not whole", where=str(folder), expected=name)
    for path in sorted(folder.iterdir()):
        if path.name not in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    config = json.loads((folder / ADAPTER_CONFIG).read_bytes())
    config |= {"base_model_name_or_path": start.as_posix(), "inference_mode": True}
    config = {key: sorted(value) if _names(value) else value for key, value in config.items()}
    (folder / ADAPTER_CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")


def adapter_sha256(target: Path) -> str | None:
    """sha256 of the adapter's weights in a step's directory; None where all weights were trained."""
    path = target / ADAPTER / ADAPTER_WEIGHTS
    return sha256_of(path) if path.is_file() else None


def _names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _prompt(chat: Chat) -> list[int]:
    return render(PROMPT, None, chat, add_generation_prompt=True).ids


def _logits(model: Any, ids: list[int]) -> Any:
    """Logits of every position, float32, shape (tokens, vocabulary)."""
    import torch

    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids])).logits[0].float().clone()


def _refuse_unsound(model: Any, target: Path) -> None:
    import torch

    bad = [name for name, value in model.state_dict().items() if not torch.isfinite(value).all()]
    if bad:
        raise OresmithError(
            "the trained weights hold values that are no numbers",
            where=str(target),
            got=", ".join(bad[:3]),
            todo="lower the learning rate",
        )


def _write(model: Any, folder: Path, dtype: str) -> None:
    """All weights, rounded to `dtype` in the model itself, too: parts that are tied stay one."""
    import torch

    shutil.rmtree(folder, ignore_errors=True)
    model.to(getattr(torch, dtype)).save_pretrained(str(folder), max_shard_size="5GB")


def _complete(start: CheckedModel, folder: Path, dtype: str) -> None:
    """Everything but the weights, from the start model."""
    for path in folder.iterdir():
        if not path.name.endswith((".safetensors", ".safetensors.index.json")):
            path.unlink()
    for path in sorted(start.path.iterdir()):
        wanted = any(fnmatch(path.name, pattern) for pattern in WANTED)
        if path.is_file() and wanted and not any(fnmatch(path.name, pattern) for pattern in _NOT_COPIED):
            shutil.copyfile(path, folder / path.name)
    config = start.config | {"dtype": dtype}
    config.pop("torch_dtype", None)  # the name of the same in older versions
    (folder / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")


def _refuse_other_weights(merged: Any, checked: CheckedModel, dtype: str) -> None:
    """The files hold exactly the merged weights, rounded once (`merged` has been by now)."""
    import torch

    stored = load_model(checked.path, dtype=dtype).state_dict()
    expected = merged.state_dict()
    wrong = sorted(
        expected.keys() ^ stored.keys() or {name for name in expected if not torch.equal(expected[name], stored[name])}
    )
    if wrong:
        raise OresmithError(
            "the merged model's files are not the merged weights", where=str(checked.path), got=", ".join(wrong[:3])
        )


def _compare(before: Any, after: Any, whole: Any, stored: Any) -> Probe:
    """Figures to three digits: what is beyond them differs between machines."""
    return Probe(
        tokens=len(before),
        changed_max=_max(after - before),
        changed_rms=_rms(after - before),
        changed_argmax=_other(after, before),
        merged_max=_max(whole - after),
        largest=_max(after),
        rounded_max=_max(stored - whole),
        rounded_rms=_rms(stored - whole),
        rounded_argmax=_other(stored, whole),
    )


def _judge(probe: Probe, target: Path, dtype: str) -> None:
    where = str(target)
    if probe.changed_max == 0:
        raise OresmithError(
            "training changed nothing: the model answers as its start does",
            where=where,
            todo="raise the learning rate or the number of updates",
        )
    if probe.merged_max > MERGE_TOLERANCE * probe.largest:
        raise OresmithError(
            "the merged model is not base + adapter",
            where=where,
            expected=f"logits that differ by at most {MERGE_TOLERANCE * probe.largest:.3g}",
            got=f"{probe.merged_max:.3g}",
        )
    if probe.rounded_rms > MOST_LOST * probe.changed_rms:
        raise OresmithError(
            f"stored in {dtype}, the merged model would lose what it was trained",
            where=where,
            expected=f"an error of logits of at most {MOST_LOST:.0%} of what training changed",
            got=f"{probe.rounded_rms:.3g} of {probe.changed_rms:.3g}",
            todo="set train.save_dtype: float32; the last checkpoint is kept",
        )


def _max(values: Any) -> float:
    return _short(values.abs().max())


def _rms(values: Any) -> float:
    return _short(values.square().mean().sqrt())


def _short(value: Any) -> float:
    return float(f"{float(value):.3g}")


def _other(one: Any, other: Any) -> int:
    return int((one.argmax(-1) != other.argmax(-1)).sum())


def _readable(target: Path) -> None:
    """Files of mode 0644, directories 0755, whatever the writer's library chose."""
    for path in target.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _facts(checked: CheckedModel, start: ModelFacts, step: str, seed: int) -> ModelFacts:
    facts = ModelFacts(
        model=step,
        origin=f"{start.origin}; then step {step}, seed {seed}",
        licence=start.licence,
        notes=start.notes,
        **measured(checked),
    )
    write_facts(checked.path, facts)
    return facts
