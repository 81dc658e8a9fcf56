"""Stage `validate`: the corpus is held against its contracts, its sources and the Hub's limits, and no line is lost.

Reads data/corpus/, data/normalize/*/, data/evidence/*/table/, data/gate/, data/cluster/, data/split/,
data/audit/certificate/ and releases/. Nothing is repaired: the first broken contract stops the pipeline with numbers.
Writes data/validate/ (validation.json, funnel.json, gx/result.json, report.html), metrics/validate.json and
plots/{corpus_funnel,pools,categories,tokens,cluster_sizes}.csv.
Exit codes: 0, 2 for a refusal.
Example: python -m stages.validate
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import polars as pl

from oresmith.blocks.atomic import Staged, load_manifest, stage_output
from oresmith.blocks.lifeline import end_with_parent
from oresmith.corpus.account import CorpusReport, sentences
from oresmith.corpus.problems import read_problems
from oresmith.errors import OresmithError
from oresmith.params import Params, load_params
from oresmith.reasons import SENTENCES
from oresmith.stage import DATA, guarded, write_metrics, write_plot, write_small
from oresmith.validation import figures
from oresmith.validation.checks import (
    Tables,
    check_agreement,
    check_certificate,
    check_configs,
    check_loading,
    check_sources,
)
from oresmith.validation.funnel import Funnel, full_funnel
from oresmith.validation.held import Held
from oresmith.validation.inputs import placed_rows, read_corpus_report, read_decided
from oresmith.validation.layout import check_files
from oresmith.validation.page import ConfigShape, Page, render
from oresmith.validation.versions import version_sentence, version_step
from schemas.corpus import CORPUS_SCHEMA
from schemas.gx import Bounds, Outcome, run_checkpoint, suites

VALIDATION_SCHEMA = "oresmith.validation/1"
CORPUS = DATA / "corpus"
CERTIFICATE = DATA / "audit" / "certificate"
RELEASES = Path("releases")


def run(params: Params) -> Page:
    """Check everything, then publish what was found."""
    names = [entry.name for entry in params.snapshots]
    with stage_output(
        DATA / "validate", "validate", schema=VALIDATION_SCHEMA, observed=DATA / "observed" / "validate.json"
    ) as staged:
        load_manifest(CORPUS, CORPUS_SCHEMA)
        held = check_sources(DATA)
        problems = read_problems(DATA)
        splits = check_files(CORPUS)
        tables, rows_hold = check_configs(CORPUS, params.corpus.max_row_bytes)
        decided = read_decided(DATA, problems)
        held += [*rows_hold, *check_agreement(DATA, params, tables, problems, decided)]
        report = read_corpus_report(CORPUS)
        funnel = full_funnel(placed_rows(DATA, names, decided, tables, report))
        held.append(Held("oresmith.check.funnel/1", "all files", "each line stands in one place", funnel.read))
        held.append(check_certificate(CERTIFICATE / "keys.tsv", splits))
        held += check_loading(CORPUS, splits, staged.scratch / "datasets")
        outcome = expectations(params, staged, tables, problems, funnel)
        page = make_page(
            funnel,
            told=notes(report, tables),
            shapes=figures.config_shapes(splits, tables, decided, problems),
            held=held,
            outcome=outcome,
            problems=figures.in_components(problems, DATA),
            attempts=tables["trajectories"],
        )
        write(staged, page)
    publish(page)
    return page


def expectations(params: Params, staged: Staged, tables: Tables, problems: pl.DataFrame, funnel: Funnel) -> Outcome:
    """Run the suites; the result is kept also where they fail."""
    gate = params.gate
    passing = ["success", "failure"] if gate.outcome == "any" else ["success"]
    bounds = Bounds(
        rows=funnel.read,
        problems=problems.height,
        max_tokens=gate.max_tokens,
        origins=gate.origin,
        provenance=gate.provenance,
        pools=["train", "dev", *sorted(problems.filter("trainable")["pool"].unique())],
        outcomes=[*passing, "unknown"] if gate.outcome == "any" or gate.outcome_missing == "pass" else passing,
    )
    outcome = run_checkpoint(figures.gx_frames(tables), suites(bounds))
    (staged.path / "gx").mkdir()
    for folder in (staged.path / "gx", staged.scratch):
        (folder / "result.json").write_bytes(encoded(outcome.result))
    write_small(DATA / "observed" / "validate-gx.json", encoded(outcome.observed))
    if not outcome.success:
        raise OresmithError(
            "the corpus does not meet its expectations",
            where=str(CORPUS),
            got="; ".join(outcome.failures[:5]),
            expected=f"all of them; {len(outcome.failures)} fail",
            todo=f"see {staged.scratch / 'result.json'}; nothing was published",
        )
    return outcome


def notes(report: CorpusReport, tables: Tables) -> list[str]:
    """What a reader must not miss."""
    told = [] if report.trained else [line.strip() for line in sentences(report)[1:]]
    flagged = int(tables["trajectories"]["benchmark_flag"].sum())
    if flagged:
        told.append(
            f"{flagged} trajectories are of public benchmark problems that the parameters allow; each is flagged"
        )
    return told


def make_page(
    funnel: Funnel,
    *,
    told: list[str],
    shapes: list[ConfigShape],
    held: list[Held],
    outcome: Outcome,
    problems: pl.DataFrame,
    attempts: pl.DataFrame,
) -> Page:
    """Everything that the report and the metrics show."""
    return Page(
        funnel=funnel,
        notes=told,
        sentences=SENTENCES,
        configs=shapes,
        contracts=held,
        gx=outcome.result,
        pools=figures.spread(problems["use"]),
        categories=figures.spread(attempts["category"]),
        cluster_sizes=figures.cluster_sizes(problems),
        tokens=figures.token_bins(attempts["tokens"]),
        largest=figures.largest_clusters(problems),
        version=version_step(RELEASES, CERTIFICATE),
        certificate=hashlib.sha256((CERTIFICATE / "certificate.json").read_bytes()).hexdigest(),
    )


def write(staged: Staged, page: Page) -> None:
    """The files of the output."""
    told = {
        "schema": VALIDATION_SCHEMA,
        "valid": True,
        "configs": page.configs,
        "contracts": page.contracts,
        "notes": page.notes,
        "version": page.version,
        "certificate_sha256": page.certificate,
    }
    (staged.path / "validation.json").write_bytes(encoded(told))
    (staged.path / "funnel.json").write_bytes(encoded(page.funnel))
    (staged.path / "report.html").write_text(render(page), "utf-8")


def publish(page: Page) -> None:
    """Metrics and plots."""
    write_metrics("validate", figures.metrics(page))
    for name, column, bars in (
        ("corpus_funnel", "place", page.places),
        ("pools", "pool", page.pools),
        ("categories", "category", page.categories),
        ("tokens", "tokens", page.tokens),
        ("cluster_sizes", "problems", page.cluster_sizes),
    ):
        write_plot(name, [column, "count"], list(bars))


def encoded(value: object) -> bytes:
    """Indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def main() -> None:
    """Check all parameters, then the corpus."""
    end_with_parent()
    params = load_params()
    page = run(params)
    sentence = version_sentence(page.version, params.release.version)
    print(f"validate: {page.funnel.read} lines accounted for, {len(page.contracts)} contracts hold")
    for note in [*page.notes, *filter(None, [sentence])]:
        print(f"  {note}")


if __name__ == "__main__":
    guarded(main)
