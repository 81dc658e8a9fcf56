"""The gates: what must hold before a release is cut. Each reads the bundle and the project, and says one line.

A gate is a function that gives the line, or raises with the first fault. One that fails and is named in
`release.waivers` counts as waived: it stops nothing, and the card names it with who and why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from oresmith.errors import OresmithError, shown
from oresmith.params import Params
from oresmith.release import gates_data, gates_git, gates_inputs, gates_model, gates_scores
from oresmith.release.given import Given
from oresmith.release.manifest import GateResult

Gate = Callable[[Given], str]
GATES: dict[str, Gate] = {
    "certificate": gates_data.certificate,
    "funnel": gates_data.funnel,
    "contracts": gates_data.contracts,
    "secrets": gates_data.secrets,
    "licences": gates_inputs.licences,
    "pinned_inputs": gates_inputs.pinned_inputs,
    "pool_date": gates_inputs.pool_date,
    "scores": gates_scores.scores,
    "parity": gates_scores.parity,
    "model_files": gates_model.model_files,
    "sizes": gates_data.sizes,
    "clean_tree": gates_git.clean_tree,
    "version": gates_git.version,
}
"""By the names of `param_release.Gate`, in the order in which they are told."""
AT_CUT = ("clean_tree", "version")
"""What only the moment of cutting can tell: a bundle names them and leaves them open."""
_LONGEST = 500


def run_gates(given: Given, only: Collection[str] = tuple(GATES)) -> tuple[GateResult, ...]:
    """Try the gates.

    Args:
        given: the bundle, and whether it is about to be cut.
        only: the gates to try; all by default.
    """
    waived = {waiver.gate: f"waived by {waiver.who}: {waiver.why}" for waiver in given.params.release.waivers}
    found = []
    for name in filter(only.__contains__, GATES):
        gate = GATES[name]
        if name in AT_CUT and not given.cutting:
            found.append(GateResult(name=name, state="not_applicable", detail="told when the release is cut"))
            continue
        try:
            result = GateResult(name=name, state="passed", detail=_line(gate(given)))
        except OresmithError as error:
            fault = _line(error.sentence())
            if name in waived:
                result = GateResult(name=name, state="waived", detail=_line(f"{waived[name]} ({fault})"))
            else:
                result = GateResult(name=name, state="failed", detail=fault)
        found.append(result)
    return tuple(found)


def refused(gates: Iterable[GateResult]) -> list[GateResult]:
    """The gates that stop a release."""
    return [gate for gate in gates if gate.state == "failed"]


def unused_waivers(params: Params, gates: Iterable[GateResult]) -> list[str]:
    """Waived gates that hold: their waivers can go."""
    held = {gate.name for gate in gates if gate.state == "passed"}
    return sorted({waiver.gate for waiver in params.release.waivers} & held)


def _line(text: str) -> str:
    return shown("; ".join(part.strip() for part in text.splitlines() if part.strip()))[:_LONGEST]


__all__ = ["AT_CUT", "GATES", "Given", "refused", "run_gates", "unused_waivers"]
