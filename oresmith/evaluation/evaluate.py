"""A model's rollouts as one directory, all or nothing, with everything named that a comparison must find equal."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from oresmith.arena.documents import read_documents
from oresmith.arena.search import Searcher, index_of
from oresmith.arena.tools import Toolbox
from oresmith.arena.toolschema import schema_sha256, schema_version, tools
from oresmith.arena.views import view_sha256
from oresmith.blocks.atomic import load_manifest, stage_output
from oresmith.evaluation.episode import Setup
from oresmith.evaluation.harness import HARNESS, Tally, play
from oresmith.evaluation.journal import digest_of, open_journal
from oresmith.evaluation.meter import meter
from oresmith.evaluation.problems import Chosen, problem_set_sha256, problems_of_file
from oresmith.evaluation.prompts import prompt_sha256, system_prompt
from oresmith.evaluation.records import ROLLOUT_SCHEMA, Engine, Sampling
from oresmith.evaluation.writing import Writer
from oresmith.param_models import Rollout as Settings
from oresmith.records import Record
from oresmith.stage import write_small

COMPARED = ("harness", "prompt", "tools", "view", "problems", "shops", "sampling", "limits")
"""Keys of a configuration that two models' must agree in before their scores are compared."""


class Evaluated(NamedTuple):
    """What a run came to."""

    target: Path
    tally: Tally
    configuration: dict[str, Any]


def evaluate(
    engine: Engine,
    problems: Path,
    catalogue: Path,
    out: Path,
    *,
    name: str,
    settings: Settings,
    quiet: bool = False,
) -> Evaluated:
    """Play anybody's problems in anybody's catalogue.

    Args:
        engine: the model.
        problems: problem file: suite JSON, suite-form JSON lines, or ShoppingBench's test files.
        catalogue: product documents (JSON lines, plain or packed), or a directory that `build_index` made of them.
        out: directory to write, as `publish` does; an earlier output is replaced, anything else is refused.
        name: of the model; part of its seeds.
        settings: as the namespace `rollout`; of `problems` the limit counts, `pool` and engine do not.
        quiet: without progress.

    Raises:
        OresmithError: unreadable inputs, no problem, an engine that fails, or an output that cannot be written.
    """
    chosen = problems_of_file(problems, settings.problems)
    with Searcher.open(catalogue) if catalogue.is_dir() else index_of(read_documents(catalogue)) as shop:
        observed = out.with_name(f"{out.name}.observed.json")
        return publish(
            engine, chosen, {"": shop}, out, name=name, settings=settings, lock=out.name, observed=observed, quiet=quiet
        )


def publish(
    engine: Engine,
    chosen: Chosen,
    shops: Mapping[str, Searcher],
    target: Path,
    *,
    name: str,
    settings: Settings,
    lock: str,
    observed: Path,
    quiet: bool = False,
) -> Evaluated:
    """Play the chosen problems and publish the rollouts whole; a run that was killed goes on where it was.

    Args:
        engine: the model; the caller closes it.
        chosen: problems, in the order of play.
        shops: open indexes, by the shops of the cases.
        target: output directory (`writing`); finished samples wait in `.NAME.journal` beside it until it stands.
        name: of the model.
        settings: how it plays.
        lock: name of the lock file beside the target.
        observed: file that takes the facts of this run.
        quiet: without progress.

    Raises:
        OresmithError: the engine fails, or another run writes the same output. What was finished stays.
    """
    setup = setup_of(engine, name, settings)
    configuration = configuration_of(engine, chosen, shops, setup, settings)
    toolboxes = {shop: Toolbox(searcher) for shop, searcher in shops.items()}
    with ExitStack() as stack:
        staged = stack.enter_context(
            stage_output(target, lock, schema=ROLLOUT_SCHEMA, params=configuration, observed=observed)
        )
        digest = run_digest(configuration, chosen)
        journal = stack.enter_context(open_journal(target.with_name(f".{target.name}.journal"), digest))
        with meter(name, quiet=quiet) as watch:
            tally = play(
                engine,
                chosen.cases,
                settings.samples,
                setup=setup,
                toolboxes=toolboxes,
                journal=journal,
                batch=settings.batch,
                watch=watch,
            )
        writer = Writer(staged.path, name, digest, setup.tools)
        staged.rows |= writer.write(chosen.cases, settings.samples, journal)
    journal.remove()  # only now does the output stand
    _observe(observed, tally)
    return Evaluated(target, tally, configuration)


def setup_of(engine: Engine, name: str, settings: Settings) -> Setup:
    """What all episodes share.

    Raises:
        OresmithError: no such prompt or view.
    """
    view_sha256(settings.view)
    return Setup(
        model=name,
        system=system_prompt(settings.prompt),
        tools=tools(),
        view=settings.view,
        sampling=Sampling(
            temperature=settings.temperature, top_p=settings.top_p, max_new_tokens=settings.max_new_tokens
        ),
        context=min(engine.context, settings.max_context or engine.context),
        max_turns=settings.max_turns,
        max_malformed=settings.max_malformed,
        seed=settings.seed,
    )


def configuration_of(
    engine: Engine, chosen: Chosen, shops: Mapping[str, Searcher], setup: Setup, settings: Settings
) -> dict[str, Any]:
    """Everything that the rollouts depend on, as JSON values: the `params` of their manifest.

    Keys: `harness`; `model` (name, and what the engine says of itself: files, template, dtype); `prompt`, `tools`,
    `view` (id, sha256); `problems` (pool, count, sha256 of the set, left_out); `shops` (by snapshot: catalogue and
    index); `sampling`; `limits`; `context` (tokens, as played); `samples`; `seed`; `batch`.
    """
    return {
        "harness": HARNESS,
        "model": engine.identity() | {"name": setup.model},
        "prompt": {"id": settings.prompt, "sha256": prompt_sha256(settings.prompt)},
        "tools": {"id": schema_version(), "sha256": schema_sha256()},
        "view": {"id": setup.view, "sha256": view_sha256(setup.view)},
        "problems": {
            "pool": chosen.pool,
            "count": len(chosen.cases),
            "sha256": problem_set_sha256(chosen.cases),
            "left_out": chosen.left_out,
        },
        "shops": {shop: _shop(searcher) for shop, searcher in sorted(shops.items())},
        "sampling": _fields(setup.sampling),
        "limits": {
            "max_turns": setup.max_turns,
            "max_malformed": setup.max_malformed,
            "max_context": settings.max_context,
        },
        "context": setup.context,
        "samples": settings.samples,
        "seed": settings.seed,
        "batch": settings.batch,
    }


def run_digest(configuration: dict[str, Any], chosen: Chosen) -> str:
    """Names everything that the samples depend on, hex: `run_id` of their rows, and the journal's name.

    Args:
        configuration: as `configuration_of`.
        chosen: the problems, whose exact words and shops count, too.
    """
    return digest_of(configuration | {"asked": _asked(chosen)})


def load_configuration(folder: Path) -> dict[str, Any]:
    """The configuration of a set of rollouts, as `configuration_of` made it.

    Raises:
        OresmithError: no such output, or one that is not whole.
    """
    return dict(load_manifest(folder, ROLLOUT_SCHEMA)["params"])


def _fields(record: Record) -> dict[str, Any]:
    """All fields of a record, those that have their defaults, too."""
    return {name: getattr(record, name) for name in record.__struct_fields__}


def _shop(searcher: Searcher) -> dict[str, Any]:
    made = searcher.manifest
    return {
        "catalogue_sha256": made.catalogue_sha256,
        "documents": made.documents,
        "fields": made.fields,
        "engine": made.engine,
        "analyser": made.analyser,
        "depth": searcher.depth,
    }


def _asked(chosen: Chosen) -> list[tuple[str, str | None, str | None, str]]:
    """What the samples depend on beyond the set: the exact words, and the shop of each problem."""
    return sorted((case.name, case.problem.problem_id, case.problem.query, case.shop) for case in chosen.cases)


def _observe(path: Path, tally: Tally) -> None:
    """Add what this run did to the facts that `stage_output` observed of it."""
    facts = orjson.loads(path.read_bytes())
    seconds, played = facts["seconds"], tally.samples - tally.resumed
    facts |= _fields(tally) | {"samples_per_hour": round(played / seconds * 3600, 1) if seconds else None}
    write_small(
        path, orjson.dumps(facts, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
    )
