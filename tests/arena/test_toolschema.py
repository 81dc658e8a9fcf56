import copy
import hashlib
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.arena import toolschema
from oresmith.arena.toolschema import check_call, check_call_json, schema_sha256, schema_version, tools
from tests.arena.real import SN15, needs_shared, rows

PARAMETERS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools()}


class TestSchema:
    def test_it_holds_the_four_tools_in_nested_form_as_valid_closed_json_schemas(self) -> None:
        assert list(PARAMETERS) == ["find_product", "view_product_information", "recommend_product", "terminate"]
        for tool in tools():
            assert tool["type"] == "function"
            assert tool["function"]["description"]
            parameters = tool["function"]["parameters"]
            jsonschema.Draft202012Validator.check_schema(parameters)
            assert parameters["additionalProperties"] is False
            assert parameters["required"]
            assert all(field["description"] for field in parameters["properties"].values())

    def test_its_hash_is_that_of_the_file_and_its_version_is_in_it(self) -> None:
        data = toolschema._FILE.read_bytes()
        assert schema_sha256() == hashlib.sha256(data).hexdigest()
        assert schema_version() == json.loads(data)["schema"] == "oresmith.tools.sn15/1"

    def test_a_caller_can_change_its_copy_of_the_tools_without_changing_anyone_elses(self) -> None:
        before = copy.deepcopy(tools())
        tools()[0]["function"]["name"] = "changed"
        assert tools() == before


VALID: list[tuple[str, Any]] = [
    ("find_product", {"q": "mug"}),
    ("find_product", {"q": "mug", "page": 5, "shop_id": "77", "price": "85-", "sort": "order", "service": "COD"}),
    ("find_product", {"q": "mug", "price": "-10.5", "service": "official, freeShipping,flashsale"}),
    ("find_product", {"q": "mug", "price": "1-124.24242424242426"}),
    ("view_product_information", {"product_ids": "1,2"}),
    ("recommend_product", {"product_ids": " 2952652780, 4025918623 "}),
    ("terminate", {"status": "failure"}),
]
INVALID: list[tuple[str, Any]] = [
    ("find_product", {}),
    ("find_product", {"q": " "}),
    ("find_product", {"query": "mug"}),
    ("find_product", {"q": "mug", "brand": 5}),
    ("find_product", {"q": "mug", "page": "1"}),
    ("find_product", {"q": "mug", "page": 0}),
    ("find_product", {"q": "mug", "page": 6}),
    ("find_product", {"q": "mug", "page": True}),
    ("find_product", {"q": "mug", "page": 1.0}),
    ("find_product", {"q": "mug", "price": "-"}),
    ("find_product", {"q": "mug", "price": [1, 2]}),
    ("find_product", {"q": "mug", "sort": "cheap"}),
    ("find_product", {"q": "mug", "service": "official;COD"}),
    ("find_product", {"q": "mug", "service": ""}),
    ("find_product", {"q": None}),
    ("view_product_information", {"product_ids": ["1"]}),
    ("recommend_product", {"product_ids": 5}),
    ("recommend_product", {"product_ids": ""}),
    ("recommend_product", {"product_ids": "1,,2"}),
    ("terminate", {}),
    ("terminate", {"status": "done"}),
    ("terminate", None),
    ("terminate", ["success"]),
    ("terminate", "success"),
]


@pytest.mark.parametrize(("name", "arguments"), VALID)
def test_calls_as_the_prompt_documents_them_are_valid(name: str, arguments: Any) -> None:
    assert check_call(name, arguments) == ("valid", "")
    assert check_call_json(name, json.dumps(arguments)) == ("valid", "")


@pytest.mark.parametrize(("name", "arguments"), INVALID)
def test_calls_that_do_not_fit_are_invalid_with_a_reason(name: str, arguments: Any) -> None:
    for checked in (check_call(name, arguments), check_call_json(name, json.dumps(arguments))):
        assert checked.verdict == "invalid"
        assert checked.reason


@pytest.mark.parametrize("name", ["calculate_voucher", "Find_product", "", None, 7, ["terminate"], {}])
def test_other_tools_are_unknown_whatever_their_arguments(name: object) -> None:
    assert check_call(name, {}).verdict == "unknown_tool"
    assert check_call_json(name, "{").verdict == "unknown_tool"


@pytest.mark.parametrize("text", ["", "{", "{'q': 1}", "[" * 5000, "\ud800", '"{\\"status\\": \\"success\\"}"'])
def test_argument_text_that_is_not_an_object_in_json_is_invalid(text: str) -> None:
    assert check_call_json("terminate", text).verdict == "invalid"


def test_the_reason_names_the_field() -> None:
    assert check_call("find_product", {"q": "a", "page": "1"}).reason == "page: Expected `int`, got `str`"
    assert check_call("find_product", {"q": "a", "price": "x"}).reason.startswith("price: ")


KEYS = ["q", "page", "shop_id", "price", "sort", "service", "product_ids", "status"]
TEXTS = ["mug", " ", "1,2", "1,", "10-", "-5.5", "5-10", "priceasc", "COD,official", "success"]
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-1, 7),
        st.integers(),
        st.floats(allow_nan=False).filter(lambda number: not number.is_integer()),
        st.text(max_size=200),
        st.sampled_from(TEXTS),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=9), inner, max_size=3)),
    max_leaves=5,
)
ARGUMENTS = st.one_of(
    VALUES, st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=120)), VALUES, max_size=4)
)


@given(st.sampled_from(list(PARAMETERS)), ARGUMENTS)
@settings(derandomize=True, deadline=None, max_examples=800)
def test_the_fast_check_agrees_with_a_json_schema_validator(name: str, arguments: Any) -> None:
    expected = jsonschema.Draft202012Validator(PARAMETERS[name]).is_valid(arguments)
    checked = check_call(name, arguments)
    assert checked.verdict == ("valid" if expected else "invalid")


@given(st.one_of(st.sampled_from(list(PARAMETERS)), st.text(st.characters(), max_size=200)), ARGUMENTS)
@settings(derandomize=True, deadline=None, max_examples=400)
def test_a_reason_is_short_and_printable_whatever_the_call_holds(name: str, arguments: Any) -> None:
    reason = check_call(name, arguments).reason
    assert len(reason) <= 80
    assert reason == "" or (reason.isascii() and reason.isprintable())


@pytest.mark.parametrize("text", [" " * 10**6, "a, " * 10**5 + "!b ", "1" * 10**6 + "-x", "COD," * 10**5, "a " * 10**5])
def test_a_huge_argument_is_refused_in_bounded_work(text: str) -> None:
    for field in ("price", "service", "sort"):
        assert check_call("find_product", {"q": "mug", field: text}).verdict == "invalid"
    assert check_call("recommend_product", {"product_ids": text + " b c"}).verdict == "invalid"


def test_lone_surrogates_are_answered_and_not_raised() -> None:
    for arguments in ({"status": "\ud800"}, {"\ud800": 1}, {"status": "success", "\ud800": 1}):
        assert check_call("terminate", arguments).verdict == "invalid"
    assert check_call("\ud800", {}) == ("unknown_tool", "no tool ?")


@needs_shared
def test_real_calls_of_the_four_tools_are_valid_but_for_the_planted_faults() -> None:
    verdicts: dict[str, int] = {}
    for name in ("miner_b", "probe_puppet", "reference"):
        for trace in rows(SN15 / f"traces_{name}.jsonl.gz"):
            for step in trace["dialogue"] or []:
                for call in step["completion"]["message"].get("tool_call", []):
                    verdict = check_call(call["name"], call["parameters"]).verdict
                    verdicts[verdict] = verdicts.get(verdict, 0) + 1
    assert verdicts["invalid"] < 0.01 * verdicts["valid"]
