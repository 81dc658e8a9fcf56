"""A signature over `release.json`: by the key that was named, over these bytes, or it does not hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from oresmith.release.verify import signature
from oresmith.release.verify.found import NotComputedError
from oresmith.release.verify.opened import UNSIGNED, Keys, Opened

signing = pytest.importorskip("model_signing.signing", reason="model-signing (extra `data`) is not installed")


def keys(folder: Path, name: str) -> Path:
    """A new key pair; the public key's file."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    pair = ec.generate_private_key(ec.SECP256R1())
    private = pair.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    public = pair.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.key").write_bytes(private)
    (folder / f"{name}.pub").write_bytes(public)
    return folder / f"{name}.pub"


def faults(folder: Path, named: Keys) -> list[str]:
    opened = Opened("x", "dataset", folder, {"dataset": folder}, keys=named)
    return [finding.what for finding in signature.check(opened)]


def test_a_signature_holds_for_its_key_and_its_bytes_alone(tmp_path: Path):
    folder = tmp_path / "dataset"
    folder.mkdir()
    (folder / "release.json").write_text('{"version": "1.0.0"}')
    ours, other = keys(tmp_path, "ours"), keys(tmp_path, "other")
    assert faults(folder, Keys(ours)) == ["there is none, and one was asked for"]
    signer = signing.Config().use_elliptic_key_signer(private_key=tmp_path / "ours.key")
    signer.sign(folder / "release.json", folder / "release.json.sig")
    assert faults(folder, Keys(ours)) == []
    assert any("does not hold" in fault for fault in faults(folder, Keys(other)))
    with pytest.raises(NotComputedError, match="name a key"):
        faults(folder, UNSIGNED)
    (folder / "release.json").write_text('{"version": "1.0.1"}')
    assert any("does not hold" in fault for fault in faults(folder, Keys(ours)))
    (folder / "release.json.sig").write_text("{")
    assert any("does not hold" in fault for fault in faults(folder, Keys(ours)))
