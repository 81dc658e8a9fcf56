"""Whatever JSON a trace, a product or a reward is, the scorer answers with a score or with ScoreError."""

import json
import re
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.arena.catalogue import Product
from oresmith.arena.scoring import Score, ScoreError, recommended_ids, score
from oresmith.arena.scoring_steps import step_format
from oresmith.records import Problem
from tests.arena.build import finish

settings.register_profile("arena", derandomize=True, deadline=None, max_examples=300)
FUZZ = settings.get_profile("arena")

PARTS = ["think", "tool_call", "response"]
TEXT = st.one_of(
    st.text(max_size=8),
    st.sampled_from([f"{slash}{part}>" for part in PARTS for slash in ("<", "</", "a<", "<\\/")]),
    st.sampled_from(["a", "b", "a,b", "recommend_product", "terminate", "name", "parameters", "product_ids", "COD"]),
)
SCALAR = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXT)
JSON = st.recursive(
    SCALAR, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)), max_leaves=6
)


def bent(valid: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly what is valid, sometimes any JSON."""
    return st.integers(0, 11).flatmap(lambda chance: valid if chance else JSON)


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects in which now and then a key is missing or a value is bent."""
    values = {key: bent(value) for key, value in fields.items()}
    keys = st.sets(st.sampled_from(sorted(fields)), max_size=1)
    return st.tuples(st.fixed_dictionaries(values), st.one_of(st.just(set()), keys)).map(
        lambda drawn: {key: value for key, value in drawn[0].items() if key not in drawn[1]}
    )


IDS = st.sampled_from(["a", "b", "a,b", "b , a", "c", ""])
CALLS = objects(
    name=st.sampled_from(["find_product", "recommend_product", "terminate"]),
    parameters=objects(product_ids=IDS, q=TEXT),
)
MESSAGES = objects(think=TEXT, tool_call=st.lists(CALLS, max_size=3), response=TEXT, user=TEXT, obs=st.lists(CALLS))
STEPS = objects(completion=objects(message=MESSAGES), extra_info=objects(timestamp=st.integers(-1, 2)))
DIALOGUES = bent(st.lists(STEPS, max_size=4))

PAIRS = st.dictionaries(st.sampled_from(["size", "brand"]), bent(st.sampled_from(["s", "m"])), max_size=2)
LISTED = st.dictionaries(st.sampled_from(["size", "brand"]), bent(st.lists(TEXT, max_size=2)), max_size=2)
BOUNDS = st.dictionaries(
    st.sampled_from(["less than", "greater than", "between"]),
    bent(st.tuples(st.integers(0, 9), st.integers(0, 9)).map(list)),
    max_size=2,
)
SERVICES = st.lists(st.sampled_from(["COD", "official"]), max_size=2)
REWARDS = objects(
    product_id=IDS,
    title=st.lists(TEXT, max_size=2),
    price=st.lists(bent(BOUNDS), max_size=2),
    service=SERVICES,
    sku_options=st.lists(bent(PAIRS), max_size=2),
    attributes=st.lists(bent(LISTED), max_size=2),
)
VOUCHERS = objects(
    voucher_type=st.sampled_from(["platform", "shop"]),
    discount_type=st.sampled_from(["fixed", "percentage"]),
    **dict.fromkeys(["threshold", "face_value", "discount", "cap", "budget"], st.integers(0, 9)),
)
DOCUMENTS = objects(
    shop_id=TEXT,
    title=TEXT,
    price=st.floats(0, 9),
    service=SERVICES,
    sku_options=st.dictionaries(TEXT, bent(PAIRS), max_size=2),
    attributes=LISTED,
)
CATALOGUES = st.tuples(DOCUMENTS, DOCUMENTS).map(
    lambda pair: [document | {"product_id": name} for name, document in zip("ab", pair, strict=True)]
)
PROBLEMS = st.one_of(
    st.builds(Problem, category=st.sampled_from(["product", "Product"]), reward=bent(REWARDS)),
    st.builds(
        Problem,
        category=st.sampled_from(["Shop", "voucher"]),
        reward=bent(st.lists(REWARDS, min_size=1, max_size=2)),
        voucher=bent(VOUCHERS),
    ),
)


def attempt(problem: Problem, dialogue: Any, documents: list[Any]) -> Score | None:
    products = {document["product_id"]: msgspec.convert(document, Product) for document in documents}
    try:
        return score(problem, dialogue, products)
    except ScoreError:
        return None


def check(problem: Problem, dialogue: Any, documents: list[Any]) -> None:
    got = attempt(problem, dialogue, documents)
    if got is not None:
        assert all(0 <= value <= 1 for value in got.score.values())
        assert not got.success or got.score["rule"] == 1
        assert got == attempt(problem, dialogue, documents)


@given(DIALOGUES)
@settings(FUZZ)
def test_any_dialogue_is_scored_within_bounds_or_refused_by_the_typed_error(dialogue: Any) -> None:
    documents = [{"product_id": name, "shop_id": "s", "price": 5, "service": []} for name in "ab"]
    check(Problem(category="product", reward={"product_id": "a"}), dialogue, documents)
    check(Problem(category="shop", reward=[{"product_id": "a"}, {"product_id": "b"}]), dialogue, documents)


@given(PROBLEMS, IDS, CATALOGUES)
@settings(FUZZ, max_examples=600)
def test_any_problem_and_product_is_scored_within_bounds_or_refused_by_the_typed_error(
    problem: Problem, ids: str, documents: list[Any]
) -> None:
    check(problem, finish(ids), documents)


@given(st.lists(JSON, max_size=3), JSON, JSON)
@settings(FUZZ)
def test_steps_rewards_and_vouchers_of_no_known_shape_never_crash_the_scorer(
    dialogue: Any, reward: Any, voucher: Any
) -> None:
    for category in ("product", "shop", "voucher"):
        attempt(Problem(category=category, reward=reward, voucher=voucher), dialogue, [])


def test_nesting_far_beyond_the_interpreters_own_depth_is_read() -> None:
    deep: Any = "<think>"
    for _ in range(50_000):
        deep = [deep]
    message = {"think": "a", "tool_call": [{"name": "x", "parameters": {"q": deep}}]}
    assert step_format({"completion": {"message": message}, "extra_info": {"timestamp": 1}}) == 0


@given(JSON)
@settings(FUZZ)
def test_recommended_ids_are_always_clean(value: Any) -> None:
    ids = recommended_ids(value)
    assert len(set(ids)) == len(ids)
    assert all(one and one == one.strip() and "," not in one for one in ids)


def rendered_format(message: dict[str, Any]) -> int:
    """The rule as sn15.md states it, read off the rendered text (JSON with `/` as `\\/`)."""
    texts = {part: message.get(part) for part in PARTS if message.get(part)}
    if "tool_call" in texts:
        texts["tool_call"] = json.dumps(texts["tool_call"]).replace("/", "\\/")
    text = "\n".join(f"<{part}>{texts[part]}</{part}>" for part in PARTS if part in texts)
    tags = [(part, [m.start() for m in re.finditer(f"<{part}>|</{part}>", text)]) for part in PARTS]
    spans = {part: places for part, places in tags if places}
    if "think" not in spans or not spans.keys() & {"tool_call", "response"}:
        return 0
    if any(len(places) != 2 or text[places[1] + 1] != "/" for places in spans.values()):
        return 0
    for start, end in spans.values():
        if any(start < place < end for others in spans.values() for place in others if place not in (start, end)):
            return 0
    calls = message.get("tool_call") or []
    fitting = all(isinstance(one.get("name"), str) and isinstance(one.get("parameters"), dict) for one in calls)
    return int(fitting)


FINITE = JSON.filter(lambda value: "Infinity" not in json.dumps(value))


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "think": st.lists(TEXT, max_size=3).map("".join),
            "response": st.lists(TEXT, max_size=3).map("".join),
            "tool_call": st.lists(
                st.fixed_dictionaries({}, optional={"name": TEXT, "parameters": FINITE, "result": FINITE}), max_size=2
            ),
        },
    )
)
@settings(FUZZ, max_examples=600)
def test_the_format_rule_agrees_with_the_rendered_text(message: dict[str, Any]) -> None:
    got = step_format({"completion": {"message": message}, "extra_info": {"timestamp": 1}})
    assert got == rendered_format(message)
