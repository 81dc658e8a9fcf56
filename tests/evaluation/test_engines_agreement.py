"""The comparison of two engines: it ends a sample at its first difference, names its kind, and misses none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import zstandard
from msgspec.structs import replace

from oresmith.errors import OresmithError
from oresmith.evaluation.engines.agreement import Agreement, agreement, replies_of
from oresmith.evaluation.records import ChatReply
from oresmith.evaluation.writing import REQUESTS
from tests.evaluation.scripted import Scripted, looping, run


def replies(*turns: tuple[str, str]) -> dict[str, ChatReply]:
    return {key: ChatReply(key=key, text=text, finish="stop", prompt_sha256="0" * 64) for key, text in turns}


BOTH = replies(("a/0/0", "one"), ("a/0/1", "two"), ("b/0/0", "x"), ("b/1/0", "y"))


def test_equal_sets_agree_whole() -> None:
    expected = Agreement(samples=3, alike=3, turns=4, prompts=4, differences={}, first=[], missing=0)
    assert agreement(BOTH, dict(reversed(BOTH.items()))) == expected


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"text": "other"}, "text"),
        ({"tool_calls": [{"a": 1}]}, "text"),
        ({"finish": "length"}, "finish"),
        ({"prompt_sha256": "1" * 64, "text": "other"}, "prompt"),
    ],
)
def test_the_first_difference_counts_and_ends_the_sample(changed: dict[str, Any], kind: str) -> None:
    other = dict(BOTH)
    other["a/0/0"] = replace(BOTH["a/0/0"], **changed)
    other["a/0/1"] = replace(BOTH["a/0/1"], text="of another past")
    found = agreement(BOTH, other)
    assert (found.samples, found.alike, found.turns, found.first) == (3, 2, 3, ["a/0/0"])
    assert found.differences == {kind: 1}


def test_turns_and_samples_that_one_side_lacks_are_counted() -> None:
    other = {key: reply for key, reply in BOTH.items() if key not in ("a/0/1", "b/1/0")}
    for found in (agreement(BOTH, other), agreement(other, BOTH)):
        assert (found.samples, found.alike, found.missing) == (2, 1, 1)
        assert (found.differences, found.first) == ({"turns": 1}, ["a/0/1"])


def test_prompts_that_one_side_does_not_tell_are_not_compared() -> None:
    other = {key: replace(reply, prompt_sha256=None) for key, reply in BOTH.items()}
    assert (agreement(BOTH, other).alike, agreement(BOTH, other).prompts) == (3, 0)


def test_the_replies_of_rollouts_are_read_by_their_keys(tmp_path: Path) -> None:
    run(Scripted(looping), tmp_path / "one", max_turns=2)
    run(Scripted(looping), tmp_path / "other", max_turns=3)
    found = agreement(replies_of(tmp_path / "one"), replies_of(tmp_path / "other"))
    assert found.samples == len(found.first) == found.differences["turns"] > 0
    assert found.turns == 3 * found.samples


def test_what_is_no_set_of_rollouts_or_only_a_part_is_refused(tmp_path: Path) -> None:
    run(Scripted(looping), tmp_path / "one", max_turns=2)
    whole = (tmp_path / "one" / REQUESTS).read_bytes()
    for content in (None, b"rubbish", whole[:9], whole[:-5], zstandard.compress(b'{"key": 7}\n')):
        if content is not None:
            (tmp_path / REQUESTS).write_bytes(content)
        with pytest.raises(OresmithError, match="request"):
            replies_of(tmp_path)
