"""`oresmith doctor`: what a run needs, what this machine has, and what will not fit, before anything starts."""

from __future__ import annotations

from pathlib import Path

import msgspec

from oresmith.doctor import checks, rates
from oresmith.doctor.checks import Finding
from oresmith.doctor.estimates import Estimator, Need, Setting
from oresmith.doctor.facts import DataFacts, data_facts
from oresmith.doctor.machine import Machine, read_machine
from oresmith.doctor.sizes import ModelSize, base_size
from oresmith.errors import OresmithError
from oresmith.params import Params
from oresmith.profiles import RUNS, load_profile
from oresmith.stage import DATA

__all__ = ["Diagnosis", "Finding", "Need", "diagnose"]


class Diagnosis(msgspec.Struct, frozen=True):
    """All that was found."""

    profile: str
    plan: bool
    machine: Machine
    reckoned_on: str
    """The hardware that times are of."""
    facts: DataFacts
    findings: list[Finding]
    needs: list[Need]

    @property
    def failed(self) -> bool:
        """Whether something keeps the run from ending."""
        return any(one.status == "fail" for one in self.findings)


def diagnose(
    name: str | None,
    *,
    plan: bool = False,
    root: Path = Path(),
    machine: Machine | None = None,
) -> Diagnosis:
    """Hold a run's needs against a machine.

    Args:
        name: of the profile; None for params.yaml alone.
        plan: the machine is another one: its hardware, and what is installed and fetched there, is not asked.
        root: of the project.
        machine: its facts; None reads this one's.

    Raises:
        OresmithError: the parameters themselves are refused.
    """
    params = load_profile(name, root)
    found = machine or read_machine(root)
    data = root / (DATA if name is None else RUNS / name / DATA)
    facts = data_facts(params, data, root)
    findings = [
        *checks.check_python(found),
        *checks.check_installed(params, plan=plan, root=root),
        *checks.check_threads(params, found, plan=plan),
        *checks.check_gpus(params, found, plan=plan),
        *checks.check_pins(params, root, plan=plan),
        *checks.check_access(params, plan=plan),
    ]
    launch, processes = checks.check_launch(params, found, root, plan=plan)
    findings += launch
    setting = setting_of(params, found, processes, plan=plan)
    size = _size(params, data, findings)
    needs = Estimator(params, size, facts, setting).all() if size else []
    findings += checks.check_fit(needs, found, setting, plan=plan)
    return Diagnosis(name or "params.yaml", plan, found, told(setting), facts, findings, needs)


def setting_of(params: Params, machine: Machine, processes: int, *, plan: bool) -> Setting:
    """What times are reckoned on: the machine's first GPU, or in a plan without one the device of `rates.PLANNED`."""
    wanted = params.train.device == "cuda" or params.rollout.engine == "vllm"
    threads = (params.train.threads, params.rollout.threads, params.lmeval.threads)
    cores = max(machine.cores, *threads) if plan else machine.cores
    if not wanted or not (machine.gpus or plan):
        return Setting(cores, None)
    if not machine.gpus:
        return Setting(cores, rates.PLANNED, processes)
    gpu = machine.gpus[0]
    known = rates.device_of(gpu.name)
    device = rates.Device(gpu.name, (known or rates.DEVICES[-1]).tflops, gpu.memory_gib)
    return Setting(cores, device, processes)


def told(setting: Setting) -> str:
    """The hardware in words."""
    if setting.device is None:
        return f"{setting.cores} cores"
    return f"{setting.processes} x {setting.device.name} ({setting.device.memory_gib:g} GiB), {setting.cores} cores"


def _size(params: Params, data: Path, findings: list[Finding]) -> ModelSize | None:
    try:
        size = base_size(params.base, data)
    except OresmithError as error:
        findings.append(Finding("model", "fail", str(error)))
        return None
    if size is None:
        findings.append(
            Finding("model", "warn", "nothing is estimated: the model's config is not at hand", "fetch the model first")
        )
        return None
    long = max(params.base.min_context, params.train.max_tokens if params.train.device == "cuda" else 0)
    if size.context and size.context < long:
        findings.append(
            Finding("model", "fail", f"{size.source} reads {size.context:,} tokens of {long:,} that are asked")
        )
    return size
