"""A token is in no message: what no header can carry is refused where it is read, and refusals leave it out."""

from __future__ import annotations

from pathlib import Path

import pytest

from oresmith.errors import OresmithError
from oresmith.release.publish.session import patient_requests, refusal
from oresmith.release.publish.target import PublishError, Target, read_token, target_from_environment
from oresmith.release.verify.fetch import Repository, fetch

NO_TOKENS = ["b4d\nt0ken", "hf_s3crét", "hf s3cr", "b4d\tt0ken", "b4d\x7fx", "b4d\udce9"]


@pytest.mark.parametrize("token", NO_TOKENS)
def test_what_no_header_can_carry_is_refused_unseen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, token: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    asked = (
        lambda: target_from_environment("http://127.0.0.1:1"),
        lambda: fetch(Repository(None, "a/b", "1"), tmp_path / "x", endpoint="http://127.0.0.1:1", tell=str),
    )
    for ask in asked:
        with pytest.raises(PublishError, match="this is no token") as refused:
            ask()
        said = str(refused.value)
        assert not [part for part in ("b4d", "t0ken", "s3cr") if part in said], said


def test_a_blank_at_its_ends_is_no_part_of_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", " hf_good\n")
    assert read_token() == "hf_good"


@pytest.mark.parametrize("token", ["hf_secret", "hf_s\\ecret", "hf_s'ecret"])
def test_a_refusal_never_shows_the_token(token: str) -> None:
    faults = [
        ValueError(f"Illegal header value {f'Bearer {token}'.encode()!r}"),
        ValueError("x" * 280 + token),
        OresmithError("refused", got=f"Bearer {token}"),
    ]
    with patient_requests(Target("http://127.0.0.1:1", token)):
        for fault in faults:
            said = str(refusal(fault, "ask"))
            assert "ecret" not in said and "hf_s" not in said
