"""The cards say what the files say, in the same bytes every time, and no text from outside changes their shape."""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import stages.cards
from oresmith.errors import OresmithError
from oresmith.params import load_params
from oresmith.release.cards import escape, writer
from oresmith.release.cards.check import check_cards
from oresmith.release.cards.footer import split_footer
from oresmith.release.cards.frontmatter import feature
from oresmith.release.cards.make import report
from oresmith.release.cards.values import Values, pointer, resolve
from oresmith.release.cards.writer import Writer
from schemas.corpus import CONFIGS, feature_of
from tests.release import cards_world as world

HOSTILE = (
    "a|b`c``d---\n---\n## Gates\n| 1 | 2 |\n<img src=x onerror=alert(1)>{{ 7*7 }}{% raw %}[x](javascript:alert(1))"
    "![i](http://e.vil/p.png)&lt;&#35;*b*_u_~s~<!-- --> -->\u202e\u200b\u2066\ufeff\u00ad\ue0001|9\ue001"
    "https://e.vil www.e.vil @user #1 $x$ \\| \\` 'q' \"q\" end"
)
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of plain texts with its cards. Not to be changed."""
    root = world.project(tmp_path_factory.mktemp("cards") / "plain")
    world.make(root)
    return root


@pytest.fixture(scope="module")
def waived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plain project with a waived gate. Not to be changed."""
    waiver = {"gate": "scores", "who": "somebody", "why": "a reason"}
    root = world.project(tmp_path_factory.mktemp("cards") / "waived", waivers=[waiver])
    world.make(root)
    return root


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same project where everybody but us wrote hostile text."""
    line = HOSTILE.replace("\n", " ")[:480]
    waiver = {"gate": "scores", "who": line, "why": line}
    root = tmp_path_factory.mktemp("cards") / "hostile"
    world.project(root, HOSTILE, title=line, summary=line, waivers=[waiver])
    world.make(root)
    return root


def tokens(card: Path) -> list[tuple[str, list[str]]]:
    """The shape of a card: block tokens, and the kinds of what stands within each line."""
    body = split_footer(card.read_text("utf-8"))[0].partition("\n---\n")[2] or card.read_text("utf-8")
    plain = {"text", "text_special", "softbreak"}
    shape = []
    for token in MARKDOWN.parse(body):
        inline = [child.type for child in token.children or () if child.type not in plain]
        shape.append((token.type, inline))
    return shape


@pytest.mark.parametrize("name", ["dataset.md", "model.md", "changelog.md"])
def test_hostile_text_changes_neither_table_nor_page(waived: Path, hostile: Path, name: str) -> None:
    plain = tokens(waived / "data/cards" / name)
    found = tokens(hostile / "data/cards" / name)
    assert found == plain
    kinds = {kind for _, inline in found for kind in inline}
    assert kinds <= {"code_inline", "link_open", "link_close", "image"}
    links = [
        child.attrs["href"]
        for token in MARKDOWN.parse((hostile / "data/cards" / name).read_text("utf-8"))
        for child in token.children or ()
        if child.type == "link_open"
    ]
    assert all(str(link).startswith(("https://huggingface.co/", "CHANGELOG.md")) for link in links)


def test_hostile_text_changes_no_front_matter(made: Path, hostile: Path) -> None:
    for name in ("dataset.md", "model.md"):
        plain, found = (
            yaml.safe_load((root / "data/cards" / name).read_text("utf-8").split("\n---\n")[0][4:])
            for root in (made, hostile)
        )
        texts = [part for part in _strings(found) if part not in set(_strings(plain))]
        assert all(text.startswith("a|b`c") and text.isprintable() for text in texts)
        assert _shape(found) == _shape(plain)


def _strings(tree: Any) -> list[str]:
    if isinstance(tree, dict):
        return [text for part in tree.values() for text in _strings(part)]
    if isinstance(tree, list):
        return [text for part in tree for text in _strings(part)]
    return [tree] if isinstance(tree, str) else []


def _shape(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _shape(part) for name, part in tree.items()}
    return [_shape(part) for part in tree] if isinstance(tree, list) else type(tree)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))


def test_hostile_text_changes_no_tag_of_the_report_and_it_asks_no_network(waived: Path, hostile: Path) -> None:
    shapes = []
    for root in (waived, hostile):
        parser = _Tags()
        page = (root / "data/cards/report.html").read_text("utf-8")
        parser.feed(page)
        shapes.append(parser.tags)
        assert "http://" not in page.replace("http://e.vil", "").replace("&#", "")
        assert 'src="data:image/png;base64,' in page
    assert shapes[0] == shapes[1]
    assert "default-src 'none'" in page
    assert not set(page) & set("\u202e\u200b\u2066\ufeff\ue000\ue001")


def test_the_numbers_of_a_hostile_project_are_checked_like_any_others(hostile: Path) -> None:
    assert check_cards(hostile).wrong == ()


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=60) | st.text("`|\\ \n<>[]()!*_&#", max_size=30))
@example("`")
@example("\\")
@example("|")
@example(" ` ")
@example("``a`")
def test_any_text_is_one_cell_and_shown_whole(text: str) -> None:
    (cell,) = _cells(f"| x | y |\n| - | - |\n| {escape.code(text)} | z |\n")[2:3]
    (span,) = cell.children
    assert span.type == "code_inline"
    assert span.content.strip() == (escape.visible(text).replace("|", "\u2502").strip() or "(empty)")
    (cell,) = _cells(f"| x | y |\n| - | - |\n| {escape.words(text)} | z |\n")[2:3]
    assert {child.type for child in cell.children or ()} <= {"text", "text_special"}
    assert all(part.isprintable() for part in escape.visible(text))


def test_escaped_words_read_back_as_they_were() -> None:
    told = "a *b* _c_ [d](e) <f> & `g` | h \\ https://i.j 1. k # l"
    (cell,) = _cells(f"| x | y |\n| - | - |\n| {escape.words(told)} | z |\n")[2:3]
    assert "".join(child.content for child in cell.children or ()) == told


def _cells(text: str) -> list[Any]:
    found = [token for token in MARKDOWN.parse(text) if token.type == "inline"]
    assert len(found) == 4
    return found


def test_a_template_that_prints_what_was_not_escaped_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "files", lambda _: tmp_path)
    for source in ("{{ name }}", "{{ 42 }}", "{{ name ~ 'x' }}", "{{ missing }}", "{{ name.missing|code }}"):
        (tmp_path / "t.jinja").write_text(source)
        with pytest.raises(OresmithError):
            Writer("t.md", Values(lambda _: [])).markdown("t.jinja", {"name": "x"})
    (tmp_path / "t.jinja").write_text("{{ name|code }}")
    assert "`x`" in Writer("t.md", Values(lambda _: [])).markdown("t.jinja", {"name": "x"})


def test_the_same_project_gives_the_same_bytes(made: Path, tmp_path: Path) -> None:
    first = _hashes(made / "data/cards")
    other = world.project(tmp_path / "elsewhere")
    assert _hashes(world.make(other)) == first
    assert set(first) == {
        "changelog.md",
        "croissant.json",
        "dataset.md",
        "eval_results/heldout.yaml",
        "figures/asr.png",
        "figures/clusters.png",
        "figures/funnel.png",
        "model.md",
        "numbers.json",
        "provenance.json",
        "report.html",
    }


def _hashes(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_figure_holds_no_text_beside_its_picture(made: Path) -> None:
    for path in sorted((made / "data/cards/figures").glob("*.png")):
        content, at, kinds = path.read_bytes(), 8, []
        while at < len(content):
            (size,) = struct.unpack(">I", content[at : at + 4])
            kinds.append(content[at + 4 : at + 8].decode())
            at += 12 + size
        assert set(kinds) <= {"IHDR", "pHYs", "IDAT", "IEND"}


def test_front_matter_has_the_features_that_datasets_writes(made: Path) -> None:
    from datasets import Features

    head = yaml.safe_load((made / "data/cards/dataset.md").read_text("utf-8").split("\n---\n")[0][4:])
    of = {info["config_name"]: info for info in head["dataset_info"]}
    for config, columns in CONFIGS.items():
        theirs = Features.from_dict({name: feature_of(kind) for name, kind in columns.items()})._to_yaml_list()
        assert [{"name": name, **feature(kind)} for name, kind in columns.items()] == theirs
        if config in world.SHAPE:
            assert of[config]["features"] == theirs


@pytest.mark.parametrize(
    "configs", [("kto", "heldout_rollouts"), pytest.param(tuple(world.SHAPE), marks=pytest.mark.slow)]
)
def test_configs_load_with_their_splits_whole_and_streamed(
    made: Path, tmp_path: Path, configs: tuple[str, ...]
) -> None:
    from datasets import load_dataset

    folder = world.bundle(made, tmp_path / "bundle") / "dataset"
    sizes = world.SHAPE | {"heldout_rollouts": {world.SPLIT: 6}}
    head = yaml.safe_load((folder / "README.md").read_text("utf-8").split("\n---\n")[0][4:])
    assert [one["config_name"] for one in head["configs"]] == [name for name in _ORDER if name in sizes]
    for config in configs:
        loaded = load_dataset(str(folder), config, cache_dir=str(tmp_path / "cache"))
        assert {split: rows.num_rows for split, rows in loaded.items()} == sizes[config]
        streamed = load_dataset(str(folder), config, streaming=True)
        assert {split: sum(1 for _ in rows) for split, rows in streamed.items()} == sizes[config]


_ORDER = (*("trajectories", "sft", "kto", "grpo", "subtask", "heldout", "heldout_gold", "heldout_rollouts", "rejects"),)


def test_mlcroissant_finds_no_fault_and_reads_the_rows(made: Path, tmp_path: Path) -> None:
    import mlcroissant as mlc

    folder = world.bundle(made, tmp_path / "bundle") / "dataset"
    path = folder / "croissant.json"
    told = json.loads(path.read_text())
    for file in told["distribution"]:
        if "sha256" in file:  # the world's certificate states made-up hashes
            file["sha256"] = hashlib.sha256((folder / file["contentUrl"]).read_bytes()).hexdigest()
    path.write_text(json.dumps(told))
    dataset = mlc.Dataset(str(path))
    assert not dataset.metadata.ctx.issues.errors
    assert sum(1 for _ in dataset.records("kto")) == 9
    assert told["version"] == "0.1.0"
    assert not any("date" in name.lower() for name in told)


def test_the_hubs_library_reads_the_scores_of_the_model_card(made: Path) -> None:
    from huggingface_hub import ModelCard, parse_eval_result_entries

    (found,) = ModelCard((made / "data/cards/model.md").read_text("utf-8")).data.eval_results[:1]
    assert (found.metric_type, found.metric_value, found.dataset_split) == ("asr", 1 / 3, world.SPLIT)
    (entry,) = parse_eval_result_entries(yaml.safe_load((made / "data/cards/eval_results/heldout.yaml").read_text()))
    assert (entry.value, entry.dataset_revision) == (1 / 3, "0.1.0")


def test_provenance_binds_rows_and_model_to_their_sources_and_names_no_time_of_the_run(made: Path) -> None:
    told = json.loads((made / "data/cards/provenance.json").read_text())
    subjects = {one["name"]: one["digest"]["sha256"] for one in told["subject"]}
    assert told["_type"] == "https://in-toto.io/Statement/v1"
    assert subjects["model/config.json"] == "4" * 64
    assert sum(name.startswith("dataset/") for name in subjects) == 9
    build = told["predicate"]["buildDefinition"]
    assert [one["name"] for one in build["resolvedDependencies"]] == ["one", "start model"]
    assert "metadata" not in told["predicate"]["runDetails"]


def test_waived_gates_are_named_with_who_and_why_on_both_cards(made: Path, waived: Path) -> None:
    for name in ("dataset.md", "model.md"):
        assert "| `scores` | `somebody` | `a reason` |" in (waived / "data/cards" / name).read_text("utf-8")
        assert "No gate was waived" in (made / "data/cards" / name).read_text("utf-8")


def test_a_null_is_said_in_words_and_never_shown_as_zero(tmp_path: Path) -> None:
    root = world.project(tmp_path)
    world.change(root / "data/sft/1/training.json", "loss", "last", to=None)
    world.change(root / "data/score/base/scores.json", "overall", "asr", "share", to=None)
    text = (world.make(root) / "model.md").read_text("utf-8")
    assert "| 1.500 | not known |" in text
    assert "| `base` | all | 0 of 3 |" in text


def test_a_model_that_no_step_made_has_a_card_that_says_so(tmp_path: Path) -> None:
    root = world.project(tmp_path, model="base")
    assert "No training step of this pipeline made this model" in (world.make(root) / "model.md").read_text("utf-8")
    assert check_cards(root).wrong == ()


def test_a_model_of_a_step_that_is_switched_off_is_refused(tmp_path: Path) -> None:
    root = world.project(tmp_path)
    world.change(root / "data/sft/1/training.json", "skipped", to="switched off")
    with pytest.raises(OresmithError, match="switched off"):
        world.make(root)


@pytest.mark.parametrize("path", ["data/validate/funnel.json", "data/score/tuned/scores.json", "metrics/compare.json"])
def test_a_stage_that_has_not_run_is_named(tmp_path: Path, path: str) -> None:
    root = world.project(tmp_path)
    (root / path).unlink()
    with pytest.raises(OresmithError, match=Path(path).name):
        world.make(root)


def test_a_changelog_keeps_what_earlier_releases_said_and_looks_at_no_later_one(made: Path, tmp_path: Path) -> None:
    root = world.project(tmp_path, version="0.2.0")
    earlier = (made / "data/cards/changelog.md").read_text("utf-8")
    for version, text in (("0.1.0", earlier), ("0.3.0", "# later\n"), ("0.2.0", "# same\n")):
        (root / "releases" / version).mkdir()
        (root / "releases" / version / "CHANGELOG.md").write_text(text, "utf-8")
    step = {"previous": "0.1.0", "changes": {"added": 12}, "reserialised": True, "least": "0.2.0"}
    world.change(root / "data/validate/validation.json", "version", to=step)
    text = (world.make(root) / "changelog.md").read_text("utf-8")
    assert text.index("## 0.2.0") < text.index("| `added` | 12 |") < text.index("## 0.1.0")
    assert text.count("## ") == 2
    assert check_cards(root).wrong == ()


def test_the_report_of_a_run_shows_what_it_took_and_the_cards_do_not(made: Path, tmp_path: Path) -> None:
    root = world.project(tmp_path)
    world.write(root / "data/observed/sft-1.json", {"seconds": 710.2, "cpu_joules": 5000})
    cards = world.make(root)
    report(load_params(root / "params.yaml"), tmp_path / "page.html", root)
    assert "710.2" in (tmp_path / "page.html").read_text("utf-8")
    assert _hashes(cards) == _hashes(made / "data/cards")


@given(parts=st.lists(st.text(max_size=8) | st.integers(0, 3), min_size=1, max_size=4))
def test_a_pointer_finds_its_place_whatever_the_names(parts: list[str | int]) -> None:
    tree: Any = 7
    for part in reversed(parts):
        tree = {part: tree} if isinstance(part, str) else [None] * part + [tree]
    assert resolve(tree, pointer(*parts)) == 7


def test_the_stage_publishes_all_or_nothing_and_its_numbers_hold(tmp_path: Path) -> None:
    root = world.project(tmp_path)
    with contextlib.chdir(root):
        assert stages.cards.run(load_params()) > 100
        first = _hashes(root / "data/cards")
        assert check_cards(Path()).wrong == ()
        (root / "metrics/compare.json").unlink()
        with pytest.raises(OresmithError, match=r"compare\.json"):
            stages.cards.run(load_params())
        assert _hashes(root / "data/cards") == first
