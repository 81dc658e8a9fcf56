"""The committed suites on the default world: believable, hard to guess, and the same for every seed."""

import pytest
import yaml

from oresmith.arena.believable import FACTOR, REFERENCE, believable, medians
from oresmith.arena.search import index_of
from oresmith.arena.suites import collisions
from oresmith.arena.world import documents
from oresmith.params import load_params
from oresmith.recording import suite_of
from tests.code_deps import ROOT

PATH = ROOT / "snapshots" / "arena"
PROMISED = 0.2
"""Most that a policy which takes the first or a random hit may succeed on, of the problems of a level."""


@pytest.fixture(scope="module")
def shop():
    with index_of(documents(1, 20_000)) as made:
        yield made


@pytest.fixture(scope="module")
def open_suite(shop):
    return suite_of(PATH / "open-1.yaml", shop, 1)


def test_no_policy_without_judgement_gets_far_on_any_level(open_suite):
    baselines = open_suite.report["baselines"]
    assert {"L1", "L2", "L3", "L4", "L5"} <= set(baselines)
    for level, shares in baselines.items():
        assert max(shares.values()) < PROMISED, level


def test_the_medians_of_world_and_problems_are_near_the_real_ones(shop, open_suite):
    figures = medians(believable(shop.documents(), [one.problem for one in open_suite.problems], shop))
    assert set(figures) == set(REFERENCE)
    for name, value in figures.items():
        assert 1 / FACTOR <= value / REFERENCE[name] <= FACTOR, name


def test_the_hidden_suite_shares_only_what_it_plants(shop, open_suite):
    hidden = suite_of(PATH / "hidden-1.yaml", shop, 1)
    assert hidden.definition.pool == "heldout"
    bases = [one for one in hidden.problems if one.variant == "base"]
    assert collisions(bases, open_suite.problems) == {"golds": [], "queries": [], "specifications": []}
    known = {one.problem_id for one in open_suite.problems}
    assert {one.cluster for one in hidden.problems if one.variant != "base"} <= known


def test_the_committed_parameters_play_two_days_and_at_least_3000_envelopes():
    days = load_params(ROOT / "params.yaml").snapshots
    assert {entry.day for entry in days} == {"2026-06-01", "2026-06-02"}
    sizes = {"open-1": 120, "hidden-1": 60, "easy-1": 324, "easy-hidden-1": 125}
    for name, size in sizes.items():
        raw = yaml.safe_load((PATH / f"{name}.yaml").read_text())
        counted = sum(sum(levels.values()) for levels in raw["counts"].values()) + sum(raw.get("variants", {}).values())
        assert counted == size
    played = sum(sizes[entry.suite] * sum(entry.miners.values()) * entry.days for entry in days)
    assert played >= 3000
