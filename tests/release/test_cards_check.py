"""Every number of a card comes from the file that it names, and a card that says otherwise is found out."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from oresmith import cli_cards
from oresmith.errors import OresmithError
from oresmith.release.cards.check import check_cards, listed
from oresmith.release.cards.footer import BEGIN, EARLIER
from oresmith.release.cards.numbers import CardNumber
from oresmith.release.cards.sources import in_folder
from oresmith.release.cards.values import Values
from oresmith.release.manifest import Yanked
from oresmith.release.publish.tombstone import bury
from tests.code_deps import ROOT
from tests.release import cards_world as world

PLACE = re.compile(r"(.*), line (\d+), column (\d+)", re.DOTALL)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with its cards, and its bundle beside it. Not to be changed."""
    root = world.project(tmp_path_factory.mktemp("cards") / "project")
    world.make(root)
    world.bundle(root, root.parent / "bundle")
    return root.parent


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """A bundle to break."""
    return Path(shutil.copytree(made / "bundle", tmp_path / "bundle"))


def whats(root: Path) -> list[str]:
    return [f"{one.card} {one.where} {one.what}" for one in check_cards(root).wrong]


@pytest.mark.parametrize("source", ["project", "bundle", "bundle/dataset", "bundle/model"])
def test_the_cards_of_a_project_a_bundle_and_each_repository_hold(made: Path, source: str) -> None:
    found = check_cards(made / source)
    assert found.wrong == ()
    assert found.numbers > 40


def test_numbers_json_and_the_footers_list_the_same_numbers(made: Path) -> None:
    cards = made / "project/data/cards"
    told = json.loads((cards / "numbers.json").read_text())
    of = {name: [one for one in told if one["card"] == name] for name in ("dataset.md", "changelog.md")}
    for name, numbers in of.items():
        footer = json.loads((cards / name).read_text().split(BEGIN)[1].split("\n-->")[0])
        assert footer == numbers != []
    footer = json.loads((cards / "model.md").read_text().split(BEGIN)[1].split("\n-->")[0])
    assert {one["card"] for one in footer} == {"model.md", "eval_results/heldout.yaml"}
    assert {one["card"] for one in told} == {*of, "model.md", "eval_results/heldout.yaml", "report.html"}


def placed(card: Path) -> Iterator[tuple[CardNumber, int, int]]:
    """Each number that stands in the text of a card, with its line in the file and its column."""
    lines = card.read_text("utf-8").split("\n")
    heads = {line[3:].strip(): place for place, line in enumerate(lines) if line.startswith("## ")}
    for number in listed(card.read_text("utf-8")):
        found = PLACE.fullmatch(number.where)
        if found and number.card.endswith(".md"):
            yield number, heads[found[1]] + int(found[2]), int(found[3])


@pytest.mark.parametrize("name", ["dataset/README.md", "dataset/CHANGELOG.md", "model/README.md"])
def test_a_digit_of_a_number_changed_on_a_card_is_found_whichever_it_is(copy: Path, name: str) -> None:
    card = copy / name
    numbers = [one for one in placed(card) if re.search(r"\d", one[0].text)]
    assert len(numbers) > 5
    lines = card.read_text("utf-8").split("\n")
    for number, line, column in numbers:
        at = column + re.search(r"\d", number.text).start()  # type: ignore[union-attr]
        lines[line] = f"{lines[line][:at]}{(int(lines[line][at]) + 1) % 10}{lines[line][at + 1 :]}"
    card.write_text("\n".join(lines), "utf-8")
    found = {one.where for one in check_cards(copy).wrong if "does not stand there" in one.what}
    assert found == {number.where for number, _, _ in numbers}


def test_a_source_that_changed_is_found_with_its_file_and_key(copy: Path) -> None:
    world.change(copy / "dataset/funnel.json", "rejects", "outcome", to=999)
    faults = whats(copy)
    assert any("the card says 1,000, its source gives 999 (funnel.json /rejects/outcome)" in one for one in faults)
    world.change(copy / "model/scores/tuned.json", "overall", "asr", "k", to=2)
    assert any("model/README.md Scores" in one and "scores/tuned.json /overall/asr/k" in one for one in whats(copy))


def test_a_row_taken_away_is_found_by_the_figures_over_the_rows(made: Path, copy: Path) -> None:
    (path,) = (copy / "dataset/trajectories").glob("dev-*.parquet")
    path.unlink()
    assert any("Diversity" in one and "trajectories/*.parquet rows" in one for one in whats(copy))


def test_a_missing_source_is_named(copy: Path) -> None:
    (copy / "model/training/sft-1.json").unlink()
    assert any("training/sft-1.json" in one and "missing" in one for one in whats(copy))


def test_a_number_of_front_matter_that_was_changed_or_added_is_found(copy: Path) -> None:
    card = copy / "model/README.md"
    whole = card.read_text("utf-8")
    card.write_text(whole.replace("value: 0.3333333333333333", "value: 0.9333", 1), "utf-8")
    assert any("front matter, at /model-index/0/results/0/metrics/0/value" in one for one in whats(copy))
    card.write_text(whole.replace("library_name:", "downloads: 12\nlibrary_name:", 1), "utf-8")
    assert any("at /downloads" in one and "comes from no file" in one for one in whats(copy))


def test_a_score_of_eval_results_that_was_changed_is_found(copy: Path) -> None:
    path = copy / "model/.eval_results/heldout.yaml"
    path.write_text(path.read_text().replace("value: 0.3333333333333333", "value: 0.99"), "utf-8")
    assert any("heldout.yaml document, at /0/value" in one for one in whats(copy))


def test_a_score_of_eval_results_that_was_taken_away_or_added_is_found(copy: Path) -> None:
    folder = copy / "model/.eval_results"
    (folder / "more.yaml").write_text("- {dataset: {id: a/b, task_id: c}, value: 0.9}\n", "utf-8")
    assert any("more.yaml" in one and "comes from no file" in one for one in whats(copy))
    (folder / "heldout.yaml").unlink()
    assert any("heldout.yaml" in one for one in whats(copy))


@pytest.mark.parametrize(
    "line", ["It beats 42.7 percent.", "| `tuned` | 99% |", "> Up by +3 points.", "### 99% better", f"{EARLIER}\n\n99%"]
)
def test_a_number_that_was_typed_onto_a_card_is_found(copy: Path, line: str) -> None:
    card = copy / "dataset/README.md"
    card.write_text(card.read_text("utf-8").replace("## Gates\n", f"## Gates\n\n{line}\n", 1), "utf-8")
    assert any("Gates" in one and "comes from no file" in one for one in whats(copy))


def test_a_number_taken_off_the_list_is_found_on_the_card(copy: Path) -> None:
    card = copy / "dataset/README.md"
    lines = card.read_text("utf-8").split("\n")
    lines = [line for line in lines if '"key":"/rejects#sum"' not in line]
    card.write_text("\n".join(lines), "utf-8")
    assert any("'1,222' comes from no file" in one for one in whats(copy))


def test_a_notice_of_withdrawal_leaves_every_number_in_its_place(copy: Path) -> None:
    for name in ("dataset/README.md", "model/README.md"):
        card = copy / name
        card.write_bytes(bury(card.read_bytes(), [Yanked(version="0.1.0", reason="row 7 of 9 leaked | `x` <b>")]))
    assert whats(copy) == []


BROKEN = ("", "# A card\n", f"# A card\n\n{BEGIN}[{{]\n-->\n", f"{BEGIN}[]\n-->\n{BEGIN}[]\n-->\n")


@pytest.mark.parametrize("text", BROKEN)
def test_a_card_without_a_readable_list_is_refused(copy: Path, text: str) -> None:
    (copy / "dataset/README.md").write_text(text, "utf-8")
    with pytest.raises(OresmithError, match="numbers"):
        check_cards(copy)


def test_a_folder_without_a_card_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OresmithError, match="there is no card"):
        check_cards(tmp_path)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), junk=st.text(max_size=20), cut=st.integers(0, 40))
def test_whatever_happens_to_a_card_the_check_ends_in_words(
    made: Path, copy: Path, place: float, junk: str, cut: int
) -> None:
    whole = (made / "bundle/model/README.md").read_text("utf-8")
    at = int(place * len(whole))
    (copy / "model/README.md").write_bytes((whole[:at] + junk + whole[at + cut :]).encode("utf-8", "surrogatepass"))
    try:
        found = check_cards(copy / "model")
    except OresmithError as error:
        assert error.what
    else:
        assert all(one.what for one in found.wrong)


KEYS = ("/read#sum", "/rejects#sum:x", "/files/9", "/files?a=b", "/files?snapshot=one#sum:file", "#", "/~2", "rows:=1")


@settings(max_examples=60, deadline=None)
@given(
    key=st.sampled_from(KEYS) | st.text(max_size=12),
    column=st.sampled_from(["nothing", "tokens", "messages"]),
    value=st.sampled_from(["{}", "[1]", "1e999", "null"]) | st.text(max_size=5),
)
def test_any_key_of_a_strangers_card_ends_in_words(made: Path, key: str, column: str, value: str) -> None:
    values = Values(in_folder(made / "bundle/dataset"))
    for file, asked in (
        ("funnel.json", key),
        ("trajectories/*.parquet", key),
        ("trajectories/*.parquet", f"rows:{column}={value}"),
    ):
        with contextlib.suppress(OresmithError):
            assert isinstance(values.value(file, asked), int | float | None)


def test_front_matter_that_would_grow_without_end_is_refused(copy: Path) -> None:
    lines = ["a0: &a0 [1, 1]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]
    card = copy / "dataset/README.md"
    card.write_text(card.read_text("utf-8").replace("---\n", "---\n" + "\n".join(lines) + "\n", 1), "utf-8")
    assert any("aliases" in one for one in whats(copy))


def test_a_line_of_backticks_and_brackets_is_read_in_one_pass(copy: Path) -> None:
    card = copy / "dataset/README.md"
    line = "`` ` " * 60_000 + "](" * 60_000 + " 42.7 "
    card.write_text(card.read_text("utf-8").replace("## Gates\n", f"## Gates\n\n{line}\n", 1), "utf-8")
    assert any("Gates" in one and "42.7" in one for one in whats(copy))


def test_a_list_cannot_lead_the_check_out_of_the_folder(copy: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"n": 7}')
    (copy / "model/link.json").symlink_to(tmp_path / "secret.json")
    card = copy / "model/README.md"
    whole = card.read_text("utf-8")
    for file in ("../secret.json", "/etc/hostname", str(tmp_path / "secret.json"), "../../**/secret.json", "link.json"):
        number = {"card": "model.md", "where": "Gates, line 2, column 0", "text": "7", "file": file, "key": "/n"}
        planted = json.dumps(number | {"format": "count", "value": 7})
        card.write_text(whole.replace(f"{BEGIN}[\n", f"{BEGIN}[\n{planted},\n"), "utf-8")
        assert any("missing" in one for one in whats(copy / "model"))


HEAVY = ("matplotlib", "mlcroissant", "datasets", "torch", "transformers", "datatrove", "great_expectations", "dvc")


def test_the_check_needs_nothing_but_the_core_install(made: Path) -> None:
    code = (
        "import sys, pathlib\n"
        f"for name in {HEAVY!r}: sys.modules[name] = None\n"
        "from oresmith.release.cards.check import check_cards\n"
        f"found = check_cards(pathlib.Path({str(made / 'bundle')!r}))\n"
        "assert found.numbers and not found.wrong, found.wrong\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_command_leaves_with_one_and_names_the_number(copy: Path) -> None:
    app = typer.Typer()
    cli_cards.register(app)
    runner = CliRunner()
    good = runner.invoke(app, ["cards", "check", str(copy)])
    assert good.exit_code == 0
    assert "0 faults" in good.output
    world.change(copy / "dataset/funnel.json", "read", to=1)
    bad = runner.invoke(app, ["cards", "check", str(copy)])
    assert bad.exit_code == 1
    assert "funnel.json /read" in bad.output
    told = json.loads(runner.invoke(app, ["cards", "check", str(copy), "--json"]).output)
    assert told["wrong"]
