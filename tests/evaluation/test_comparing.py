"""Models are compared on the same problems under the same conditions, or not at all, unless the numbers say so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oresmith.errors import OresmithError
from oresmith.evaluation.comparing import Comparisons, Difference, compare, compare_folders
from oresmith.evaluation.multiple import holm
from oresmith.evaluation.paired import mcnemar
from oresmith.evaluation.scored import Scored, publish_scores, score_folder, told
from oresmith.evaluation.shown import print_comparisons
from oresmith.records import Problem
from tests.evaluation.scripted import Scripted, expert, run, small_shop
from tests.evaluation.talks import DONE, find, recommend, scored, talk

CONDITIONS: dict[str, tuple[str, Any]] = {
    "scorer": ("scorer", "oresmith-strict/2"),
    "titles": ("title threshold", {"model": "m", "threshold": 0.5}),
    "prompt": ("prompt", {"id": "shopper-2", "sha256": "f" * 64}),
    "tools": ("tool schema", {"id": "oresmith.tools.sn15/2", "sha256": "f" * 64}),
    "view": ("view", {"id": "raw/1", "sha256": "f" * 64}),
    "problems": ("problem set", "f" * 64),
    "sampling": ("sampling", {"temperature": 0.9, "top_p": 1.0, "max_new_tokens": 256}),
    "limits": ("limits", {"max_turns": 99, "max_malformed": 3, "max_context": None}),
    "harness": ("harness", "oresmith.harness/2"),
    "shops": ("shops", {"": {"catalogue_sha256": "f" * 64}}),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scored]:
    """Evaluations of one configuration: nobody's failure, every second problem, every third."""
    folder = tmp_path_factory.mktemp("models")
    return {name: evaluated(folder / name, errs) for name, errs in (("best", 0), ("half", 1), ("third", 2))}


def evaluated(folder: Path, errs: int, problems: list[Problem] | None = None, **settings: Any) -> Scored:
    shop, ours = small_shop()
    chosen = ours if problems is None else problems
    target = run(Scripted(expert(chosen, shop, errs=errs), context=100_000), folder / "r", chosen, **settings).target
    paths = folder / "problems.jsonl", folder / "catalogue.jsonl"
    for path, values in zip(paths, (ours, shop.documents()), strict=True):
        path.write_bytes(b"".join(msgspec.json.encode(value) + b"\n" for value in values))
    return renamed(score_folder(target, *paths), folder.name)


def renamed(one: Scored, name: str) -> Scored:
    return one._replace(scores=msgspec.structs.replace(one.scores, model=name))


def under(one: Scored, **conditions: Any) -> Scored:
    """The same scores under other conditions."""
    changed = one.scores.conditions | conditions
    return one._replace(scores=msgspec.structs.replace(one.scores, conditions=changed))


def difference(found: Comparisons, pair: int = 0, figure: str = "asr", group: str = "all") -> Difference:
    [one] = [one for one in found.pairs[pair].differences if (one.figure, one.group) == (figure, group)]
    return one


def test_the_tested_conditions_are_those_that_are_recorded(models: Mapping[str, Scored]):
    assert models["best"].scores.conditions.keys() == CONDITIONS.keys()
    assert None not in [value for name, value in models["best"].scores.conditions.items() if name != "titles"]


@pytest.mark.parametrize("name", CONDITIONS)
def test_each_condition_that_differs_bars_a_comparison_and_is_named(name: str, models: Mapping[str, Scored]):
    label, value = CONDITIONS[name]
    with pytest.raises(OresmithError, match="not evaluated under the same conditions") as refusal:
        compare([models["half"], under(models["best"], **{name: value})])
    assert refusal.value.exit_code == 2
    assert refusal.value.where == "half and best"
    assert refusal.value.got.startswith(f"{label}: ")
    assert ";" not in refusal.value.got


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_forced_comparison_says_so_with_every_number(name: str, models: Mapping[str, Scored]):
    label, value = CONDITIONS[name]
    found = compare([models["half"], under(models["best"], **{name: value})], forced=True)
    [pair] = found.pairs
    assert [text.partition(":")[0] for text in pair.forced] == [label]
    assert pair.differences
    assert all(one.forced == pair.forced for one in pair.differences)


@pytest.mark.parametrize("name", sorted(CONDITIONS.keys() - {"titles", "scorer", "problems"}))
def test_what_is_not_recorded_is_not_known_to_be_equal(name: str, models: Mapping[str, Scored]):
    sides = [under(models[one], **{name: None}) for one in ("half", "best")]
    with pytest.raises(OresmithError, match="not recorded and not recorded"):
        compare(sides)


def test_under_equal_conditions_nothing_is_forced_and_nothing_says_so(models: Mapping[str, Scored]):
    for forced in (False, True):
        found = compare([models["half"], models["best"]], forced=forced)
        assert all(one.forced == [] for one in found.pairs[0].differences)


def test_the_name_of_a_shop_is_no_condition_and_what_is_in_it_is(models: Mapping[str, Scored]):
    shops = models["best"].scores.conditions["shops"]
    renamed_shop = under(models["best"], shops={"day-1": shops[""]})
    assert compare([models["half"], renamed_shop]).pairs[0].forced == []
    with pytest.raises(OresmithError, match="shops"):
        compare([models["half"], under(models["best"], shops={"": shops[""], "more": {}})])


def test_seeds_samples_and_the_model_itself_may_differ_and_are_noted(models: Mapping[str, Scored]):
    other = models["best"]
    noted = other.scores.noted | {"seed": 9, "samples": 4}
    changed = other._replace(scores=msgspec.structs.replace(other.scores, noted=noted))
    assert compare([models["half"], changed]).pairs[0].noted == ["samples", "seed"]


def test_a_difference_is_the_second_less_the_first_by_the_exact_test(models: Mapping[str, Scored]):
    found = difference(compare([models["third"], models["best"]]))
    assert (found.n, found.only_first, found.only_second) == (7, 0, 4)
    assert found.first == pytest.approx(3 / 7, abs=1e-6)
    assert found.second == 1.0
    assert found.difference == pytest.approx(4 / 7, abs=1e-6)
    assert (found.test, found.p) == ("mcnemar", mcnemar(0, 4))
    assert found.p_holm == 2 * mcnemar(0, 4)
    assert found.claim == "none"
    back = difference(compare([models["best"], models["third"]]))
    assert (back.difference, back.p) == (-(found.difference or 0), found.p)


def test_each_model_is_held_against_the_first_and_the_one_before(models: Mapping[str, Scored]):
    four = [models["third"], models["half"], models["best"], renamed(models["half"], "last")]
    found = compare(four)
    pairs = [("third", "half"), ("third", "best"), ("half", "best"), ("third", "last"), ("best", "last")]
    assert [(pair.first, pair.second) for pair in found.pairs] == pairs
    assert found.models == ["third", "half", "best", "last"]


def test_holms_correction_is_over_all_tests_of_the_run(models: Mapping[str, Scored]):
    found = compare([models["third"], models["half"], models["best"]])
    tested = [one for pair in found.pairs for one in pair.differences if one.group == "all"]
    assert found.tests == len(tested) == 6
    assert [one.p_holm for one in tested] == holm([one.p for one in tested if one.p is not None])
    assert any(one.p_holm != one.p for one in tested)


def test_by_category_the_size_is_told_and_nothing_is_claimed(models: Mapping[str, Scored]):
    found = difference(compare([models["third"], models["best"]]), group="product")
    assert found.difference == pytest.approx(4 / 7, abs=1e-6)
    assert None not in (found.low, found.high)
    assert (found.test, found.p, found.p_holm, found.claim) == (None, None, None, None)


def test_a_difference_that_chance_hardly_makes_is_claimed_in_its_direction(tmp_path: Path):
    row, name = talk("product", find(1, 2), recommend("2"), DONE), "product"
    right = talk(name, find(1), recommend("1"), DONE)
    worse, better = (many(scored(tmp_path / kind, [one]), 9) for kind, one in (("w", row), ("b", right)))
    up = difference(compare([worse, better], forced=True))
    assert (up.n, up.p, up.claim) == (9, 2**-8, "better")
    assert difference(compare([better, worse], forced=True)).claim == "worse"
    assert difference(compare([better, better], forced=True)).claim == "none"


def many(one: Scored, count: int) -> Scored:
    """The one rollout of a set as that of many problems."""
    rows = one.table.to_dicts() * count
    made = [row | {"problem": str(n), "key": f"{n:064x}", "cluster": str(n)} for n, row in enumerate(rows)]
    return one._replace(table=type(one.table)(made, schema=one.table.schema))


def test_one_model_alone_is_compared_with_nothing(models: Mapping[str, Scored], capsys: pytest.CaptureFixture[str]):
    found = compare([models["best"]])
    assert (found.pairs, found.tests, found.models) == ([], 0, ["best"])
    print_comparisons(found)
    assert "nothing to compare" in capsys.readouterr().out


def test_forced_on_other_problems_only_those_in_common_count(tmp_path: Path, models: Mapping[str, Scored]):
    few = evaluated(tmp_path / "few", 0, small_shop()[1][:4])
    with pytest.raises(OresmithError, match="problem set"):
        compare([models["half"], few])
    [pair] = compare([models["half"], few], forced=True).pairs
    assert pair.unpaired == {"first": 3}
    assert {one.n for one in pair.differences} == {4}
    other = evaluated(tmp_path / "other", 0, small_shop()[1][4:])
    with pytest.raises(OresmithError, match="share no problem"):
        compare([few, other], forced=True)


def test_models_may_have_played_unequal_numbers_of_samples(tmp_path: Path):
    single = evaluated(tmp_path / "s", 1, temperature=1.0)
    several = evaluated(tmp_path / "m", 0, temperature=1.0, samples=3)
    found = difference(compare([single, several]))
    assert (found.n, found.test, found.only_first) == (7, "swaps", None)
    assert found.difference == pytest.approx(3 / 7, abs=1e-6)


def test_directories_of_scores_and_of_rollouts_are_compared_alike(tmp_path: Path):
    made = {name: evaluated(tmp_path / name, errs) for name, errs in (("half", 1), ("best", 0))}
    for name, one in made.items():
        publish_scores(one, tmp_path / name / "scores", lock="test")
    folders = [tmp_path / name / "scores" for name in made]
    found = compare_folders(*folders)
    assert found == compare(list(made.values()))
    files = {"problems": tmp_path / "half/problems.jsonl", "catalogue": tmp_path / "half/catalogue.jsonl"}
    mixed = compare_folders(folders[0], tmp_path / "best/r", **files)
    # A folder of rollouts has the name that its model played under.
    assert told(mixed.pairs[0].differences) == told(found.pairs[0].differences)
    with pytest.raises(OresmithError, match="there are no scores"):
        compare_folders(folders[0], tmp_path / "best/r")
    with pytest.raises(OresmithError, match="there are no scores"):
        compare_folders(folders[0], tmp_path / "nowhere")


def test_the_scores_of_strangers_are_compared_only_if_forced(tmp_path: Path):
    sides = []
    for name, id_ in (("a", "1"), ("b", "2")):
        publish_scores(
            scored(tmp_path / name, [talk("product", find(1, 2), recommend(id_))]), tmp_path / f"{name}s", lock="t"
        )
        sides.append(tmp_path / f"{name}s")
    with pytest.raises(OresmithError, match="harness: not recorded and not recorded"):
        compare_folders(*sides)
    [pair] = compare_folders(*sides, forced=True).pairs
    assert len(pair.forced) == 7


def test_tables_show_the_corrected_p_the_claim_and_what_was_forced(
    models: Mapping[str, Scored], capsys: pytest.CaptureFixture[str]
):
    print_comparisons(compare([models["third"], under(models["best"], view=CONDITIONS["view"][1])], forced=True))
    shown = " ".join(capsys.readouterr().out.split())
    assert "best against third" in shown
    assert "forced: view: compact/1" in shown
    assert "+57.1" in shown


def test_damaged_scores_are_refused(tmp_path: Path, models: Mapping[str, Scored]):
    publish_scores(models["best"], tmp_path / "s", lock="test")
    text = (tmp_path / "s/scores.json").read_bytes()
    (tmp_path / "s/scores.json").write_bytes(text.replace(b'"model": "best"', b'"model": 12345 '))
    with pytest.raises(OresmithError):
        compare_folders(tmp_path / "s", tmp_path / "s")
