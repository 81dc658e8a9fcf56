"""All files of data/cards/: provenance, Croissant, plots, the cards, the report and the list of their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from oresmith.errors import OresmithError
from oresmith.params import Params
from oresmith.release.cards.check import check_made
from oresmith.release.cards.croissant import croissant
from oresmith.release.cards.facts import (
    certificate_of,
    dataset_context,
    model_context,
    pairs,
    shapes,
    shared_context,
    splits,
)
from oresmith.release.cards.footer import EARLIER, split_footer
from oresmith.release.cards.frontmatter import dataset_front_matter, eval_result, model_front_matter
from oresmith.release.cards.numbers import CardNumber
from oresmith.release.cards.plots import CLUSTERS, FUNNEL, RATES, write_plots
from oresmith.release.cards.provenance import statement
from oresmith.release.cards.sources import (
    DATASET_CARDS,
    EVAL_RESULTS,
    MODEL_CARD,
    NUMBERS,
    PROVENANCE,
    REPORT,
    in_project,
)
from oresmith.release.cards.values import Values
from oresmith.release.cards.writer import Writer
from oresmith.release.layout import DATASET, MODEL, RELEASES
from oresmith.validation.versions import parse_version

CROISSANT, FIGURES = "croissant.json", "figures"
EVAL_RESULT = f"{EVAL_RESULTS}/heldout.yaml"
KEYS = Path("data/audit/certificate/keys.tsv")


class _Project(NamedTuple):
    """What the cards of one project are made from."""

    params: Params
    root: Path
    dataset: Values
    model: Values
    provenance: Mapping[str, Any]
    figures: Path


def make_cards(params: Params, out: Path, root: Path = Path()) -> list[CardNumber]:
    """Write every file of data/cards/ but the manifest.

    Args:
        params: of the project.
        out: an empty folder.
        root: the project, whose stages have run.

    Returns:
        The numbers of all cards.

    Raises:
        OresmithError: an output of an earlier stage is missing or of another shape, or a package of an extra is.
    """
    told = statement(params, root)
    (out / PROVENANCE).write_bytes(encoded(told))
    project = _opened(params, root, out, told)
    (out / FIGURES).mkdir()
    _draw(project)
    licences = _licences(project)
    files = certificate_of(project.dataset)["files"]
    (out / CROISSANT).write_bytes(encoded(croissant(params, splits(params, project.dataset), files, licences)))
    numbers = [*_dataset_card(project, out), *_changelog(project, out), *_model_card(project, out)]
    writer = Writer(REPORT, project.dataset)
    (out / REPORT).write_text(_report(writer, project, {}), "utf-8")
    numbers += writer.listed
    (out / NUMBERS).write_bytes(encoded(numbers))
    wrong = check_made(params, root, out).wrong
    if wrong:
        raise OresmithError(
            "a number of the cards does not come from its file",
            where=f"{wrong[0].card}, {wrong[0].where}",
            got=f"{wrong[0].what}; {len(wrong)} in all",
            todo="nothing was published; this is a fault of stage cards: report it with these lines",
        )
    return numbers


def report(params: Params, out: Path, root: Path = Path()) -> None:
    """Write the report as one page that needs no network, with what was measured beside the run (data/observed/).

    Args:
        params: of the project.
        out: the file; its folder is there.
        root: the project, whose stage cards has run.

    Raises:
        OresmithError: as `make_cards`.
    """
    cards = root / "data/cards"
    if not (cards / PROVENANCE).is_file():
        raise OresmithError("there are no cards yet", where=str(cards), todo="run `dvc repro`")
    told = msgspec.json.decode((cards / PROVENANCE).read_bytes())
    project = _opened(params, root, cards, told)
    out.write_text(_report(Writer(REPORT, project.dataset), project, _observed(root)), "utf-8")


def encoded(value: object) -> bytes:
    """Indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def _opened(params: Params, root: Path, folder: Path, told: Mapping[str, Any]) -> _Project:
    dataset, model = (Values(in_project(params, root, kind, folder)) for kind in (DATASET, MODEL))
    return _Project(params, root, dataset, model, told, folder / FIGURES)


def _draw(project: _Project) -> None:
    values = project.dataset
    scores = {entry.name: values.document(f"scores/{entry.name}.json") for entry in project.params.models}
    write_plots(project.figures, values.document("funnel.json"), scores, project.root / KEYS)


def _licences(project: _Project) -> list[str]:
    context = dataset_context(project.params, project.dataset, project.provenance)
    return [licence for licence in context["licences"] if licence]


def _dataset_card(project: _Project, out: Path) -> list[CardNumber]:
    params, values = project.params, project.dataset
    card = DATASET_CARDS[0]
    writer = Writer(card, values)
    front = dataset_front_matter(params, splits(params, values), writer.numbers, values)
    context = shared_context(params, values) | dataset_context(params, values, project.provenance)
    (out / card).write_text(writer.markdown("dataset.md.jinja", context, front), "utf-8")
    return writer.listed


def _model_card(project: _Project, out: Path) -> list[CardNumber]:
    params = project.params
    result = Writer(EVAL_RESULT, project.model)
    (out / EVAL_RESULTS).mkdir()
    (out / EVAL_RESULT).write_text(eval_result(params, result.numbers), "utf-8")
    writer = Writer(MODEL_CARD, project.model)
    context = shared_context(params, project.dataset) | model_context(params, project.model, project.root)
    front = model_front_matter(params, _base(params), writer.numbers)
    text = writer.markdown("model.md.jinja", context, front, beside=result.listed)
    (out / MODEL_CARD).write_text(text, "utf-8")
    return [*writer.listed, *result.listed]


def _base(params: Params) -> str | None:
    """The Hub's name of the start model; None where it has none there."""
    name, found, _ = params.base.model.partition("@")
    return name.removeprefix("hub:") if found and name.startswith("hub:") else None


def _changelog(project: _Project, out: Path) -> list[CardNumber]:
    params, values = project.params, project.dataset
    card = DATASET_CARDS[1]
    writer = Writer(card, values)
    context = shared_context(params, values) | {
        "version": values.document("validation.json")["version"],
        "shapes": shapes(params, values),
    }
    earlier = _earlier(project.root / RELEASES, params.release.version)
    (out / card).write_text(writer.markdown("changelog.md.jinja", context, after=earlier), "utf-8")
    return writer.listed


def _earlier(releases: Path, version: str) -> str:
    """What the newest earlier release's changelog says, which holds all before it; empty for the first."""
    found = []
    for path in sorted([*releases.glob("*/CHANGELOG.md"), *releases.glob("*/changelog.md")]):
        try:
            number = parse_version(path.parent.name)
        except OresmithError:
            continue
        if number < parse_version(version):
            found.append((number, path))
    if not found:
        return ""
    path = max(found)[1]
    try:
        body = split_footer(path.read_text("utf-8"))[0]
    except (OSError, UnicodeDecodeError) as error:
        raise OresmithError("a changelog cannot be read", where=str(path), got=str(error)[:200]) from error
    lines = [line for line in body.split("\n")[1:] if line != EARLIER]
    return f"\n{EARLIER}\n" + "\n".join(lines)


def _report(writer: Writer, project: _Project, observed: Mapping[str, Any]) -> str:
    params, values = project.params, project.dataset
    names = {"funnel": FUNNEL, "clusters": CLUSTERS, "asr": RATES}
    context = (
        shared_context(params, values)
        | dataset_context(params, values, project.provenance)
        | {"pairs": pairs(values), "observed": observed}
        | {"figures": {name: (project.figures / file).read_bytes() for name, file in names.items()}}
    )
    return writer.html("report.html.jinja", context)


def _observed(root: Path) -> dict[str, Any]:
    found = {}
    for path in sorted((root / "data/observed").glob("*.json")):
        try:
            told = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        except (OSError, msgspec.MsgspecError) as error:
            raise OresmithError("observed facts cannot be read", where=str(path), got=str(error)[:200]) from error
        found[path.stem] = {name: value for name, value in told.items() if isinstance(value, int | float | str)}
    return found
