"""A run that was ended goes on: a kill costs the samples in flight, no byte depends on it, and nothing is mixed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.code_deps import ROOT
from tests.evaluation.scripted import SAMPLED, content, run, small_shop, the_expert


@pytest.mark.parametrize("stop", [1, 9, 25])
def test_an_interrupted_run_goes_on_where_it_was_and_ends_with_the_same_bytes(tmp_path: Path, stop: int):
    whole = the_expert()
    run(whole, tmp_path / "whole", batch=2, **SAMPLED)
    with pytest.raises(KeyboardInterrupt):
        run(the_expert(breaks=stop), tmp_path / "out", batch=2, **SAMPLED)
    assert not (tmp_path / "out").exists()
    rest = the_expert()
    done = run(rest, tmp_path / "out", batch=2, **SAMPLED)
    assert content(tmp_path / "out") == content(tmp_path / "whole")
    assert orjson.loads((tmp_path / "observed.json").read_bytes())["resumed"] == done.tally.resumed
    again = {request.key.rsplit("/", 1)[0] for request in rest.asked}
    assert len(again) == 21 - done.tally.resumed
    # What is played twice are the samples that were in flight.
    assert len(rest.asked) <= len(whole.asked) - stop + 2 * 12


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.evaluation.scripted import Scripted, expert, run, small_shop

shop, problems = small_shop()
answer = expert(problems, shop)

class Dying(Scripted):
    def chat(self, requests, sampling):
        if len(self.asked) >= 20:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().chat(requests, sampling)

run(Dying(answer, context=100_000), Path(sys.argv[1]), batch=2, temperature=0.7, samples=3)
"""


def test_a_kill_costs_no_more_than_the_samples_in_flight(tmp_path: Path):
    target = tmp_path / "out"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    died = subprocess.run([sys.executable, "-c", KILLED, str(target)], env=environment, timeout=120, check=False)
    assert died.returncode == -signal.SIGKILL
    assert not target.exists()
    finished: Counter[str] = Counter()
    whole = the_expert()
    run(whole, tmp_path / "whole", batch=2, **SAMPLED)
    for request in whole.asked[:20]:
        finished[request.key.rsplit("/", 1)[0]] += 1
    rest = the_expert()
    done = run(rest, target, batch=2, **SAMPLED)
    assert done.tally.resumed >= len(finished) - 2
    assert done.tally.resumed > 0
    assert content(target) == content(tmp_path / "whole")


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 2},
        {"temperature": 0.8},
        {"top_p": 0.9},
        {"samples": 2},
        {"max_turns": 11},
        {"max_malformed": 2},
        {"max_new_tokens": 99},
        {"max_context": 90_000},
        {"batch": 3},
        {"view": "raw/1"},
    ],
)
def test_nothing_of_another_configuration_is_taken_up(tmp_path: Path, changes: dict[str, Any]):
    with pytest.raises(KeyboardInterrupt):
        run(the_expert(breaks=12), tmp_path / "out", batch=2, **SAMPLED)
    done = run(the_expert(), tmp_path / "out", **({"batch": 2} | SAMPLED | changes))
    assert done.tally.resumed == 0


def test_nothing_of_another_model_or_other_problems_is_taken_up(tmp_path: Path):
    problems = small_shop()[1]
    for other in ({"engine": the_expert(says="scripted/2")}, {"problems": problems[1:]}):
        with pytest.raises(KeyboardInterrupt):
            run(the_expert(breaks=12), tmp_path / "out", batch=2, **SAMPLED)
        engine = other.pop("engine", the_expert())
        assert run(engine, tmp_path / "out", batch=2, **SAMPLED, **other).tally.resumed == 0
    with pytest.raises(KeyboardInterrupt):
        run(the_expert(breaks=12), tmp_path / "out", batch=2, **SAMPLED)
    assert run(the_expert(), tmp_path / "out", batch=2, **SAMPLED).tally.resumed > 0
