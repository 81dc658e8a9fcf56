"""Stage `audit`: the certificate of the corpus, which anybody can check again, and every match with what is guarded.

Reads data/corpus/, data/cluster/, data/split/, data/evidence/*/table/, releases/ledger.jsonl (lines of earlier releases
only) and, where named, the vault. Every claim is checked here first; one that does not hold stops the pipeline.
Writes data/audit/ (certificate/, contamination.tsv, verify_certificate.py) and metrics/audit.json.
Exit codes: 0, 2 for a refusal (rows that do not add up, a leak, a ledger that contradicts the assignments).
Example: python -m stages.audit
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from oresmith.audit.certificate import CERTIFICATE_FILE, CERTIFICATE_SCHEMA, sha256_of
from oresmith.audit.make import Settings, audit
from oresmith.blocks.atomic import stage_output
from oresmith.blocks.lifeline import end_with_parent
from oresmith.errors import OresmithError
from oresmith.leakage import ClusterParams, Vault
from oresmith.params import Params, load_params
from oresmith.stage import DATA, builtins, guarded, write_metrics

LEDGER = Path("releases/ledger.jsonl")


class Figures(msgspec.Struct):
    """What is read of clusters.json."""

    params: ClusterParams


def run(params: Params) -> dict[str, Any]:
    """Audit the corpus and publish the certificate whole."""
    with stage_output(
        DATA / "audit",
        "audit",
        schema=CERTIFICATE_SCHEMA,
        params={"release": params.release.version},
        observed=DATA / "observed" / "audit.json",
    ) as staged:
        certificate = audit(DATA, staged.path, settings(params))
        digest = sha256_of(staged.path / CERTIFICATE_FILE)
    found = summary(certificate) | {"certificate_sha256": digest}
    write_metrics("audit", found)
    return found


def settings(params: Params) -> Settings:
    """What the library needs to know."""
    split = params.split
    named = split.vault is not None and split.vault_secret is not None
    return Settings(
        release=params.release.version,
        snapshots=tuple(entry.name for entry in params.snapshots),
        ledger=LEDGER,
        clusters=cluster_params(),
        allowed=split.allow_benchmark,
        reject_answers=params.corpus.heldout_gold_recommended == "reject",
        vault=Vault.load(str(split.vault), str(split.vault_secret)) if named else None,
        parameters=stated(params),
    )


def cluster_params() -> ClusterParams:
    """The parameters that the clusters were made with, as they state them."""
    path = DATA / "cluster" / "clusters.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Figures).params
    except (OSError, msgspec.DecodeError) as error:
        raise OresmithError(
            "the clusters cannot be read", where=str(path), got=str(error)[:300], todo="run `dvc repro`"
        ) from error


def stated(params: Params) -> dict[str, dict[str, Any]]:
    """The parameters that the corpus depends on, without the places of files: what counts of those is their hash."""
    names = ("normalize", "evidence", "gate", "cluster", "split", "corpus")
    values = {name: builtins(getattr(params, name)) for name in names}
    values["release"] = {"version": params.release.version}
    values["split"] = {name: value for name, value in values["split"].items() if not name.startswith("vault")}
    for benchmark in values["cluster"]["benchmarks"]:
        del benchmark["path"]
    return values


def summary(certificate: dict[str, Any]) -> dict[str, Any]:
    """What DVC shows as metrics."""
    matches: Counter[str] = Counter()
    for guarded_set, kinds in certificate["contamination"].items():
        for actions in kinds.values():
            matches.update({f"{guarded_set} {action}": number for action, number in actions.items()})
    return {
        "release": certificate["release"],
        "counts": certificate["counts"],
        "claims": len(certificate["claims"]),
        "matches": dict(sorted(matches.items())),
        "benchmarks": certificate["benchmarks"],
        "misfiled": certificate["misfiled"],
    }


def main() -> None:
    """Check all parameters, then audit."""
    end_with_parent()
    found = run(load_params())
    print(f"audit: release {found['release']}, {found['claims']} claims hold, sha256 {found['certificate_sha256']}")


if __name__ == "__main__":
    guarded(main)
