"""Right and wrong models score as they must, and what is kept of them is whole."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pyarrow.parquet as pq
import pytest
import zstandard

from oresmith.arena.world import documents
from oresmith.audit.parquetrows import parquet_rows
from oresmith.errors import OresmithError
from oresmith.evaluation.evaluate import COMPARED, evaluate, load_configuration
from oresmith.evaluation.harness import FAULTS, Tally
from oresmith.evaluation.meter import _Lines
from oresmith.evaluation.problems import problems_of_file
from oresmith.evaluation.records import ChatReply, ChatRequest
from oresmith.evaluation.writing import ATIF, REQUESTS, ROLLOUTS, TABLE, read_rollouts
from oresmith.inspection import inspect_path
from oresmith.lines.framing import Limits
from oresmith.param_models import Rollout
from oresmith.rescoring import rescore
from oresmith.traces import Context, decode
from schemas.rollouts import ARROW
from tests.evaluation.scripted import (
    SAMPLED,
    Scripted,
    called,
    content,
    expert,
    looping,
    never,
    run,
    said,
    small_shop,
    the_expert,
)
from tests.traces.build import SOURCE


def rows(folder: Path, name: str = ROLLOUTS) -> list[dict[str, Any]]:
    with (folder / name).open("rb") as raw:
        data = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True).read()
    return [orjson.loads(line) for line in data.splitlines()]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The small shop's problems and catalogue as files."""
    home = tmp_path_factory.mktemp("given")
    problems, catalogue = home / "problems.jsonl", home / "catalogue.jsonl"
    problems.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in small_shop()[1]))
    catalogue.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in documents(5, 400)))
    return problems, catalogue


def succeeded(folder: Path, given: tuple[Path, Path]) -> tuple[int, int]:
    scored = rescore(folder / ROLLOUTS, *given, io.BytesIO())
    assert scored.unreadable == 0
    return scored.succeeded, scored.traces


def test_a_model_that_is_always_right_scores_in_full_and_one_that_never_is_scores_nothing(
    tmp_path: Path, given: tuple[Path, Path]
):
    run(the_expert(), tmp_path / "right")
    run(Scripted(never), tmp_path / "wrong")
    assert succeeded(tmp_path / "right", given) == (7, 7)
    assert succeeded(tmp_path / "wrong", given) == (0, 7)
    shop, problems = small_shop()
    run(Scripted(expert(problems, shop, errs=1), context=100_000), tmp_path / "half")
    assert succeeded(tmp_path / "half", given) == (4, 7)


def test_rollouts_are_read_like_any_strangers_file(tmp_path: Path, given: tuple[Path, Path]):
    run(the_expert(), tmp_path / "out", **SAMPLED)
    found = inspect_path(tmp_path / "out" / ROLLOUTS, *given)
    assert (found.readable, found.unreadable, found.formats) == (21, 0, {"openai-messages": 21})
    assert "outcome_unknown" not in found.reasons
    atif = inspect_path(tmp_path / "out" / ATIF, *given)
    assert (atif.readable, atif.formats) == (21, {"atif": 21})
    read = list(read_rollouts(tmp_path / "out"))
    assert len({one.identity for one in read}) == 21
    assert all(one.provenance.agent_version == "m" and one.problem.category == "product" for one in read)
    columns = read[0].extra["columns"]
    assert columns["finish"] == "terminated"
    assert [call["id"] for call in columns["calls"]] == [c.id for m in read[0].messages for c in m.tool_calls]


def test_table_and_documents_hold_the_same_dialogues_as_the_rows(tmp_path: Path):
    run(the_expert(), tmp_path / "out", **SAMPLED)
    out = tmp_path / "out"
    read = list(read_rollouts(out))
    table = pq.read_table(out / TABLE)
    assert (table.schema.names, table.schema.metadata) == (ARROW.names, ARROW.metadata)
    assert table["row_id"].to_pylist() == [one.trajectory_id for one in read]
    asked = list(parquet_rows(out / TABLE))
    for one, (_, _, row), document in zip(read, asked, rows(out, ATIF), strict=True):
        again = decode({"messages": row["messages"]}, Context(source=SOURCE))
        assert again.messages == one.messages
        back = decode(document, Context(source=SOURCE))
        assert [m.content or None for m in back.messages] == [m.content or None for m in one.messages]
        assert [orjson.loads(c.arguments) for m in back.messages for c in m.tool_calls] == [
            orjson.loads(c.arguments) for m in one.messages for c in m.tool_calls
        ]


def test_every_request_can_be_told_again_from_what_is_kept(tmp_path: Path):
    engine = the_expert()
    run(engine, tmp_path / "out", batch=3, **SAMPLED)
    by_sample = {(row["problem"], row["sample"]): row for row in rows(tmp_path / "out")}
    kept = {row["key"]: row for row in rows(tmp_path / "out", REQUESTS)}
    assert len(kept) == len(engine.asked)
    for asked in engine.asked:
        row = kept[asked.key]
        dialogue = by_sample[row["problem"], row["sample"]]
        told = decode({"messages": dialogue["messages"][: row["messages"]]}, Context(source=SOURCE))
        assert [(m.role, m.content, m.reasoning_content, m.tool_call_id) for m in told.messages] == [
            (m.role, m.content, m.reasoning_content, m.tool_call_id) for m in asked.messages
        ]
        assert row["seed"] == asked.seed
        assert row["reply"]["text"] == engine.write(asked, row["turn"])
        assert "seconds" not in row["reply"]


def test_the_same_run_twice_gives_the_same_bytes(tmp_path: Path):
    for name in ("a", "b"):
        run(the_expert(), tmp_path / name, batch=4, **SAMPLED)
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert not (tmp_path / ".a.journal").exists()


def test_the_batch_changes_no_rollout_of_an_engine_that_it_does_not_matter_to(tmp_path: Path):
    dialogues = []
    for batch in (1, 4, 64):
        engine = the_expert()
        run(engine, tmp_path / str(batch), batch=batch, **SAMPLED)
        assert max(engine.batches) == min(batch, 21)
        kept = [{key: value for key, value in row.items() if key != "run_id"} for row in rows(tmp_path / str(batch))]
        dialogues.append((kept, rows(tmp_path / str(batch), REQUESTS)))
    assert dialogues[0] == dialogues[1] == dialogues[2]


def test_an_episode_that_ends_makes_room_at_once(tmp_path: Path):
    engine = the_expert()
    run(engine, tmp_path / "out", batch=4, **SAMPLED)
    assert all(size == 4 for size in engine.batches[:-6])
    assert sum(engine.batches) == len(engine.asked)


def test_seeds_are_of_model_problem_sample_and_turn(tmp_path: Path):
    engine = the_expert()
    run(engine, tmp_path / "out", **SAMPLED)
    assert len({request.seed for request in engine.asked}) == len(engine.asked)


def test_a_model_that_loops_or_breaks_the_form_or_talks_too_long_ends_and_is_counted(tmp_path: Path):
    def broken(request: ChatRequest, turn: int) -> str:
        return "<tool_call>{}</tool_call>"

    def endless(request: ChatRequest, turn: int) -> ChatReply:
        return said("and so on", finish="length")

    def failing(request: ChatRequest, turn: int) -> ChatReply | str:
        return said("", finish="error", error="500") if "p-3" in request.key else never(request, turn)

    ends = {}
    for name, write in {"loop": looping, "form": broken, "long": endless, "fail": failing}.items():
        run(Scripted(write, context=10**6), tmp_path / name, max_turns=4)
        found = rows(tmp_path / name)
        ends[name] = Counter((row["finish"], row["turns"], row["malformed"]) for row in found)
    assert ends == {
        "loop": {("turns", 4, 0): 7},
        "form": {("malformed", 3, 3): 7},
        "long": {("length", 1, 0): 7},
        "fail": {("terminated", 1, 0): 6, ("error", 0, 0): 1},
    }
    run(Scripted(looping, context=600), tmp_path / "context")
    assert {row["finish"] for row in rows(tmp_path / "context")} == {"context"}
    assert {row["turns"] for row in rows(tmp_path / "context")} == {2}


def test_an_engine_that_fails_at_everything_is_refused_and_what_was_done_stays(tmp_path: Path):
    calls = 0

    def dying(request: ChatRequest, turn: int) -> ChatReply | str:
        nonlocal calls
        calls += 1
        return said("", finish="error", error="no answer") if calls > 4 else never(request, turn)

    with pytest.raises(OresmithError, match="fails at one problem after the other") as refused:
        run(Scripted(dying), tmp_path / "out", batch=1)
    assert "no answer" in str(refused.value)
    assert calls == 4 + FAULTS
    done = run(Scripted(never), tmp_path / "out", batch=1)
    assert done.tally.resumed == 4
    with pytest.raises(OresmithError, match="one problem after the other"):
        run(Scripted(dying), tmp_path / "one", small_shop()[1][:1], batch=1, **SAMPLED)


@pytest.mark.parametrize("answered", range(7))
def test_an_engine_that_dies_within_a_round_is_down_whichever_reply_came_first(tmp_path: Path, answered: int):
    def dying(request: ChatRequest, turn: int) -> ChatReply | str:
        return never(request, turn) if f"p-{answered}/" in request.key else said("", finish="error", error="gone")

    with pytest.raises(OresmithError, match="fails at one problem after the other"):
        run(Scripted(dying), tmp_path / "out")
    done = run(Scripted(never), tmp_path / "out")
    assert done.tally.resumed == 1


def test_problems_that_the_engine_cannot_take_stop_nothing_while_it_can_take_others(tmp_path: Path):
    def picky(request: ChatRequest, turn: int) -> ChatReply | str:
        return said("", finish="error", error="400") if "p-3" in request.key else never(request, turn)

    run(Scripted(picky), tmp_path / "out", batch=2, temperature=1.0, samples=8)
    assert Counter(row["finish"] for row in rows(tmp_path / "out")) == {"terminated": 48, "error": 8}

    def now_and_then(request: ChatRequest, turn: int) -> ChatReply | str:
        failing = request.key.split("/")[0] in {"p-1", "p-3", "p-5"}
        return said("", finish="error", error="503") if failing else never(request, turn)

    run(Scripted(now_and_then), tmp_path / "often", batch=1)
    assert Counter(row["finish"] for row in rows(tmp_path / "often")) == {"terminated": 4, "error": 3}


def test_an_engine_that_answers_something_else_is_refused(tmp_path: Path):
    class Short(Scripted):
        def chat(self, requests: Any, sampling: Any) -> list[ChatReply]:
            return super().chat(requests, sampling)[1:]

    with pytest.raises(OresmithError, match="does not answer what it was asked"):
        run(Short(never), tmp_path / "out")


def test_the_manifest_states_all_that_a_comparison_must_find_equal(tmp_path: Path):
    run(the_expert(), tmp_path / "out")
    stated = load_configuration(tmp_path / "out")
    assert set(COMPARED) < set(stated)
    assert stated["problems"]["count"] == 7
    for key in ("prompt", "tools", "view"):
        assert len(stated[key]["sha256"]) == 64
    assert stated["sampling"] == {"temperature": 0.0, "top_p": 1.0, "max_new_tokens": 256}
    assert stated["model"] == the_expert().identity() | {"name": "m"}
    assert b"seconds" not in b"".join(content(tmp_path / "out").values())
    problems = small_shop()[1]
    run(the_expert(), tmp_path / "less", problems[:-1])
    run(the_expert(), tmp_path / "turned", problems[::-1])
    assert load_configuration(tmp_path / "less")["problems"]["sha256"] != stated["problems"]["sha256"]
    assert load_configuration(tmp_path / "turned")["problems"] == stated["problems"]


def test_anybodys_problems_are_played_in_anybodys_catalogue(tmp_path: Path, given: tuple[Path, Path]):
    problems, catalogue = given
    shop, ours = small_shop()
    engine = Scripted(expert(ours, shop), context=100_000)
    settings = Rollout(problems=5, batch=2)
    done = evaluate(engine, problems, catalogue, tmp_path / "mine", name="mine", settings=settings, quiet=True)
    assert (done.tally.samples, done.configuration["problems"]["left_out"]) == (5, {"limit": 2})
    assert succeeded(tmp_path / "mine", given) == (5, 5)
    assert {path.name for path in tmp_path.iterdir() if path.suffix == ".json"} == {"mine.observed.json"}
    five = [case.name for case in problems_of_file(problems, 5).cases]
    assert [case.name for case in problems_of_file(problems, 3).cases] == five[:3]
    assert [row["problem"] for row in rows(tmp_path / "mine")] == five
    assert not engine.closed


def test_a_directory_that_is_no_output_is_not_replaced(tmp_path: Path, given: tuple[Path, Path]):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(OresmithError, match="not an output"):
        evaluate(Scripted(never), *given, tmp_path / "mine", name="m", settings=Rollout(), quiet=True)


def test_progress_says_how_far_it_is_what_it_cost_and_how_long_it_takes():
    from rich.console import Console

    shown = io.StringIO()
    lines = _Lines("base", Console(file=shown, width=200))
    for done in range(101):
        lines(
            Tally(samples=100, resumed=0, prompt_tokens=5000 * done, completion_tokens=done, engine_seconds=6 * done),
            done,
        )
    told = shown.getvalue().splitlines()
    assert len(told) == 11
    assert told[1] == "base: 10 of 100 samples, 50,000 tokens read, 10 written, 0/s, about 9.0 min left"


def test_a_model_that_repeats_itself_makes_no_file_that_readers_take_for_a_bomb(tmp_path: Path):
    run(Scripted(looping, context=10**6), tmp_path / "out", max_turns=12, temperature=1.0, samples=40)
    for name in (ROLLOUTS, ATIF):
        lines = sum(len(orjson.dumps(row)) for row in rows(tmp_path / "out", name))
        assert lines < Limits().max_ratio * (tmp_path / "out" / name).stat().st_size


def test_tools_of_several_calls_in_a_reply_are_all_kept(tmp_path: Path):
    def both(request: ChatRequest, turn: int) -> str:
        return called(("find_product", {"q": "pillow"}), ("recommend_product", {"product_ids": "1"}), ("terminate", {}))

    run(Scripted(both), tmp_path / "out")
    for row in rows(tmp_path / "out"):
        assert [call["name"] for call in row["calls"]] == ["find_product", "recommend_product", "terminate"]
