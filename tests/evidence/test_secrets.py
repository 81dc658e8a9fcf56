"""Secrets and personal data: found wherever they stand, located to the character, never copied; products never fire."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oresmith.evidence.scanner import MAX_FINDINGS, Finding, Spec, rust_search
from oresmith.evidence.secret_patterns import PATHS, PERSONAL, SECRETS
from oresmith.evidence.secrets import find_secrets, find_secrets_in
from oresmith.evidence.texts import leaves, parts, plain_view
from oresmith.records import Message, ProxyCall, Trajectory
from oresmith.traces import Context, decode
from tests.arena.real import SHARED, SN15, needs_shared, rows
from tests.evidence.plants import FIELDS, PLANTS, SOURCE, call, product_text, seed_phrase, trajectory

SPECS = (*SECRETS, *PERSONAL, *PATHS)
BY_TYPE = {spec.type: spec for spec in SPECS}
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)


def text_at(made: Trajectory, where: str) -> str:
    return next(text for part in parts(made) for place, text in leaves(*part) if place == where)


def types(text: str) -> list[str]:
    return [finding.type for finding in find_secrets_in("x", text)]


def plain(text: str) -> str:
    """As a JSON string holds it."""
    return json.dumps(text)[1:-1]


@pytest.mark.parametrize("kind", PLANTS)
def test_each_type_is_found_and_located_in_every_field(kind: str) -> None:
    planted = found = 0
    missed = []
    for seed in range(6):
        for maker in PLANTS[kind]:
            for where, field in FIELDS.items():
                rng = random.Random(f"{kind}/{seed}/{where}")
                plant = maker(rng)
                made = field(f"I found this one: {plant.text} , so I go on")
                planted += 1
                hits = [one for one in find_secrets(made) if one.where == where and one.type == kind]
                texts = [text_at(made, where)[one.start : one.start + one.length] for one in hits]
                wanted = (plant.value, plain(plant.value))
                if any(text.startswith(wanted) or (kind == "seed_phrase" and wanted[0] in text) for text in texts):
                    found += 1
                else:
                    missed.append((where, seed))
    print(f"recall of {kind}: {found}/{planted}")
    assert missed == []


def test_every_pattern_has_plants_and_every_plant_a_pattern() -> None:
    assert set(PLANTS) == set(BY_TYPE)


@pytest.mark.parametrize("kind", PLANTS)
def test_a_finding_ends_where_the_value_ends_and_copies_none_of_it(kind: str) -> None:
    for seed in range(10):
        plant = PLANTS[kind][0](random.Random(seed))
        findings = find_secrets_in("x", f"Here ({plant.text}) THERE")
        finding = next(one for one in findings if one.type == kind)
        text = f"Here ({plant.text}) THERE"[finding.start : finding.start + finding.length]
        assert text == plant.value or kind == "private_key"
        assert finding.kind == BY_TYPE[kind].kind
        assert plant.value not in msgspec.json.encode(findings).decode()


def test_digests_tell_equal_tokens_and_are_withheld_where_they_could_be_guessed() -> None:
    rng = random.Random(1)
    token, address = PLANTS["github_token"][0](rng).value, PLANTS["email"][0](rng).value
    one, other = find_secrets_in("x", f"{token} and {address}")
    assert (one.type, one.digest) == ("github_token", hashlib.sha256(token.encode()).hexdigest()[:12])
    assert (other.type, other.digest) == ("email", "")
    guessable = {"password", "env_assignment", "labelled_secret", "api_key_header", "url_credentials", "card", "phone"}
    assert guessable <= {spec.type for spec in SPECS if not spec.digest}
    assert all(not spec.digest for spec in PERSONAL if spec.type != "wallet_address")


def disguises(value: str) -> dict[str, str]:
    middle = len(value) // 2
    return {
        "zero width": value[:middle] + "\u200b\u2060" + value[middle:],
        "soft hyphen": "\u00ad".join(value),
        "full width": "".join(chr(ord(letter) + 0xFEE0) if letter.isalnum() else letter for letter in value),
        "quoted": "".join(f"%{ord(letter):02X}" for letter in value),
        "quoted twice": quote(quote(value, safe=""), safe=""),
        "escaped": "".join(f"\\u{ord(letter):04x}" for letter in value),
        "escaped line end": f"\\n{value}\\n",
        "in JSON in JSON": json.dumps(json.dumps({"q": f"\n{value}\t"})),
    }


@pytest.mark.parametrize(
    "kind", ["openai_key", "huggingface_token", "aws_access_key", "jwt", "email", "wallet_address"]
)
@pytest.mark.parametrize("way", disguises("ab"))
def test_disguises_are_seen_through_and_located_in_the_raw_text(kind: str, way: str) -> None:
    for seed in range(5):
        value = PLANTS[kind][0](random.Random(seed)).value
        hidden = disguises(value)[way]
        text = f"q = {hidden} ;"
        finding = next(one for one in find_secrets_in("x", text) if one.type == kind)
        raw = text[finding.start : finding.start + finding.length]
        assert raw.strip("\u200b") in hidden
        assert plain_view(raw).text == value


NOT_SECRET = [
    "sk-ii-facial-treatment-essence-230ml-pitera-2024",
    "OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "api_key: your-api-key-goes-in-here",
    "api_key = os.environ['CHUTES_ACCESS_TOKEN']",
    "AKIAIOSFODNN7EXAMPLE",
    "Authorization: Bearer <your token here please>",
    "export TOKEN=$CHUTES_ACCESS_TOKEN",
    '{"max_tokens": 1024, "completion_tokens": 230, "prompt_tokens": 12345678}',
    '{"logprobs": {"content": [{"token": " Electric", "logprob": -0.1}]}}',
    "Door lock, password: minimum 8 characters",
    "Ring Bearer Pillow-Satin-Ribbon-White",
    "Victoria Secret: Bombshell Perfume",
    "mask-abcdefghijklmnopqrstuvwxyz123456",
    "contact name@example.com or me@localhost",
    "icon@2x.png",
    "Android 13.0.1.5 and 1.2.3.4",
    "192.168.1.20 10.0.0.7 127.0.0.1 172.16.4.4 999.1.1.1",
    "Mozilla/5.0 Chrome/120.0.6099.71",
    "EAN 4006381333931, id 4111111111111112, 0.4111111111111111, ref 54111111111111111",
    "09171234, 091712345678, 2009171234567, A09171234567",
    "part pcs+0445120006 and 5+12345678",
    "GB82WEST12345698765433",
    "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQZ",
    "and/or home/garden, /search/find_product, https://shop.example/home/page",
    "eyJust.eyJoke.haha",
    " ".join(["abandon"] * 11 + ["about"]),
    # Option lists of a catalogue repeat their keys, and one window in 16 has a right check sum.
    '"sku_options": ["size: 16 inch, color_family: gold", "size: 14 inch, color_family: black", '
    '"size: 16 inch, color_family: black"]',
    "seed phrase: the words of a phrase that nobody wrote into any book so far",
]


@pytest.mark.parametrize("text", NOT_SECRET)
def test_what_only_looks_like_one_does_not_fire(text: str) -> None:
    assert types(text) == []


def test_random_product_text_does_not_fire() -> None:
    for seed in range(300):
        assert find_secrets_in("x", product_text(random.Random(seed))) == []


def test_a_seed_phrase_is_found_without_a_label_inside_prose_and_lists() -> None:
    for seed in range(20):
        phrase = seed_phrase(random.Random(seed), 12).value
        words = phrase.split()
        numbered = "\n".join(f"{number}. {word}" for number, word in enumerate(words, 1))
        for text in (f"I must write down {phrase} and zzz", json.dumps(words), numbered, "\\n".join(words)):
            assert "seed_phrase" in types(text)


def test_the_facts_of_a_catalogue_are_no_seed_phrase() -> None:
    """Attribute names are made of words of the list, too: among them some windows have a right check sum."""
    from oresmith.arena.world import documents

    for document in documents(2, 20_000):
        text = ", ".join(f"{key}: {' '.join(values)}" for key, values in document.attributes.items())
        assert "seed_phrase" not in types(f"{text}; {document.description}; {document.specification}")


def test_words_of_the_list_without_the_right_check_sum_are_prose() -> None:
    rng = random.Random(3)
    wrong = 0
    for _ in range(200):
        words = seed_phrase(rng, 12).value.split()
        words[0], words[1] = words[1], words[0]
        wrong += types(" ".join(words)) == []
    assert wrong > 150, "one permutation in 16 keeps its check sum by chance"


def test_numbers_outside_of_strings_are_read() -> None:
    number = int(PLANTS["card"][0](random.Random(8)).value.replace(" ", "").replace("-", ""))
    made = trajectory(log=[ProxyCall(params={"card": number, "flag": True, "huge": 10**400})])
    assert [(one.type, one.where) for one in find_secrets(made)] == [("card", "log[0].params.card")]


def test_keys_of_objects_never_reach_a_place() -> None:
    key = PLANTS["openai_key"][0](random.Random(4)).value
    made = trajectory(extra={key: {key: key}})
    findings = find_secrets(made)
    assert {one.where for one in findings} == {"extra.keys[0]", "extra.values[0].keys[0]", "extra.values[0].values[0]"}


def test_half_a_surrogate_pair_hides_nothing() -> None:
    for kind in ("github_token", "seed_phrase", "email"):
        value = PLANTS[kind][0](random.Random(6)).value
        (finding,) = find_secrets_in("x", f"\ud800 {value} \udfff")
        assert (finding.type, finding.start, finding.length) == (kind, 2, len(value))


def test_overlapping_patterns_give_one_finding_of_the_more_exact_type() -> None:
    token = PLANTS["anthropic_key"][0](random.Random(5)).value
    assert types(f'ANTHROPIC_API_KEY="{token}"') == ["anthropic_key"]
    assert types(f"Authorization: Bearer {token}") == ["anthropic_key"]


def test_findings_are_bounded() -> None:
    text = " ".join(f"user{number}@mail{number}.com" for number in range(3 * MAX_FINDINGS))
    assert len(find_secrets_in("x", text)) == MAX_FINDINGS


def test_what_the_operator_declares_is_not_scanned() -> None:
    made = trajectory()
    made.source = msgspec.structs.replace(SOURCE, file="/home/user/traces/a@b.com.jsonl")
    assert find_secrets(made) == []


@given(st.data(), st.sampled_from(SPECS))
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_pre_check_lets_all_pass_that_the_exact_pattern_matches(data: st.DataObject, spec: Spec) -> None:
    shape = re.sub(r"\{(\d+),\d{2,}\}", r"{\1}", spec.shape)
    value = data.draw(st.from_regex(shape, fullmatch=True))
    for text in (value, f" {value} ", f"\n{value}", f"\\n{value}"):
        if spec.exact().search(text):
            assert rust_search(spec.loose())(text)


@given(st.lists(st.sampled_from([*"aB%4e1\\nu0", "\u200b", "\\n", "%41", "\\u0041", "ａ", "а", "\ufeff"]), max_size=30))
def test_a_reading_leads_back_to_the_raw_text(units: list[str]) -> None:
    text = "".join(units)
    view = plain_view(text)
    last = 0
    for place in range(len(view.text)):
        start, end = view.span(place, place + 1)
        assert last <= start < end <= len(text)
        assert plain_view(text[start:end]).text in (view.text[place], text[start:end])
        last = end


@given(
    ANY_TEXT,
    ANY_TEXT,
    st.recursive(st.none() | st.integers() | ANY_TEXT, lambda v: st.lists(v) | st.dictionaries(ANY_TEXT, v)),
)
@settings(max_examples=150, deadline=None)
def test_no_text_makes_it_raise_and_the_same_text_gives_the_same(one: str, other: str, value: object) -> None:
    made = trajectory(
        messages=[Message(role="assistant", content=one, reasoning_content=other, tool_calls=[call(one, other)])],
        error=value,
        log=[ProxyCall(params=value, response=one)],
    )
    assert find_secrets(made) == find_secrets(made)


@needs_shared
def test_the_real_inputs_hold_no_secret_and_no_personal_data() -> None:
    found: Counter[tuple[str, str, str]] = Counter()
    for path in sorted(SHARED.rglob("*.jsonl*")):
        lines = rows(path) if path.suffix == ".gz" else map(msgspec.json.decode, path.read_bytes().splitlines())
        for row in lines:
            found.update((path.name, one.kind, one.type) for one in find_secrets_in("row", row))
    suite = msgspec.json.decode((SN15 / "problem_suite_v3.json").read_bytes())
    found.update(("suite", one.kind, one.type) for one in find_secrets_in("row", suite))
    paths = {key: count for key, count in found.items() if key[1] == "path"}
    print(f"found in the real inputs: {dict(found)}")
    assert found.total() == sum(paths.values())
    assert paths == {("traces_probe_failures.jsonl.gz", "path", "server_path"): 9}, "paths that error messages hold"


@needs_shared
def test_decoded_envelopes_hold_what_their_raw_lines_hold() -> None:
    for row in rows(SN15 / "traces_probe_failures.jsonl.gz"):
        made = decode(row, Context(source=SOURCE))
        assert kinds(find_secrets(made)) == kinds(find_secrets_in("row", row))


def kinds(findings: list[Finding]) -> Counter[str]:
    return Counter(one.type for one in findings)
