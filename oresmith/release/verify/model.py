"""The model is safetensors, JSON and text: nothing in it can run, and its parts belong together."""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oresmith.models.directory import CHAT_TEMPLATE, CODE, CONFIG, INDEX, MAX_JSON, PICKLES
from oresmith.models.facts import FACTS_FILE, ModelFacts, read_facts
from oresmith.release.layout import MODEL
from oresmith.release.verify.found import Finding, Findings
from oresmith.release.verify.hashes import skipped, stated_files
from oresmith.release.verify.opened import Opened
from oresmith.release.verify.safetensors import WrongFileError, read_header
from oresmith.release.verify.weights import were_scored

ADAPTER = "adapter"
LOADERS = ("auto_map", "custom_pipelines", "trust_remote_code", "auto_mapping")
"""Keys by which a JSON file makes a library import code that the file names."""
MAGIC = {b"\x80\x02": "a pickle", b"\x80\x03": "a pickle", b"\x80\x04": "a pickle", b"\x80\x05": "a pickle"} | {
    b"PK\x03\x04": "an archive, as torch.save makes it",
    b"\x7fELF": "a program",
    b"#!": "a script",
}
"""First bytes of what can run, under any name."""
TEMPLATED = ("tokenizer_config.json", "processor_config.json", "chat_template.json")
"""Where a library looks for a template, beside the file of its own."""
ADAPTER_CONFIG, RESULTS = "adapter_config.json", ".eval_results"
_ABSOLUTE = re.compile(r"[/\\~]|[A-Za-z]:[/\\]|file:")


def check(opened: Opened) -> Findings:
    """See the module."""
    folder = opened.model
    prefix = f"{MODEL}/" if opened.kind == "bundle" else ""
    names = [name for name in stated_files(folder) if not skipped(opened, folder, name)]
    for name in names:
        yield from (Finding(fault, prefix + name) for fault in (*_unsafe(folder / name), *_misplaced(name)))
    weights, parameters = _weights(folder), 0
    if not weights:
        yield Finding(f"there are no weights: neither model.safetensors nor what {INDEX} names", prefix)
    for name in dict.fromkeys([*weights, *(name for name in names if name.endswith(".safetensors"))]):
        try:
            header = read_header(folder / name)
        except (WrongFileError, OSError) as error:
            yield Finding(str(error)[:300], prefix + name)
            continue
        parameters += header.parameters if name in weights else 0
    for name in (CONFIG, "tokenizer_config.json", CHAT_TEMPLATE):
        if name not in names:
            yield Finding("is missing: the model does not load as it was evaluated", prefix + name)
    facts = read_facts(folder)
    if facts is None:
        yield Finding("is missing: the model does not say what it is", prefix + FACTS_FILE)
    else:
        yield from _belongs(folder, facts, parameters, prefix)
        yield from were_scored(folder, facts, prefix)
    return f"{len(names)} files, {parameters:,} numbers in {len(weights)} file(s) of weights"


def _unsafe(path: Path) -> Iterator[str]:
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        yield "is no plain file"
        return
    if mode & (stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH | stat.S_ISUID | stat.S_ISGID):
        yield "may be executed"
    ending = path.suffix.lower()
    if ending in PICKLES:
        yield "is a pickle, or read as one: weights must be safetensors"
    if ending in CODE:
        yield "is code: a released model brings none"
    with path.open("rb") as reader:
        start = reader.read(4)
    yield from (f"begins as {kind} does" for magic, kind in MAGIC.items() if start.startswith(magic))
    if ending == ".json" and path.name != "tokenizer.json":
        yield from _loaders(path)


def _misplaced(name: str) -> Iterator[str]:
    """Templates beside the one, and results that no card's check reads."""
    if name.lower().endswith(".jinja") and name != CHAT_TEMPLATE:
        yield f"is a template beside {CHAT_TEMPLATE}"
    first, _, rest = name.partition("/")
    if first.lower() == RESULTS and not (first == RESULTS and rest.endswith(".yaml") and "/" not in rest):
        yield f"is no file of results that the check of the cards reads: {RESULTS}/NAME.yaml"


def _loaders(path: Path) -> Iterator[str]:
    if path.stat().st_size > MAX_JSON:
        yield "is too large for a model's JSON"
        return
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        yield "is no JSON"
        return
    if path.name in TEMPLATED and isinstance(found, dict) and "chat_template" in found:
        yield f"has a chat template beside {CHAT_TEMPLATE}"
    waiting: list[Any] = [found]
    while waiting:
        value = waiting.pop()
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        if isinstance(value, dict):
            yield from (f"has `{key}`, which runs code that it names" for key in LOADERS if value.get(key))
        if path.name == ADAPTER_CONFIG and isinstance(value, str) and _ABSOLUTE.match(value):
            yield f"names a path of one machine: {value[:80]}"


def _weights(folder: Path) -> list[str]:
    """Names of the files of weights; the index names files of this folder alone."""
    if not (folder / INDEX).is_file():
        return ["model.safetensors"] if (folder / "model.safetensors").is_file() else []
    try:
        named = json.loads((folder / INDEX).read_bytes())["weight_map"].values()
        names = sorted({str(name) for name in named})
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return []
    there = [name for name in names if Path(name).name == name and name.endswith(".safetensors")]
    return there if there == names and all((folder / name).is_file() for name in names) else []


def _belongs(folder: Path, facts: ModelFacts, parameters: int, prefix: str) -> Iterator[Finding]:
    """Template, tokenizer and weights are those that the model was made and evaluated with."""
    for name, wanted in ((CHAT_TEMPLATE, facts.template_sha256), ("tokenizer.json", facts.tokenizer_sha256)):
        path = folder / name
        found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "none"
        if found != wanted:
            yield Finding(f"is another than {FACTS_FILE} says: sha256 {found[:16]}, there {wanted[:16]}", prefix + name)
    if facts.parameters != parameters:
        yield Finding(f"states {facts.parameters:,} numbers, the weights hold {parameters:,}", prefix + FACTS_FILE)
