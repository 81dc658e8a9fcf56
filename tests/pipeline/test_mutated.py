"""Mutated lines never crash a stage and are all accounted for."""

import json
import random

import polars as pl
import pytest

from tests.pipeline.project import Project
from tests.worlds import careless, crashed, envelope_line, honest, make_world, searcher

EDGES = [
    b"\x00",
    b"\xff",
    b"\xed\xa0\x80",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b"null",
    b"NaN",
    b"1e999",
    b"\n",
    b",",
    b":",
]


def seeds():
    """Lines to mutate: one of each family."""
    world = make_world(11)
    problems = list(world.problems.values())
    cases = [honest(world, problems[0], 1), searcher(world, problems[1], 1), crashed("timeout", problems[2])]
    cases += [careless(kind, world, problems[3], 1) for kind in ("unpaired", "think_number")]
    return [envelope_line(case.envelope) for case in cases]


def byte_level(line, rng):
    """A few bytes deleted, doubled, replaced or inserted."""
    data = bytearray(line)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(4):
            case 0:
                del data[place : place + rng.randint(1, 40)]
            case 1:
                data[place:place] = data[place : place + rng.randint(1, 40)]
            case 2:
                data[place : place + 1] = bytes([rng.randrange(256)])
            case _:
                data[place:place] = rng.choice(EDGES)
    return bytes(data)


def value_level(value, rng):
    """One value somewhere in the tree replaced by one of another kind; the line stays JSON."""
    if rng.random() < 0.15 or not isinstance(value, dict | list) or not value:
        return rng.choice(
            [None, True, 0, -1, 1.5, "", "x" * 50, [], {}, [[]], {"": None}, "\u202e", 2**63, "\ud83d\ude00"]
        )
    key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
    copy = dict(value) if isinstance(value, dict) else list(value)
    if rng.random() < 0.1:
        del copy[key]
    else:
        copy[key] = value_level(value[key], rng)
    return copy


def mutated(count, seed):
    rng = random.Random(seed)
    lines = seeds()
    for number in range(count):
        line = rng.choice(lines)
        yield byte_level(line, rng) if number % 2 else json.dumps(value_level(json.loads(line), rng)).encode()


def survive(tmp_path, count):
    """Run normalize to gate over mutated lines; every line must be in exactly one place."""
    lines = [*mutated(count, 5), seeds()[0]]
    body = b"".join(line + b"\n" for line in lines)
    project = Project(tmp_path)
    project.add_lines("mutated", {"a.jsonl": body})
    project.write_params(evidence={"tokenizer": "none"})
    project.run()
    read = body.count(b"\n")
    normalize = json.loads((tmp_path / "data/normalize/mutated/report.json").read_text())
    gate = json.loads((tmp_path / "data/gate/report.json").read_text())
    assert normalize["read"] == read
    rejects = [json.loads(line) for path in (tmp_path / "data").rglob("rejects/*.jsonl") for line in path.open("rb")]
    kept = pl.read_parquet(tmp_path / "data/gate/decisions.parquet")
    places = [line["source"]["line"] for line in rejects] + kept["line"].to_list()
    assert sorted(places) == list(range(1, read + 1))
    assert gate["read"] == normalize["kept"] == kept.height


def test_a_thousand_mutated_lines(tmp_path):
    survive(tmp_path, 1_000)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_mutated_lines(tmp_path):
    survive(tmp_path, 100_000)
