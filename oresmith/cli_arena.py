"""`oresmith arena`: the world as commands. Each is a thin door to one module."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from oresmith.errors import OresmithError, shown

if TYPE_CHECKING:
    from oresmith.arena.documents import Document
    from oresmith.arena.search import Searcher

arena = typer.Typer(no_args_is_help=True, help="the embedded world: search, tools, problems, miners, server")
Seed = Annotated[int | None, typer.Option(min=0, help="of the embedded world; 1 by default")]
Size = Annotated[int | None, typer.Option(min=1, help="products of the embedded world; 20,000 by default")]
SEED, PRODUCTS = 1, 20_000
Given = Annotated[
    list[Path] | None, typer.Option(help="product documents (JSONL, .gz, .zst) in place of the embedded world")
]
Index = Annotated[Path | None, typer.Option(help="an index that `oresmith arena index` made, in place of both")]


@arena.command()
def index(
    out: Annotated[Path, typer.Option(help="directory of the index; appears whole or not at all")],
    catalogue: Given = None,
    seed: Seed = None,
    products: Size = None,
    fields: Annotated[list[str] | None, typer.Option(help="what is searched; may be given again")] = None,
) -> None:
    """Index a catalogue for search (BM25, on disk, memory-mapped)."""
    from oresmith.arena.search import DEFAULT_FIELDS, build_index

    manifest = build_index(_documents(catalogue, seed, products), out, fields=tuple(fields or DEFAULT_FIELDS))
    print(f"{manifest.documents:,} products in {out}, searched by {', '.join(manifest.fields)}")


@arena.command()
def catalogue(
    out: Annotated[Path, typer.Option(help="product documents, JSON lines; appears whole or not at all")],
    seed: Seed = None,
    products: Size = None,
) -> None:
    """Write the embedded world's product documents, for whatever wants a catalogue as a file."""
    import msgspec

    from oresmith.stage import write_small

    lines = (msgspec.json.encode(document) + b"\n" for document in _documents(None, seed, products))
    write_small(out, b"".join(lines))
    print(f"{products:,} products in {out}")


@arena.command()
def serve(
    *,
    log: Annotated[Path, typer.Option(help="the server's own request log; keep it where agents cannot write")],
    index: Index = None,
    catalogue: Given = None,
    seed: Seed = None,
    products: Size = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="on 127.0.0.1; 0 takes a free one")] = 8931,
    upstream: Annotated[str | None, typer.Option(help="OpenAI-compatible server for inference; none echoes")] = None,
    replies: Annotated[Path | None, typer.Option(help="script for inference: a JSON list of texts")] = None,
    model: Annotated[str | None, typer.Option(help="asked of the upstream whatever the agent asks for")] = None,
    admin_token_file: Annotated[Path | None, typer.Option(help="or ORESMITH_ADMIN_TOKEN: opens sessions")] = None,
    inference_key_file: Annotated[Path | None, typer.Option(help="or ORESMITH_INFERENCE_KEY")] = None,
    upstream_key_file: Annotated[Path | None, typer.Option(help="or ORESMITH_UPSTREAM_KEY")] = None,
) -> None:
    """Serve search, tools and inference as SN15's sandbox proxy does, on 127.0.0.1."""
    from oresmith.arena.server.config import Secret, ServeConfig, Upstream
    from oresmith.arena.server.run import serve as run
    from oresmith.arena.server.scripted import read_script

    answers: Any = "echo" if replies is None else read_script(replies)
    if upstream is not None:
        if replies is not None:
            raise OresmithError("inference is answered by one or the other", where="--upstream with --replies")
        key = Secret(env="ORESMITH_UPSTREAM_KEY", file=upstream_key_file)
        answers = Upstream(url=upstream, model=model, key=key)
    config = ServeConfig(
        log=log,
        port=port,
        model=answers,
        admin_token=Secret(env="ORESMITH_ADMIN_TOKEN", file=admin_token_file),
        inference_key=Secret(env="ORESMITH_INFERENCE_KEY", file=inference_key_file),
    )
    with _shop(index, catalogue, seed, products) as shop:
        run(shop, config, ready=lambda url: print(f"{len(shop):,} products at {url}; ctrl-c ends it", flush=True))


@arena.command()
def describe(
    *,
    catalogue: Given = None,
    problems: Annotated[list[Path] | None, typer.Option(help="a suite's problems: their rewards and ranks")] = None,
    seed: Seed = None,
    products: Size = None,
    beside: Annotated[Path | None, typer.Option(help="product documents of another shop to compare with")] = None,
    beside_problems: Annotated[Path | None, typer.Option(help="the other shop's problems")] = None,
) -> None:
    """Show how believable a world is: medians beside those of the real catalogue, or of one that you name."""
    from oresmith.arena.believable import REFERENCE, believable, compare, medians
    from oresmith.arena.problems import load_problems

    if beside_problems is not None and beside is None:
        raise OresmithError("problems alone say nothing of ranks", where="--beside-problems", todo="give --beside too")
    with _shop(None, catalogue, seed, products) as shop:
        ours = believable(shop.documents(), load_problems(*problems) if problems else (), shop if problems else None)
    theirs = REFERENCE
    if beside is not None:
        with _shop(None, [beside], seed, products) as other:
            asked = load_problems(beside_problems) if beside_problems else ()
            theirs = medians(believable(other.documents(), asked, other if beside_problems else None))
    table = Table("median of", "here", "there", "ratio", "within a factor of 2")
    for row in compare(medians(ours), theirs):
        figures = (f"{value:.4g}" for value in (row.ours, row.theirs, row.ratio))
        table.add_row(row.name, *figures, "yes" if row.believable else "no")
    Console().print(table)


@arena.command()
def suite(
    definition: Annotated[Path, typer.Argument(help="a suite's YAML")],
    out: Annotated[Path, typer.Option(help="problems in suite form, JSON lines")],
    catalogue: Given = None,
    seed: Seed = None,
    products: Size = None,
) -> None:
    """Make the problems of a suite, and show how far policies come that take the first or a random hit."""
    from oresmith.arena.suites import suite_jsonl
    from oresmith.recording import suite_of
    from oresmith.stage import write_small

    with _shop(None, catalogue, seed, products) as shop:
        made = suite_of(definition, shop, SEED if seed is None else seed)
    write_small(out, suite_jsonl(made))
    table = Table("level", "policy", "succeeds")
    for level, shares in made.report["baselines"].items():
        for policy, share in shares.items():
            table.add_row(level, policy, f"{share:.3f}")
    Console().print(table)
    print(f"{len(made.problems)} problems of {made.report['clusters']} clusters in {out}")


@arena.command()
def check(
    problems: Annotated[Path, typer.Argument(help="suite JSON, suite-form JSONL or ShoppingBench's test files")],
    catalogue: Annotated[list[Path], typer.Option(help="product documents (JSONL, .gz, .zst)")],
) -> None:
    """Check a suite against its catalogue: rewards that nothing satisfies, wrong vouchers. Leaves with 1 on a fault."""
    from oresmith.arena.catalogue import load_catalogue
    from oresmith.arena.problems import gold_ids, load_problems
    from oresmith.arena.suites import check_suite

    index = load_problems(problems)
    golds = {gold for problem in index for gold in gold_ids(problem)}
    found = check_suite(index, load_catalogue(*catalogue, only=golds))
    print(
        f"{found.checked:,} problems checked, {found.queries_twice:,} share a query, {found.unstated:,} rewards "
        f"state no constraint"
    )
    for fault, count in found.faults.most_common():
        Console().print(Text(f"{count:,} {fault}: " + "; ".join(map(shown, found.places[fault]))))
    if found.faults:
        raise typer.Exit(1)


@arena.command()
def record(
    snapshot: Annotated[str, typer.Argument(help="name of an entry of source arena in params.yaml")],
    out: Annotated[Path, typer.Option(help="directory to make")],
) -> None:
    """Play an entry's days into a directory: traces, problems, catalogue, provenance file, and the truth about them."""
    from oresmith.params import load_params
    from oresmith.recording import record as run
    from oresmith.stage import selected, workers

    params = load_params()
    entry = selected(params, snapshot)
    if entry.source != "arena":
        raise OresmithError("this snapshot is not played but given", where=f"snapshot {snapshot}", got=entry.source)
    if out.exists():
        raise OresmithError("there is something already", where=str(out), todo="name a new directory")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as folder:
        scratch = Path(folder)
        run(entry, scratch / "made", workers=workers(params), scratch=scratch / "play").rename(out)
    print(f"snapshot {snapshot} in {out}")


@contextmanager
def _shop(
    index: Path | None, catalogue: list[Path] | None, seed: int | None, products: int | None
) -> Iterator[Searcher]:
    """The search over an index, a catalogue or the embedded world; an index of our own goes away at the end."""
    from oresmith.arena.search import Searcher, index_of

    if index is not None:
        if (catalogue, seed, products) != (None, None, None):
            raise OresmithError("an index has its own products", where="--index with --catalogue, --seed or --products")
        with Searcher.open(index) as shop:
            yield shop
        return
    with index_of(_documents(catalogue, seed, products)) as shop:
        yield shop


def _documents(catalogue: list[Path] | None, seed: int | None, products: int | None) -> Iterator[Document]:
    if catalogue is not None:
        if products is not None:
            raise OresmithError("a catalogue has the products that it has", where="--catalogue with --products")
        return _read(catalogue)
    from oresmith.arena.world import documents

    return documents(SEED if seed is None else seed, products or PRODUCTS)


def _read(catalogue: list[Path]) -> Iterator[Document]:
    from oresmith.arena.documents import Reading, read_documents

    reading = Reading()
    yield from read_documents(*catalogue, reading=reading)
    for reason, count in sorted(reading.rejected.items()):
        where = shown(", ".join(reading.places[reason]))
        print(f"catalogue: {count:,} lines rejected as {reason}: {where}")
