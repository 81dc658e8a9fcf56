"""Order, padding, shared beginnings, and the check of what is trained on."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.errors import OresmithError
from oresmith.training.collate import (
    IGNORED,
    LEAST_SHARED,
    Collator,
    check_batches,
    groups_of,
    order_sha256,
    row_order,
    separate,
)
from oresmith.training.rowset import TrainingRow
from tests.training.tinyrows import CHATS, rows_of

HERMES = CHATS["hermes"]
END = HERMES.tokenizer.end


def row(ids, mask, name="r"):
    return TrainingRow(
        row_id=name, turn=2, origin="corpus", problem="p", cluster="c", category="product", ids=ids, mask=mask
    )


def changed(one, **mask):
    return msgspec.structs.replace(one, **mask)


def batch_of(rows, packing):
    return Collator(rows, packing, END)([{"row": place} for place in range(len(rows))])


def trained(one):
    return one.ids, [token if covered else IGNORED for token, covered in zip(one.ids, one.mask, strict=True)]


@st.composite
def batches(draw):
    """Rows with beginnings in common, of any length, the first token never supervised."""
    beginnings = draw(st.lists(st.integers(LEAST_SHARED, 2 * LEAST_SHARED), min_size=1, max_size=2))
    rows = []
    for place in range(draw(st.integers(1, 5))):
        which = draw(st.integers(0, len(beginnings) - 1))
        rest = draw(st.lists(st.integers(0, 3), min_size=1, max_size=12))
        ids = [which + 4] * beginnings[which] + rest
        first = draw(st.integers(1, len(ids) - 1))
        mask = [0] * first + [1] + draw(st.lists(st.integers(0, 1), min_size=len(ids), max_size=len(ids)))
        rows.append(row(ids, mask[: len(ids)], f"r{place}"))
    return rows


@given(batches())
@settings(max_examples=60)
def test_each_row_is_trained_once_and_unchanged_however_it_is_packed(rows):
    expected = Counter(str(trained(one)) for one in rows)
    for packing in ("none", "prefix"):
        assert Counter(str(one) for one in separate(batch_of(rows, packing))) == expected


@given(batches())
@settings(max_examples=60)
def test_a_shared_beginning_is_the_same_in_all_rows_and_no_row_learns_from_it(rows):
    groups = groups_of(rows)
    assert sorted(place for group in groups for place in group.rows) == list(range(len(rows)))
    for prefix, members in groups:
        assert len({str(rows[one].ids[:prefix]) for one in members}) == 1
        for one in members:
            # The place from which the first supervised token is predicted is the row's own.
            assert prefix == 0 or prefix < rows[one].mask.index(1)


def test_rows_of_one_system_prompt_have_it_once_and_places_go_on_behind_it():
    rows = rows_of(HERMES, 3)
    batch = batch_of(rows, "prefix")
    [((begun, end), rests)] = batch["shares"]
    assert begun == 0
    assert end > LEAST_SHARED
    assert batch["input_ids"].numel() == sum(len(one.ids) for one in rows) - 2 * end
    for (first, last), one in zip(rests, rows, strict=True):
        assert batch["position_ids"][0, first:last].tolist() == list(range(end, len(one.ids)))


def test_a_beginning_is_shared_only_where_that_costs_less():
    long = [row([1] * 100 + [place] * 1900, [0] * 1000 + [1] * 1000) for place in (2, 3, 4, 5)]
    short = [row([1] * 1000 + [place] * 200, [0] * 1100 + [1] * 100) for place in (2, 3, 4, 5)]
    assert [group.rows for group in groups_of(long, reach=1000)] == [[0], [1], [2], [3]]
    assert groups_of(long, reach=1e6) == [(100, [0, 1, 2, 3])]
    assert groups_of(short, reach=1000) == [(1000, [0, 1, 2, 3])]


def test_rows_of_two_system_prompts_share_each_its_own():
    rows = [*rows_of(HERMES, 2, "one"), *rows_of(HERMES, 2, "another")]
    rows = [rows[place] for place in (0, 2, 1, 3)]
    assert [group.rows for group in groups_of(rows)] == [[0, 2], [1, 3]]
    assert all(group.prefix > LEAST_SHARED for group in groups_of(rows))


def test_padding_comes_from_lengths_although_the_end_token_pads():
    rows = rows_of(HERMES, 4)
    batch = batch_of(rows, "none")
    for place, one in enumerate(rows):
        assert batch["attention_mask"][place].tolist() == [1] * len(one.ids) + [0] * (
            batch["input_ids"].shape[1] - len(one.ids)
        )
        ends = sum(token == END and covered for token, covered in zip(one.ids, one.mask, strict=True))
        assert ends == 2
        assert int((batch["labels"][place] == END).sum()) == ends


def test_the_order_is_one_shuffle_after_the_other_and_the_seed_s_alone():
    order = row_order(7, 20, seed=3)
    assert order == row_order(7, 20, seed=3)
    assert order != row_order(7, 20, seed=4)
    assert sorted(order[:7]) == sorted(order[7:14]) == list(range(7))
    assert order[:7] != order[7:14]
    assert row_order(7, 30, seed=3)[:20] == order
    rows = rows_of(HERMES, 7)
    assert order_sha256(rows, order) != order_sha256(rows, order[::-1])


@pytest.mark.parametrize("family", CHATS)
@pytest.mark.parametrize("packing", ["none", "prefix"])
def test_whole_conversations_and_rows_of_one_turn_pass_the_check_and_are_counted(family, packing):
    chat = CHATS[family]
    rows = rows_of(chat, 3)
    order = row_order(len(rows), 2 * len(rows), 1)
    counts = check_batches(Collator(rows, packing, END), rows, order, 3, chat)
    assert counts["tokens"] == 2 * sum(len(one.ids) for one in rows)
    assert counts["supervised"] == 2 * sum(sum(one.mask) for one in rows)
    assert (counts["computed"] < counts["tokens"]) == (packing == "prefix")


def broken_rows():
    [one] = rows_of(HERMES, 1)
    spans = [place for place, covered in enumerate(one.mask) if covered]
    first = spans[0]
    ends = [place for place in spans if one.ids[place] == END]
    tool = ends[0] + 3
    yield "the prompt in the loss", changed(one, mask=[1] * len(one.ids))
    yield "one token of the prompt", changed(one, mask=[int(c or p == first - 1) for p, c in enumerate(one.mask)])
    yield "a tool's result in the loss", changed(one, mask=[int(c or p == tool) for p, c in enumerate(one.mask)])
    yield "no end token", changed(one, mask=[int(c and p != ends[-1]) for p, c in enumerate(one.mask)])
    yield "no first end token", changed(one, mask=[int(c and p != ends[0]) for p, c in enumerate(one.mask)])
    yield "the last turn left out", changed(one, mask=[int(c and p <= ends[0]) for p, c in enumerate(one.mask)])
    yield "a turn's first token left out", changed(one, mask=[int(c and p != first) for p, c in enumerate(one.mask)])
    yield "nothing in the loss", changed(one, mask=[0] * len(one.ids))
    yield "a row cut off", changed(one, ids=one.ids[: ends[-1]], mask=one.mask[: ends[-1]])


@pytest.mark.parametrize("packing", ["none", "prefix"])
@pytest.mark.parametrize(
    ("fault", "one"), list(broken_rows()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_row_whose_mask_is_broken_is_refused(packing, fault, one):
    rows = [*rows_of(HERMES, 2, "sound"), one]
    with pytest.raises(OresmithError, match="than what the model is to emit") as refusal:
        check_batches(Collator(rows, packing, END), rows, [0, 1, 2], 3, HERMES)
    assert "one0" in str(refusal.value)


class Spoiled(Collator):
    """A collator with a fault of its own."""

    def __init__(self, rows, packing, fault):
        super().__init__(rows, packing, END)
        self.fault = fault

    def __call__(self, examples):
        batch = super().__call__(examples)
        ids, labels = batch["input_ids"], batch["labels"]
        if self.fault == "labels shifted":
            batch["labels"] = labels.roll(1, -1)
        if self.fault == "all labelled":
            batch["labels"] = ids.clone()
        if self.fault == "end tokens taken for padding":
            batch["labels"] = labels.masked_fill(ids == END, IGNORED)
        if self.fault == "another token":
            batch["input_ids"] = ids.clone()
            batch["input_ids"][0, 0] += 1
        if self.fault == "cut":
            cut = int((labels[-1] != IGNORED).nonzero()[-1])
            batch["input_ids"][-1, cut:] = 7
        return batch


@pytest.mark.parametrize("packing", ["none", "prefix"])
@pytest.mark.parametrize(
    "fault", ["labels shifted", "all labelled", "end tokens taken for padding", "another token", "cut"]
)
def test_a_collator_that_spoils_sound_rows_is_refused(packing, fault):
    rows = rows_of(HERMES, 3)
    with pytest.raises(OresmithError, match="than what the model is to emit"):
        check_batches(Spoiled(rows, packing, fault), rows, [0, 1, 2], 3, HERMES)
