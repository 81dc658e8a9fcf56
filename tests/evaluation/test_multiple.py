"""Holm's correction is that of statsmodels."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from oresmith.errors import OresmithError
from oresmith.evaluation.multiple import holm


# statsmodels collects garbage on every call.
@settings(deadline=None, max_examples=15)
@given(st.lists(st.floats(0, 1) | st.sampled_from([0.0, 0.01, 0.02, 1.0]), min_size=1, max_size=12))
def test_statsmodels_corrects_the_same(p_values: list[float]) -> None:
    assert holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]), abs=1e-15)


def test_one_comparison_stays_as_it_is_and_none_gives_none() -> None:
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


def test_corrected_values_keep_the_order_that_was_given() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])


@pytest.mark.parametrize("wrong", [-0.01, 1.01, float("nan")])
def test_what_is_no_p_value_is_refused(wrong: float) -> None:
    with pytest.raises(OresmithError, match="no p-value"):
        holm([0.5, wrong])
