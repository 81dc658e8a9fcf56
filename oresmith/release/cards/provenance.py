"""provenance.json: an in-toto statement with SLSA's provenance predicate, without times.

Subjects are the published rows and the model's files; dependencies the snapshots and the models that it began from.
The code is bound by `release.json`, which names the hash of its git tree beside the hash of this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from oresmith.errors import OresmithError
from oresmith.params import Params
from oresmith.release.cards.sources import DATA, chain, model_folder, released
from oresmith.release.layout import DATASET, MODEL

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:oresmith:pipeline:1"
_SHOWN = ("source", "licence", "pool")


def statement(params: Params, root: Path = Path()) -> dict[str, Any]:
    """The statement of what the last run made and from what.

    Args:
        params: of the project.
        root: its directory.

    Raises:
        OresmithError: an account of a stage is missing or damaged.
    """
    certificate = read(root / DATA / "audit/certificate/certificate.json")
    steps = chain(params, root)
    return {
        "_type": STATEMENT,
        "subject": sorted([*_rows(certificate), *_model(params, root)], key=lambda one: one["name"]),
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "version": params.release.version,
                    "dataset": certificate.get("parameters", {}),
                    "training": {name: told.get("parameters") for name, told in steps},
                    "evaluation": {entry.name: _conditions(root, entry.name) for entry in params.models},
                },
                "internalParameters": {"versions": {name: told.get("versions") for name, told in steps}},
                "resolvedDependencies": [
                    *(_snapshot(root, entry.name) for entry in params.snapshots),
                    *_start(steps),
                ],
            },
            "runDetails": {"builder": {"id": "urn:oresmith:builder:1"}},
        },
    }


def read(path: Path) -> dict[str, Any]:
    """A JSON object. Errors: OresmithError where there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError) as error:
        raise OresmithError(
            "what the cards tell of is not there", where=str(path), got=str(error)[:200], todo="run `dvc repro`"
        ) from error


def _rows(certificate: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": f"{DATASET}/{file['path']}", "digest": {"sha256": file["sha256"]}} for file in certificate["files"]
    ]


def _model(params: Params, root: Path) -> list[dict[str, Any]]:
    """The files of the released model, as the manifest of its step lists them."""
    folder = model_folder(params, root)
    entry = released(params)
    if entry.stage is None:
        return []
    place = DATA / entry.stage
    inside = folder.relative_to(place).as_posix()
    manifest = read(root / place / "manifest.json")
    found = []
    for file in manifest["files"]:
        path = file["path"]
        name = path if inside == "." else path.removeprefix(f"{inside}/")
        if inside == "." or path.startswith((f"{inside}/", "adapter/")):
            found.append({"name": f"{MODEL}/{name}", "digest": {"sha256": file["sha256"]}})
    return found


def _conditions(root: Path, name: str) -> dict[str, Any]:
    told = read(root / DATA / "score" / name / "scores.json")
    return {"conditions": told.get("conditions"), "noted": told.get("noted")}


def _snapshot(root: Path, name: str) -> dict[str, Any]:
    told = read(root / DATA / "snapshots" / name / "snapshot.json")
    files = told["files"]
    declared = [file.get("provenance") or {} for file in files]
    span = told.get("time_range") or {}
    return {
        "name": name,
        "digest": {"sha256": told["tree_sha256"]},
        "annotations": {
            **{field: told.get(field) for field in _SHOWN},
            "from": span.get("from"),
            "to": span.get("to"),
            "versions": told.get("versions") or {},
            "files": len(files),
            "bytes": sum(file["bytes"] for file in files),
            "races": sorted({one["race_id"] for one in declared if one.get("race_id")}),
            "suites": sorted({one["suite"] for one in declared if one.get("suite")}),
        },
    }


def _start(steps: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The model that training began from."""
    if steps:
        start = steps[0][1].get("start") or {}
        facts = start.get("facts") or {}
        told = {"origin": facts.get("origin"), "licence": facts.get("licence")}
        return [{"name": "start model", "digest": {"sha256": start.get("weights_sha256")}, "annotations": told}]
    return []
