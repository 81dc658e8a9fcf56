"""`oresmith release plan`: what would be released, what changed, the least version allowed, and every gate.

Reads the bundle and the project; writes nothing.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from oresmith.errors import OresmithError
from oresmith.params import PARAMS_FILE, Params, load_params
from oresmith.release.bundle import check_bundle
from oresmith.release.codetree import code_tree
from oresmith.release.contents import public_params
from oresmith.release.diff import Diff, bundle_side, compare, frozen_side
from oresmith.release.gates import Given, refused, run_gates, unused_waivers
from oresmith.release.history import State, find_release, versions_of
from oresmith.release.layout import BUNDLE, DATASET, MODEL, RELEASE_FILE
from oresmith.release.manifest import GateResult, Release, read_release
from oresmith.release.versions import previous_of


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What would be released."""

    version: str
    release: Release
    """Of the bundle."""
    previous: str | None
    least: str | None
    """Least version that Croissant's rule allows; None before the first release, where any may be chosen."""
    state: State | None
    """Of this very version, where it was cut already."""
    gates: tuple[GateResult, ...]
    diff: Diff | None
    """Against `previous`."""
    unused_waivers: list[str]

    @property
    def allowed(self) -> bool:
        """Whether nothing stops it."""
        return not refused(self.gates)


def plan(root: Path = Path()) -> Plan:
    """Look at the bundle of a project as `release cut` would.

    Args:
        root: of the project.

    Raises:
        OresmithError: there is no bundle, or it is of other parameters, other code or other files than it says.
    """
    params = load_params(root / PARAMS_FILE)
    bundle = root / BUNDLE
    release = read_release(bundle / RELEASE_FILE)
    check_current(bundle, release, params)
    check_bundle(bundle, release)
    version = params.release.version
    previous = previous_of(root, params)
    found = compare(frozen_side(previous, root), bundle_side(bundle)) if previous else None
    cut = version in versions_of(root)
    given = Given(params=params, root=root, dataset=bundle / DATASET, model=bundle / MODEL, cutting=True)
    gates = run_gates(given)
    return Plan(
        version=version,
        release=release,
        previous=previous,
        least=found.least if found else None,
        state=find_release(version, root).state if cut else None,
        gates=gates,
        diff=found,
        unused_waivers=unused_waivers(params, gates),
    )


def check_current(bundle: Path, release: Release, params: Params) -> None:
    """Refuse a bundle that these parameters and this code would not make.

    Raises:
        OresmithError: naming what differs.
    """
    from oresmith.yamlfile import read_yaml

    todo = "run `dvc repro`, which makes the bundle again"
    where = str(bundle)
    if release.version != params.release.version:
        raise OresmithError(
            "the bundle is of another version",
            where=where,
            expected=params.release.version,
            got=release.version,
            todo=todo,
        )
    stated = read_yaml(bundle / DATASET / "params.yaml")
    wanted = public_params(params)
    if stated != wanted:
        differing = (
            sorted(name for name in {*stated, *wanted} if stated.get(name) != wanted.get(name))
            if isinstance(stated, dict)
            else ["all"]
        )
        raise OresmithError(
            "the bundle was made with other parameters", where=where, got=", ".join(differing), todo=todo
        )
    tree = code_tree()
    if release.code_tree != tree:
        raise OresmithError(
            "the bundle was made by other code", where=where, expected=tree, got=release.code_tree, todo=todo
        )
