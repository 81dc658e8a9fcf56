"""The vault recognises its problems in any spelling and says nothing about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from oresmith.errors import OresmithError
from oresmith.leakage.keys import problem_keys
from oresmith.leakage.vault import VAULT_HEADER, Vault, encode_vault, read_secret
from oresmith.records import Problem
from tests.leakage.examples import problem, spec_reward

SECRET = b"sixteen bytes or more"
HIDDEN = problem("Show me red lamps", reward=spec_reward("lamp"))


def _vault(tmp_path: Path, text: str | None = None, secret: bytes = SECRET) -> Vault:
    (tmp_path / "vault.txt").write_text(text or encode_vault([(problem_keys(HIDDEN), True)], SECRET))
    (tmp_path / "secret").write_bytes(secret + b"\n")
    return Vault.load(tmp_path / "vault.txt", tmp_path / "secret")


@pytest.mark.parametrize(
    ("other", "held"),
    [
        (problem("SHOW ME\nred lamps", "x"), True),
        (problem("a chair", "lamp"), True),
        (problem("a chair", reward=spec_reward("x")), True),
        (problem("a chair", "x"), False),
    ],
)
def test_a_problem_of_the_vault_is_recognised_by_any_key(tmp_path: Path, other: Problem, held: bool) -> None:
    assert _vault(tmp_path).holds(problem_keys(other), specification=True) is held


def test_a_specification_that_states_too_little_is_no_key(tmp_path: Path) -> None:
    other = problem("a chair", reward=spec_reward("x"))
    assert not _vault(tmp_path).holds(problem_keys(other), specification=False)


def test_a_problem_without_any_key_is_recognised_by_its_name() -> None:
    bare, other = (problem_keys(Problem(query="?!", problem_id=key)) for key in "ab")
    vault = Vault(encode_vault([(bare, False)], SECRET).splitlines()[1:], SECRET)
    assert [vault.holds(keys, specification=False) for keys in (bare, other)] == [True, False]


def test_without_the_secret_nothing_matches(tmp_path: Path) -> None:
    assert not _vault(tmp_path, secret=b"another secret of length").holds(problem_keys(HIDDEN), specification=True)


def test_the_file_holds_no_key_of_a_problem() -> None:
    keys = problem_keys(HIDDEN)
    text = encode_vault([(keys, True)], SECRET)
    assert not any(key in text for key in (keys.problem, keys.query, keys.base, keys.tokens, keys.spec, *keys.gold))


@pytest.mark.parametrize(
    "text", ["", "oresmith.vault/0 x\n", f"{VAULT_HEADER}\nnot a hash\n", f"{VAULT_HEADER}\n\xff\n"]
)
def test_a_faulty_vault_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(OresmithError):
        _vault(tmp_path, text or "\n")


def test_a_missing_or_short_secret_is_refused_without_being_shown(tmp_path: Path) -> None:
    with pytest.raises(OresmithError, match="cannot be read"):
        read_secret(tmp_path / "none")
    (tmp_path / "short").write_bytes(b"hunter2")
    with pytest.raises(OresmithError, match="too short") as refusal:
        read_secret(tmp_path / "short")
    assert "hunter2" not in str(refusal.value)
