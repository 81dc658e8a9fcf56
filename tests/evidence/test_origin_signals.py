"""Signals 2 to 8 and the verdict: what each one says, and how much it may decide."""

from __future__ import annotations

import json

import msgspec
import pytest

from oresmith.evidence.origin import OriginRule, judge_origin, origin_evidence
from oresmith.evidence.origin_facts import OriginEvidence
from oresmith.records import Format, Message
from tests.evidence.test_origin_play import (
    FIND,
    PLAN,
    RECOMMEND,
    RESULT,
    TERMINATE,
    VIEW,
    Call,
    Play,
    agentic,
    judged,
    tagged,
)

LONG_PLAN: list[list[Call]] = [[("find_product", {"q": f"kettle {n}"})] for n in range(8)] + [[RECOMMEND, TERMINATE]]


def vote(evidence: OriginEvidence, signal: str, rule: OriginRule | None = None) -> str:
    votes = dict(text.split(":") for text in judge_origin(evidence, rule).votes)
    return votes[signal]


def test_a_history_that_is_compacted_now_and_then_costs_a_vote_and_not_the_verdict() -> None:
    sizes = [900, 1500, 2100, 2700, 1400, 2000, 2600, 3200, 3800]
    evidence, origin = judged(agentic(LONG_PLAN, sizes))
    assert vote(evidence, "growth") == "none"
    assert min(pair.delta for pair in evidence.growth) == -1300
    assert origin.label == "A"


def test_prompts_that_never_hold_the_results_keep_an_echoing_program_from_being_agentic() -> None:
    evidence, origin = judged(agentic(PLAN, [64, 80, 70, 75]))
    assert vote(evidence, "echo") == "A"
    assert vote(evidence, "growth") == vote(evidence, "size") == "B"
    assert origin.label == "B"


def test_a_prompt_of_constant_size_is_unknown_because_a_window_and_a_padded_puppet_look_alike() -> None:
    evidence, origin = judged(agentic(LONG_PLAN, [1500 + n % 2 * 8 for n in range(9)]))
    assert vote(evidence, "growth") == "B"
    assert vote(evidence, "size") == "none"
    assert origin.label == "unknown"


def test_null_usage_leaves_growth_unmeasured_and_the_trajectory_unknown() -> None:
    play = Play()
    for calls in PLAN:
        play.infer(tagged(calls), None)
        play.step(calls)
    evidence, origin = judged(play)
    assert evidence.growth == []
    assert vote(evidence, "echo") == "A"
    assert origin.label == "unknown"


def test_planning_before_each_act_is_one_odd_vote_and_stays_agentic() -> None:
    play, size = Play(), 900
    for calls in PLAN:
        play.infer("First I think about what to do.", size)
        play.infer(tagged(calls), size + 20)
        play.step(calls)
        size += 700
    evidence, origin = judged(play)
    assert evidence.head.several == 4
    assert vote(evidence, "head") == "B"
    assert origin.label == "A"
    assert judged(play, OriginRule(odd_votes=0))[1].label == "unknown"


def test_a_reply_that_ended_after_the_calls_began_is_not_at_the_head() -> None:
    play, size = Play(), 900
    for calls in PLAN:
        play.infer(tagged(calls), size)
        play.search(ms=300.0)
        play.log[-1] = msgspec.structs.replace(play.log[-1], duration_ms=500.0)
        play.step(calls)
        size += 700
    evidence, _ = judged(play)
    assert evidence.head.steps == 4
    assert evidence.head.head_first == 0


def test_models_and_parameter_sets_are_counted_over_answered_calls_only() -> None:
    play = agentic()
    play.log.insert(0, msgspec.structs.replace(play.log[0], status_code=429, response=None, json_data={"model": "x"}))
    evidence, _ = judged(play)
    assert (evidence.inference.models, evidence.inference.parameter_sets) == (1, 1)
    mixed = Play()
    for number, calls in enumerate(PLAN):
        mixed.infer(tagged(calls), 900 + 700 * number, body={"model": "m", "temperature": number % 2, "messages": []})
        mixed.step(calls)
    evidence, origin = judged(mixed)
    assert (evidence.inference.models, evidence.inference.parameter_sets) == (1, 2)
    assert vote(evidence, "bodies") == "B"
    assert origin.label == "A"


@pytest.mark.parametrize(
    ("reply", "bare", "judging"),
    [
        ('{"best_product_id": "1", "relevance_score": 9}', 1, 1),
        ('```json\n[{"keywords": "red kettle"}]\n```', 1, 1),
        ('<think>hm</think>\n{"answer": 1}', 1, 0),
        ("The score is {good}.", 0, 0),
        ('{"thought": "t", "action": "find_product", "action_input": {"q": "red kettle", "page": 1}}', 0, 0),
        ('{"tool": "find_product", "args": {"q": "red kettle", "page": 1}}', 0, 0),
    ],
)
def test_bare_json_is_counted_unless_it_makes_a_call(reply: str, bare: int, judging: int) -> None:
    play = Play()
    play.infer(reply, 900)
    play.step([FIND])
    evidence, _ = judged(play)
    assert (evidence.replies.bare_json, evidence.replies.judging) == (bare, judging)


def test_with_half_the_texts_dropped_bursts_of_bare_json_are_still_sub_task() -> None:
    play = Play()
    for number, calls in enumerate(PLAN):
        play.drop()
        play.infer('{"best_product_id": "1", "score": 3}', 700 - 20 * number, body={"model": f"m{number % 2}"})
        play.step(calls)
    evidence, origin = judged(play)
    assert vote(evidence, "echo") == "none"
    assert origin.label == "B"


def chat(requests: list[tuple[list[dict[str, str]], str]], plan: list[list[Call]] | None = None) -> Play:
    """A run on the later runtime: each request's messages are logged."""
    play = Play()
    for (messages, reply), calls in zip(requests, plan or PLAN, strict=True):
        body = {"model": "m", "messages": messages}
        play.infer(reply, sum(len(message["content"]) for message in messages) // 4, body=body)
        play.step(calls)
    return play


def readable_agent(system: str = "Tools: find_product, view_product_information, recommend_product.") -> Play:
    history: list[dict[str, str]] = [{"role": "system", "content": system}, {"role": "user", "content": "a kettle"}]
    requests = []
    for calls in PLAN:
        requests.append((list(history), tagged(calls)))
        history += [{"role": "assistant", "content": tagged(calls)}, {"role": "user", "content": RESULT}]
    return chat(requests)


def test_prompts_with_tools_and_observations_vote_for_agentic() -> None:
    evidence, origin = judged(readable_agent())
    prompts = evidence.prompts
    assert (prompts.readable, prompts.with_tools, prompts.asking, prompts.told) == (4, 4, 0, 0)
    assert prompts.expecting == prompts.with_observations == 3
    assert vote(evidence, "prompts") == "A"
    assert origin.label == "A"


def test_prompts_that_were_read_stand_in_for_a_missing_usage() -> None:
    play = readable_agent()
    for entry in play.log:
        entry.response["usage"] = None
    assert judged(play)[1].label == "A"


def test_a_program_that_shows_everything_and_then_dictates_the_call_is_sub_task() -> None:
    play = readable_agent()
    for number, (entry, calls) in enumerate(zip(play.log, PLAN, strict=True)):
        order = {"role": "user", "content": f"Repeat exactly: {tagged(calls)}"}
        body = {"model": "m", "messages": [*entry.json_data["messages"], order]}
        play.log[number] = msgspec.structs.replace(entry, json_data=body)
    evidence, origin = judged(play)
    assert vote(evidence, "growth") == "A"
    assert evidence.prompts.told == evidence.prompts.calls == 4
    assert vote(evidence, "prompts") == "B"
    assert origin.label == "B"


def test_prompts_that_order_a_sub_task_without_tools_are_counted() -> None:
    ask = [{"role": "user", "content": "Score the candidates from 1 to 10."}]
    play = chat([(ask, '{"score": 3}')] * len(PLAN))
    evidence, origin = judged(play)
    assert (evidence.prompts.asking, evidence.prompts.with_tools) == (4, 0)
    assert vote(evidence, "prompts") == "B"
    assert origin.label == "B"


def test_prompts_replaced_by_their_length_are_unknown_not_negative() -> None:
    play = readable_agent()
    for number, entry in enumerate(play.log):
        messages = [m | {"content": f"[{len(m['content'])} characters]"} for m in entry.json_data["messages"]]
        play.log[number] = msgspec.structs.replace(entry, json_data={"model": "m", "messages": messages})
    evidence, origin = judged(play)
    assert (evidence.prompts.logged, evidence.prompts.readable) == (4, 0)
    assert vote(evidence, "prompts") == "none"
    assert origin.label == "A"


def test_a_forged_journal_passes_every_signal_and_falls_to_its_provenance() -> None:
    play = agentic()
    play.steps = [msgspec.structs.replace(step, log_first=True) for step in play.steps]
    evidence, origin = judged(play)
    assert evidence.provenance.kind == "agent-written"
    assert origin.votes[:3] == ["echo:A", "head:A", "growth:A"]
    assert origin.votes[-1] == "provenance:doubt"
    assert origin.label == "unknown"
    assert judge_origin(evidence, OriginRule(trust_agent_log=True)).label == "A"


def test_a_log_busier_than_the_run_was_long_is_doubted() -> None:
    play = agentic()
    for number, entry in enumerate(play.log):
        play.log[number] = msgspec.structs.replace(entry, duration_ms=9_000.0)
    evidence, origin = judged(play)
    assert evidence.checks.execution_s is not None
    assert evidence.checks.busy_s > evidence.checks.execution_s + 1
    assert evidence.checks.summed_s >= evidence.checks.busy_s
    assert origin.votes[-1] == "checks:doubt"
    assert origin.label == "unknown"


def test_parallel_calls_do_not_add_up_to_more_than_the_run() -> None:
    play = agentic()
    play.log += [msgspec.structs.replace(play.log[1]) for _ in range(400)]
    evidence, origin = judged(play)
    assert evidence.checks.execution_s is not None
    assert evidence.checks.summed_s > evidence.checks.execution_s > evidence.checks.busy_s
    assert origin.label == "A"


def test_inference_that_the_envelope_does_not_count_is_doubted() -> None:
    evidence, origin = judged(agentic(), inference_total=0)
    assert evidence.checks.total_zero
    assert origin.votes[-1] == "checks:doubt"
    assert origin.label == "unknown"
    assert judge_origin(evidence, OriginRule(doubt_uncounted=False)).label == "A"


@pytest.mark.parametrize("total", [1, 3, 40, None])
def test_any_other_count_of_inference_proves_nothing(total: int | None) -> None:
    assert judged(agentic(), inference_total=total)[1].label == "A"


@pytest.mark.parametrize(("total", "label"), [(4, "unknown"), (None, "unknown"), (0, "B")])
def test_an_empty_log_is_evidence_only_where_the_envelope_counts_no_inference_either(
    total: int | None, label: str
) -> None:
    assert judged(agentic(), log=[], inference_total=total)[1].label == label


def test_a_log_without_the_inference_that_the_envelope_counts_is_no_evidence() -> None:
    play = agentic()
    play.log = [entry for entry in play.log if entry.response is None]
    evidence, origin = judged(play, inference_total=4)
    assert evidence.checks.total_without_log
    assert {call.match for call in evidence.calls} == {"no_log"}
    assert origin.label == "unknown"


@pytest.mark.parametrize("format", [Format.OPENAI, Format.SHOPPINGBENCH, Format.ATIF])
def test_formats_without_a_log_are_unknown(format: Format) -> None:
    evidence, origin = judged(agentic(), format=format, log=None, inference_total=None)
    assert origin.label == "unknown"
    assert {vote.split(":")[1] for vote in origin.votes} == {"none"}
    assert not evidence.full_text
    assert set(evidence.steps) == {"unknown"}
    assert evidence.recommend == "unknown"
    assert evidence.provenance.kind == "absent"


def test_atif_steps_without_a_model_call_are_not_the_models() -> None:
    play = agentic()
    play.steps = [msgspec.structs.replace(step, llm_calls=int(k != 1)) for k, step in enumerate(play.steps)]
    evidence, origin = judged(play, format=Format.ATIF, log=None, inference_total=None)
    assert evidence.steps == ["unknown", "not_found", "unknown", "unknown"]
    assert (evidence.dispatch, evidence.dispatch_of) == (1, 5)
    assert origin.label == "unknown"
    assert judge_origin(evidence, OriginRule(dispatch_min=0.2)).label == "B"


def test_an_atif_document_that_declares_most_calls_dispatched_is_sub_task_copied_steps_aside() -> None:
    play = agentic()
    play.steps = [msgspec.structs.replace(step, llm_calls=0) for step in play.steps]
    assert judged(play, format=Format.ATIF, log=None)[1].label == "B"
    play.steps = [msgspec.structs.replace(step, copied_context=True) for step in play.steps]
    evidence, origin = judged(play, format=Format.ATIF, log=None)
    assert evidence.dispatch_of == 0
    assert origin.label == "unknown"


def test_a_trajectory_without_steps_is_unknown() -> None:
    evidence, origin = judged(Play())
    assert origin.label == "unknown"
    assert evidence.steps == []
    assert evidence.recommend is None


def test_only_the_last_recommendation_is_weighed() -> None:
    play = agentic([[FIND], [RECOMMEND], [VIEW]])
    play.step([("recommend_product", {"product_ids": "9"})])
    assert judged(play)[0].recommend == "not_found"


def test_another_rule_reads_another_verdict_from_the_same_facts() -> None:
    play = agentic(LONG_PLAN)
    place = play.steps[3].message
    call = msgspec.structs.replace(play.messages[place].tool_calls[0], arguments=json.dumps({"q": "changed"}))
    play.messages[place] = Message(role="assistant", tool_calls=[call])
    evidence = origin_evidence(play.trajectory())
    assert judge_origin(evidence).label == "A"
    assert judge_origin(evidence, OriginRule(echo_min=0.95)).label == "unknown"
    stored = msgspec.json.decode(msgspec.json.encode(evidence), type=OriginEvidence)
    assert judge_origin(stored) == judge_origin(evidence)
