"""The stage `teacher`: who plays, which of it is trained on and how often, what it costs, and an endpoint that dies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oresmith.arena.miners.agents import make_teacher
from oresmith.arena.miners.brief import brief_of
from oresmith.arena.server.config import Secret
from oresmith.arena.tools import Toolbox
from oresmith.errors import OresmithError
from oresmith.evaluation.engines.remote import OpenAIEngine
from oresmith.evaluation.episode import Episode, seed_of
from oresmith.evaluation.evaluate import setup_of
from oresmith.evaluation.problems import Case
from oresmith.evaluation.records import Engine
from oresmith.models.replies import parse_reply
from oresmith.param_models import Rollout
from oresmith.params import Params, load_params
from oresmith.records import Problem
from oresmith.training.expert import Expert, without_brief
from oresmith.training.manifest import read_rows
from oresmith.training.rowset import RowSet
from oresmith.training.sampled import Source, train_problems
from oresmith.training.step import OpenStep
from oresmith.training.teacher import rollout_settings
from oresmith.training.trained import read_training
from stages import index, teacher
from stages.score import catalogue_of
from tests.evaluation.fake_openai import FakeOpenAI, completion, serving
from tests.evaluation.scripted import small_shop
from tests.pipeline.project import Project
from tests.training.players import TRAIN_STEP, Player, StopBeforeTrainingError, content, train_cases
from tests.training.project import SNAPSHOT, copied, inside

OUT, SAMPLED = Path("data/teacher"), Path("data/.teacher.sampled")


@pytest.fixture(scope="module")
def shop(certified: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The certified project with its shop. Not to be changed."""
    made = copied(certified, tmp_path_factory.mktemp("shop"))
    made.write_params(rollout={"batch": 4, "max_context": 4096}, teacher=TRAIN_STEP)
    with inside(made):
        index.run(load_params(), SNAPSHOT)
    return made


@pytest.fixture
def project(shop: Project, tmp_path: Path) -> Iterator[Project]:
    """A copy of it that is the working directory."""
    made = copied(shop, tmp_path / "project")
    with inside(made):
        yield made


def params_of(made: Project, **changes: Any) -> Params:
    made.write_params(teacher=changes)
    return load_params()


def played(params: Params, engines: Callable[..., Engine] | None = None) -> None:
    """Run the stage until it would train."""
    with pytest.raises(StopBeforeTrainingError):
        if engines is None:
            teacher.run(params, quiet=True)
        else:
            teacher.run(params, engines, quiet=True)


def asking(fake: FakeOpenAI) -> Callable[[Rollout, str, Path | None], Engine]:
    """Opens an engine that gives up at once."""

    def engines(settings: Rollout, name: str, model: Path | None) -> Engine:
        assert (settings.engine, settings.url, model) == ("openai", fake.url, None)
        return OpenAIEngine(fake.url, "m", key=Secret(), batch=2, retries=0)

    return engines


class Shopping:
    """A server whose model plays as the terse policy does, and can refuse or fail from some request on."""

    def __init__(self, dies_after: int | None = None, refuses: Callable[[str], bool] = lambda query: False) -> None:
        self.player, self.dies_after, self.refuses, self.asked = Player(), dies_after, refuses, 0
        self.names = {case.problem.query: case.name for case in train_cases()}

    def __call__(self, body: dict[str, Any]) -> Any:
        self.asked += 1
        if self.dies_after is not None and self.asked > self.dies_after:
            return 500, b"{}"
        query = body["messages"][1]["content"]
        if self.refuses(query):
            return completion("I cannot help with that.")
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        request = type("Asked", (), {"key": f"{self.names[query]}/0/{turn}"})
        return completion(self.player.chat([request()], None)[0].text)  # type: ignore[list-item, arg-type]


def test_the_embedded_teachers_successes_are_trained_on(project: Project):
    done = teacher.run(params_of(project, oversample={"voucher": 3}), quiet=True)
    assert done is not None
    training = read_training(OUT)
    assert training is not None
    assert training.extra["teacher"] == json.loads(json.dumps(done))
    chosen = done["selection"]
    assert done["teacher"]["engine"] == "expert"
    assert chosen["sampled"] == chosen["successes"] == len(train_cases())
    assert chosen["sampled"] == chosen["kept"] + sum(chosen["dropped"].values())
    assert done["cost"]["requests"] >= 3 * chosen["sampled"]
    assert done["refusals"] == 0
    rows = Counter((row.category, row.row_id, row.turn) for row in read_rows(OUT))
    assert {category: {rows[key] for key in rows if key[0] == category} for category, _, _ in rows} == {
        "product": {1},
        "shop": {1},
        "voucher": {3},
    }
    assert training.rows["origins"] == {"teacher": sum(done["rows_by_category"].values())}
    assert {"rollouts", "score", "model", "adapter"} <= {path.name for path in OUT.iterdir()}
    metrics = json.loads(Path("metrics/teacher.json").read_bytes())
    assert (metrics["cost"], metrics["refusals"]) == (done["cost"], 0)
    observed = json.loads(Path("data/observed/teacher-rollouts.json").read_bytes())
    assert observed["turns"] == done["cost"]["requests"]
    assert "engine_seconds" in observed


def test_rows_of_a_category_are_seen_as_often_as_its_factor_says(project: Project, taken: list[RowSet]):
    played(params_of(project))
    played(params_of(project, oversample={"voucher": 3, "shop": 2}))
    plain, more = (Counter((row.row_id, row.turn) for row in rows.rows) for rows in taken)
    category = {(row.row_id, row.turn): row.category for row in taken[0].rows}
    assert {category[key] for key in plain} == {"product", "shop", "voucher"}
    factors = {"product": 1, "shop": 2, "voucher": 3}
    assert more == {key: factors[category[key]] for key in plain}
    assert taken[0].talks == taken[1].talks


def test_a_policy_plays_the_same_whether_or_not_its_episode_was_interrupted():
    shop, problems = small_shop()
    case = Case(problems[0].problem_id or "", problems[0], "")
    toolbox = Toolbox(shop)
    lasting = Expert([case], {"": toolbox}, 1, "terse")
    episode = Episode(case, 2, setup_of(lasting, "m", Rollout(view="compare/1")), toolbox)
    policy = make_teacher(brief_of(problems[0]), seed_of("expert", 1, case.name) + 2, style="terse")
    action = policy.observe(None)
    while episode.ended is None:
        request = episode.request()
        reply = lasting.chat([request], episode.setup.sampling)[0]
        # One that knows nothing of the turns before says the same.
        fresh = Expert([case], {"": toolbox}, 1, "terse").chat([request], episode.setup.sampling)[0]
        assert fresh.text == reply.text
        read = parse_reply(reply.text)
        assert action is not None
        assert (read.malformed, read.think) == (None, action.think.strip())
        assert [(call.name, json.loads(call.arguments)) for call in read.calls] == action.calls
        action = policy.observe([toolbox.call(name, given) for name, given in action.calls])
        episode.take(reply)
    assert (episode.ended, action) == ("terminated", None)


@pytest.mark.parametrize("style", ["terse", "expert"])
def test_samples_of_one_problem_are_the_same_again_and_differ_where_the_policy_has_plans(style: Any):
    shop, problems = small_shop()
    case = Case(problems[1].problem_id or "", problems[1], "")
    requests = [
        type("Asked", (), {"key": f"{case.name}/{sample}/{turn}"})() for sample in range(4) for turn in range(2)
    ]
    first, again = (
        [reply.text for reply in Expert([case], {"": Toolbox(shop)}, 7, style).chat(requests, None)]  # type: ignore[arg-type]
        for _ in range(2)
    )
    assert first == again
    differing = len({tuple(first[place : place + 2]) for place in range(0, 8, 2)})
    assert differing > 1 if style == "expert" else differing == 1


def test_problems_that_no_policy_can_be_told_of_are_left_out_and_counted(project: Project):
    source = Source(Path("data"), catalogue_of)
    strange = Case("x", Problem(problem_id="x", query="Who won?", category="web"), SNAPSHOT)
    nameless = train_cases()[0]
    nameless = nameless._replace(problem=Problem(**{**fields(nameless.problem), "problem_id": None}))
    assert without_brief([strange, nameless]) == {"x": "no_brief"}
    everything = train_problems(source, None)
    gone = everything.cases[0].name
    chosen = train_problems(source, 3, {gone: "no_brief"})
    assert chosen.cases == everything.cases[1:4]
    assert chosen.left_out == {"no_brief": 1, "limit": len(everything.cases) - 4}
    with pytest.raises(OresmithError, match="no problem to play"):
        train_problems(source, 3, {case.name: "no_brief" for case in everything.cases})


def fields(problem: Problem) -> dict[str, Any]:
    return {name: getattr(problem, name) for name in problem.__struct_fields__}


def test_an_endpoint_that_dies_midway_is_a_stop_that_can_be_taken_up_again(project: Project, taken: list[RowSet]):
    whole = Shopping()
    with serving(whole) as fake:
        played(params_of(project, teacher="openai", url=fake.url, served_model="m", problems=6), asking(fake))
    expected = content(SAMPLED / "rollouts")
    for path in sorted(SAMPLED.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    dying = Shopping(dies_after=13)
    with serving(dying) as fake:
        params = params_of(project, url=fake.url)
        with pytest.raises(OresmithError, match=r"(?s)one problem after the other.*finished samples are kept"):
            teacher.run(params, asking(fake), quiet=True)
    assert not OUT.exists()
    assert not (SAMPLED / "rollouts").exists()
    rest = Shopping()
    with serving(rest) as fake:
        played(params_of(project, url=fake.url), asking(fake))
    assert 0 < rest.asked < whole.asked
    assert content(SAMPLED / "rollouts") == expected
    assert [row.row_id for row in taken[0].rows] == [row.row_id for row in taken[1].rows]


def test_cost_and_refusals_of_an_endpoint_are_recorded(project: Project, monkeypatch: pytest.MonkeyPatch):
    told: list[dict[str, Any]] = []

    def publish(step: OpenStep, outcome: object, **extra: Any) -> None:
        told.append(extra["teacher"])
        raise StopBeforeTrainingError

    monkeypatch.setattr(OpenStep, "fit", lambda step, rows: None)
    monkeypatch.setattr(OpenStep, "publish", publish)
    cases = train_cases()
    refused = {cases[0].problem.query, cases[1].problem.query}
    server = Shopping(refuses=lambda query: query in refused)
    with serving(server) as fake:
        played(params_of(project, teacher="openai", url=fake.url), asking(fake))
    done = told[0]
    assert (done["refusals"], done["teacher"]["served_model"]) == (2, "m")
    assert done["selection"]["successes"] == len(cases) - 2
    asked = done["cost"]["requests"]
    assert asked == server.asked
    assert done["cost"] == {"requests": asked, "prompt_tokens": 7 * asked, "completion_tokens": 3 * asked}


def test_a_teacher_that_refuses_everything_stops_the_step(project: Project):
    with serving(Shopping(refuses=lambda query: True)) as fake:
        params = params_of(project, teacher="openai", url=fake.url, problems=3)
        with pytest.raises(OresmithError, match=r"(?s)^teacher: no rollout is fit.*3 rollouts: 3 failed"):
            teacher.run(params, asking(fake), quiet=True)
    assert not OUT.exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"teacher": "openai"}, r"teacher\.url"),
        ({"teacher": "openai", "url": "http://127.0.0.1:1/v1", "samples": 2}, r"teacher\.temperature"),
        ({"oversample": {"vouchers": 3}}, r"teacher\.oversample.*vouchers"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(project: Project, changes: dict[str, Any], words: str):
    with pytest.raises(OresmithError, match=f"(?s){words}"):
        teacher.run(params_of(project, **changes), quiet=True)


def test_an_endpoint_is_asked_as_the_step_says(project: Project):
    wish = {"teacher": "openai", "url": "http://h/v1", "served_model": "big", "key_env": "K", "samples": 2}
    params = params_of(project, **wish, temperature=0.6, max_new_tokens=900)
    settings = rollout_settings(params)
    assert (settings.engine, settings.url, settings.served_model) == ("openai", "http://h/v1", "big")
    assert (settings.key_env, settings.samples, settings.temperature) == ("K", 2, 0.6)
    assert (settings.max_new_tokens, settings.view, settings.max_turns) == (900, "compare/1", params.rollout.max_turns)
    assert rollout_settings(params_of(project, max_new_tokens=None)).max_new_tokens == params.rollout.max_new_tokens


def test_a_teacher_that_is_switched_off_says_so(project: Project):
    assert teacher.run(params_of(project, enabled=False)) is None
    training = read_training(OUT)
    assert training is not None
    assert training.skipped == "switched off"
