"""Commands about models: `oresmith evaluate`, `oresmith compare`. Each is a thin door to one module."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from oresmith.errors import OresmithError
from oresmith.stage import write_small

ProblemFile = typer.Option(help="problem file: suite JSON, suite-form JSONL or ShoppingBench's test files")
ProductFile = typer.Option(help="product documents (JSONL, .gz, .zst), or an index of `oresmith arena index`")


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(evaluate)
    app.command()(compare)


def evaluate(
    *,
    model: Annotated[str, typer.Argument(help="a model directory; with --url the server's name of the model")],
    problems: Annotated[Path, ProblemFile],
    catalogue: Annotated[Path, ProductFile],
    out: Annotated[Path, typer.Option(help="directory of the rollouts and scores; a killed run goes on from it")],
    k: Annotated[int, typer.Option(min=1, max=1024, help="samples of each problem")] = 1,
    temperature: Annotated[float | None, typer.Option(min=0, max=2, help="default: 0, or 0.7 for several")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="most problems, a subset by hash")] = None,
    batch: Annotated[int, typer.Option(min=1, max=4096, help="episodes at the same time")] = 16,
    url: Annotated[str | None, typer.Option(help="an OpenAI-compatible server")] = None,
    key_env: Annotated[str | None, typer.Option(help="the variable that holds its key")] = None,
    name: Annotated[str | None, typer.Option(help="what the scores call the model")] = None,
) -> None:
    """Let anybody's model play anybody's problems, score it strictly, and say how sure each number is."""
    from oresmith.evaluation.engines import open_engine
    from oresmith.evaluation.evaluate import evaluate as play
    from oresmith.evaluation.scored import publish_scores, score_folder
    from oresmith.evaluation.shown import print_scores
    from oresmith.param_models import Rollout
    from oresmith.params import check_params

    chosen: dict[str, Any] = {
        "samples": k,
        "temperature": (0.7 if k > 1 else 0.0) if temperature is None else temperature,
        "problems": limit,
        "batch": batch,
        "engine": "openai" if url else "transformers",
        "url": url,
        "served_model": model if url else None,
        "key_env": key_env,
    }
    settings: Rollout = check_params(chosen, "the command line", Rollout)
    if k > 1 and settings.temperature == 0:
        raise OresmithError("several greedy samples are one", where="--k with --temperature 0")
    called = name or Path(model).name
    with closing(open_engine(settings, called, None if url else Path(model))) as engine:
        play(engine, problems, catalogue, out / "rollouts", name=called, settings=settings)
    scored = score_folder(out / "rollouts", problems, catalogue)
    publish_scores(scored, out / "scores", lock="scores")
    print_scores(scored.scores)


def compare(
    first: Annotated[Path, typer.Argument(help="scores or rollouts: the base")],
    second: Annotated[Path, typer.Argument(help="scores or rollouts that are held against it")],
    *,
    problems: Annotated[Path | None, ProblemFile] = None,
    catalogue: Annotated[Path | None, ProductFile] = None,
    forced: Annotated[bool, typer.Option(help="although conditions differ; every number then says so")] = False,
    out: Annotated[Path | None, typer.Option(help="also write the comparison as JSON")] = None,
) -> None:
    """Compare two models on the same problems: paired tests with Holm's correction, and intervals."""
    import msgspec

    from oresmith.evaluation.comparing import compare_folders
    from oresmith.evaluation.scored import told
    from oresmith.evaluation.shown import print_comparisons

    found = compare_folders(first, second, forced=forced, problems=problems, catalogue=catalogue)
    if out is not None:
        write_small(out, msgspec.json.format(msgspec.json.encode(told(found)), indent=1) + b"\n")
    print_comparisons(found)
