"""Rows, keys, ledger and claims are as certified: what `verify_certificate.py` finds, and every row read against it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from oresmith.audit import verify_certificate
from oresmith.audit.certificate import CERTIFICATE_FILE
from oresmith.audit.make import VERIFIER_FILE
from oresmith.audit.verify import verify_folder
from oresmith.release.verify.found import Finding, Findings
from oresmith.release.verify.opened import Opened


def check(opened: Opened) -> Findings:
    """See the module. The two that share it print the same lines."""
    dataset = opened.dataset
    if not (dataset / CERTIFICATE_FILE).is_file():
        yield Finding("is missing: nothing shows what the release keeps apart", CERTIFICATE_FILE)
        return ""
    yield from _verifier(dataset / VERIFIER_FILE)
    told: list[str] = []
    held = verify_folder(dataset, None, told.append)
    for line in told:
        if line.startswith("FAIL "):
            name, _, what = line.removeprefix("FAIL ").partition(": ")
            yield Finding(what, item=name)
    if not held and not any(line.startswith("FAIL ") for line in told):
        yield Finding("does not hold", CERTIFICATE_FILE)
    return "; ".join(line.partition(": ")[2] for line in told if line.startswith(("OK   load", "OK   rows")))


def _verifier(shipped: Path) -> Iterator[Finding]:
    """A stranger runs the script of the release: it must be the one that this program knows."""
    if not shipped.is_file():
        yield Finding("is missing: nobody can check the certificate without this program", VERIFIER_FILE)
        return
    ours, theirs = (
        hashlib.sha256(path.read_bytes()).hexdigest() for path in (Path(verify_certificate.__file__), shipped)
    )
    if ours != theirs:
        what = f"is another program than this oresmith ships: sha256 {theirs}, there {ours}; read it before you run it"
        yield Finding(what, VERIFIER_FILE)
