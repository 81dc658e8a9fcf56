"""`release.json` is signed by whom the caller names (`model-signing`; without a name nothing can be proved)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from oresmith.release.layout import RELEASE_FILE, SIGNATURE_FILE
from oresmith.release.verify.found import Finding, Findings, NotComputedError
from oresmith.release.verify.opened import UNSIGNED, Keys, Opened


def check(opened: Opened) -> Findings:
    """See the module."""
    folders = dict.fromkeys([opened.root, *opened.folders.values()])
    signed = [folder for folder in folders if (folder / SIGNATURE_FILE).is_file()]
    keys = opened.keys
    if keys == UNSIGNED:
        said = "is signed; name a key (--public-key), or --identity and --issuer" if signed else "no signature"
        raise NotComputedError(said)
    if not signed:
        yield Finding("there is none, and one was asked for", SIGNATURE_FILE)
        return ""
    if importlib.util.find_spec("model_signing") is None:
        raise NotComputedError("needs `model-signing` (extra `data`)")
    faults = [fault for folder in signed if (fault := _fault(folder, keys))]
    yield from (Finding(fault, SIGNATURE_FILE) for fault in faults)
    return "" if faults else f"signed by {keys.public_key or keys.identity}"


def _fault(folder: Path, keys: Keys) -> str:
    from model_signing import verifying

    config: Any = verifying.Config()  # type: ignore[no-untyped-call]
    try:
        if keys.public_key is not None:
            config.use_elliptic_key_verifier(public_key=keys.public_key)
        else:
            config.use_sigstore_verifier(identity=keys.identity or "", oidc_issuer=keys.issuer or "")
        config.verify(folder / RELEASE_FILE, folder / SIGNATURE_FILE)
    except Exception as error:  # whatever the libraries below raise, the signature does not hold
        return f"does not hold: {error}"[:500]
    return ""
