"""Detection is structural and never guesses."""

from typing import Any

import pytest

from oresmith.reasons import Reason
from oresmith.records import Format
from oresmith.traces import CodecError, detect
from tests.traces.build import call, envelope, step
from tests.traces.test_atif import document
from tests.traces.test_shoppingbench import rollout

STEP = {"completion": {"message": {"think": "a"}}, "extra_info": {"step": 1, "query": "q", "timestamp": 1}}


def with_message(**message: Any) -> dict[str, Any]:
    return {"completion": {"message": message}, "extra_info": {"step": 1}}


@pytest.mark.parametrize(
    ("row", "format"),
    [
        (envelope(), Format.SN15_ENVELOPE),
        ({"status": "FAILED", "dialogue": None}, Format.SN15_ENVELOPE),
        ([step()], Format.SN15_STEPS),
        ([STEP, step()], Format.SN15_STEPS),
        ([{"completion": None, "extra_info": {"proxy_calls": []}}], Format.SN15_STEPS),
        ([with_message(tool_call=[call()])], Format.SN15_STEPS),
        ([step() | {"completion": {"message": {"obs": []}}}], Format.SN15_STEPS),
        (rollout({"think": "a"}), Format.SHOPPINGBENCH),
        ([STEP | {"prompt": []}], Format.SHOPPINGBENCH),
        ([STEP | {"prompt": [], **with_message(tool_call=[call()])}], Format.SHOPPINGBENCH),
        ([with_message(obs=[])], Format.SHOPPINGBENCH),
        ({"messages": []}, Format.OPENAI),
        ({"trajectory": [{"role": "user", "content": "q"}]}, Format.OPENAI),
        (document(), Format.ATIF),
        ({"atif_json": "{}", "steps": 3}, Format.ATIF),
    ],
)
def test_each_format_is_told_by_its_structure(row: Any, format: Format) -> None:
    assert detect(row) is format


@pytest.mark.parametrize(
    ("row", "both"),
    [
        (envelope() | {"messages": []}, ("sn15-envelope", "openai-messages")),
        (document() | {"messages": []}, ("openai-messages", "atif")),
        ([step() | {"prompt": []}], ("sn15-steps", "shoppingbench-rollout")),
        ([with_message(tool_call=[call()], obs=[])], ("sn15-steps", "shoppingbench-rollout")),
        ([STEP], ("sn15-steps", "shoppingbench-rollout")),
        ([], ("sn15-steps", "shoppingbench-rollout")),
    ],
)
def test_a_row_that_fits_two_formats_is_refused_with_both_names(row: Any, both: tuple[str, str]) -> None:
    with pytest.raises(CodecError) as fault:
        detect(row)
    assert fault.value.reason is Reason.AMBIGUOUS_FORMAT
    assert all(name in str(fault.value) for name in both)


@pytest.mark.parametrize(
    "row",
    [None, 1, "text", True, {}, {"dialogue": []}, {"trajectory": []}, {"prompt": "x"}, [1], [[]], [{"role": "user"}]],
)
def test_an_unknown_row_is_refused_with_the_known_formats(row: Any) -> None:
    with pytest.raises(CodecError) as fault:
        detect(row)
    assert fault.value.reason is Reason.UNKNOWN_FORMAT
    assert all(format.value in str(fault.value) for format in Format)
