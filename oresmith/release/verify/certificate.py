"""Rows, keys, ledger and claims are as certified: what `verify_certificate.py` finds, and every row read against it."""

from __future__ import annotations

from oresmith.audit.certificate import CERTIFICATE_FILE
from oresmith.audit.verify import verify_folder
from oresmith.release.verify.found import Finding, Findings
from oresmith.release.verify.opened import Opened


def check(opened: Opened) -> Findings:
    """See the module. The two that share it print the same lines."""
    dataset = opened.dataset
    if not (dataset / CERTIFICATE_FILE).is_file():
        yield Finding("is missing: nothing shows what the release keeps apart", CERTIFICATE_FILE)
        return ""
    told: list[str] = []
    held = verify_folder(dataset, None, told.append)
    for line in told:
        if line.startswith("FAIL "):
            name, _, what = line.removeprefix("FAIL ").partition(": ")
            yield Finding(what, item=name)
    if not held and not any(line.startswith("FAIL ") for line in told):
        yield Finding("does not hold", CERTIFICATE_FILE)
    return "; ".join(line.partition(": ")[2] for line in told if line.startswith(("OK   load", "OK   rows")))
