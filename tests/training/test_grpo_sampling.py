"""Rollouts for training: the very tokens that were drawn, behind the very prompts that they were drawn behind."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from peft import get_peft_model

from oresmith.errors import OresmithError
from oresmith.evaluation.engines.inprocess import InProcess
from oresmith.evaluation.engines.model import prompt_ids
from oresmith.evaluation.records import ChatReply, ChatRequest, Sampling
from oresmith.models import Chat
from oresmith.models.checks import RowFault, sampled_fault
from oresmith.models.directory import load_model
from oresmith.training.arguments import lora_config
from oresmith.training.policy import InProcessPolicy, VllmPolicy, merged_weights
from oresmith.training.sampling import Drawn, Job, Sampled, play, segments_of
from tests.evaluation.engines_build import QUERIES, asked, followed, tiny
from tests.evaluation.scripted import called, looping
from tests.training.grpo_build import TRAIN, Written, cases, ids_of, setup, toolboxes

GREEDY = Sampling(max_new_tokens=10)
WARM = Sampling(temperature=1.0, max_new_tokens=10)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny(tmp_path_factory.mktemp("grpo"), template="hermes")


@pytest.fixture(scope="module")
def chat(start: Path) -> Chat:
    return Chat.load(start)


def played(policy: Any, samples: int = 2, completion: int = 4096, **changed: Any) -> list[Sampled]:
    jobs = [Job(cases()[0], sample) for sample in range(samples)]
    return play(policy, jobs, setup(**changed), toolboxes(), completion)


TOKENS = st.lists(st.integers(0, 5), min_size=1, max_size=6)


@given(st.lists(st.tuples(TOKENS, TOKENS, st.booleans()), min_size=1, max_size=5))
def test_each_sampled_token_stands_once_and_behind_its_own_prompt(
    parts: list[tuple[list[int], list[int], bool]],
) -> None:
    turns: list[Drawn] = []
    before: list[int] = []
    for shown, said, goes_on in parts:
        prompt = before + shown if goes_on else [9, *shown]
        turns.append(Drawn(prompt, said, "", None))
        before = prompt + said
    found = segments_of(turns)
    assert [turn for segment in found for turn in segment.turns] == turns
    for segment in found:
        assert len(segment.ids) == len(segment.mask)
        assert [one for one, kept in zip(segment.ids, segment.mask, strict=True) if kept] == [
            token for turn in segment.turns for token in turn.sampled
        ]
        for turn in segment.turns:
            assert segment.ids[: len(turn.prompt) + len(turn.sampled)] == turn.prompt + turn.sampled
    continued = sum(
        turn.prompt[: len(one.prompt + one.sampled)] == one.prompt + one.sampled for one, turn in pairwise(turns)
    )
    assert len(found) == len(turns) - continued


def test_an_episode_is_one_segment_where_its_tokens_go_on(chat: Chat) -> None:
    good, bad = played(Written(chat))
    assert [one.rollout.ended for one in (good, bad)] == ["terminated", "terminated"]
    assert [len(one.segments) for one in (good, bad)] == [1, 1]
    for one in (good, bad):
        (segment,) = one.segments
        drawn = [(turn.text, turn.end) for turn in segment.turns]
        assert [text for text, _ in drawn] == [reply.text for reply in one.rollout.replies]
        assert {end for _, end in drawn} == {chat.tokenizer.end}
        assert sampled_fault(segment.ids, segment.mask, drawn, chat) is None
        assert "tool_response" not in chat.tokenizer.decode(
            [i for i, m in zip(segment.ids, segment.mask, strict=True) if m]
        )


def test_a_reply_that_would_be_tokenised_otherwise_begins_a_new_segment(chat: Chat) -> None:
    class Spelled(Written):
        def _answer(self, request: ChatRequest) -> Any:
            answer = super()._answer(request)
            spelled = [token for letter in answer.reply.text for token in self.chat.tokenizer.plain(letter)]
            return answer._replace(sampled=[*spelled, self.chat.tokenizer.end])

    for one in played(Spelled(chat)):
        assert len(one.segments) == 2
        for segment in one.segments:
            assert (
                sampled_fault(segment.ids, segment.mask, [(turn.text, turn.end) for turn in segment.turns], chat)
                is None
            )


def test_every_break_of_a_mask_is_found(chat: Chat) -> None:
    (segment,) = played(Written(chat), 1)[0].segments
    drawn = [(turn.text, turn.end) for turn in segment.turns]
    first, last = segment.mask.index(1), len(segment.mask) - 1
    gap = segment.mask.index(0, first)

    def fault(*changes: tuple[int, int], rows: Sequence[tuple[str, int | None]] = drawn) -> RowFault | None:
        mask = list(segment.mask)
        for place, value in changes:
            mask[place] = value
        found = sampled_fault(segment.ids, mask, rows, chat)
        return found and found[0]

    assert fault() is None
    assert fault((first - 1, 1)) == fault((last, 0)) == fault((gap - 1, 0)) == fault((gap, 1)) == RowFault.WRONG_MASK
    assert fault((0, 1)) == fault((first, 0)) == fault(rows=drawn[:1]) == RowFault.WRONG_MASK
    assert fault(*((place, 1) for place in range(len(segment.ids)))) == RowFault.WRONG_MASK
    assert fault(*((place, 0) for place in range(len(segment.ids)))) == RowFault.NO_SUPERVISED
    assert sampled_fault(segment.ids, segment.mask[1:], drawn, chat) is not None


def test_a_reply_that_was_cut_is_trained_on_without_an_end_and_counts_as_clipped(chat: Chat) -> None:
    (one,) = played(Written(chat, lambda request, turn: ChatReply(key="", text="I think", finish="length")), 1)
    assert one.clipped
    assert one.rollout.ended == "length"
    (segment,) = one.segments
    assert segment.turns[0].end is None
    assert chat.tokenizer.end not in segment.ids[segment.mask.index(1) :]
    assert sampled_fault(segment.ids, segment.mask, [("I think", None)], chat) is None


def test_an_episode_ends_where_its_room_does_and_no_turn_is_drawn_for_nothing(chat: Chat) -> None:
    policy = Written(chat, looping)
    (one,) = played(policy, 1, completion=700)
    assert one.clipped
    assert one.rollout.ended == "context"
    assert len(policy.asked) == sum(len(segment.turns) for segment in one.segments)
    first = len(one.segments[0].turns[0].prompt)
    assert max(len(segment.ids) for segment in one.segments) <= first + 700
    (two,) = played(Written(chat, looping), 1, completion=10**6, max_turns=3)
    assert two.clipped
    assert two.rollout.ended == "turns"


def test_a_policy_that_fails_or_has_no_room_is_refused(chat: Chat) -> None:
    failing = Written(chat, lambda request, turn: ChatReply(key="", text="", finish="error", error="out of memory"))
    with pytest.raises(OresmithError, match="out of memory"):
        played(failing)
    with pytest.raises(OresmithError, match="no room"):
        played(Written(chat), completion=63)
    with pytest.raises(OresmithError, match="no room"):
        played(Written(chat, context=100))


def test_the_engine_hands_out_the_tokens_that_it_was_given_and_drew(start: Path, chat: Chat) -> None:
    engine = InProcess(start)
    requests = [asked(query, seed=place) for place, query in enumerate(QUERIES)]
    answers = engine.answer(requests, Sampling(temperature=1.0, max_new_tokens=60))
    assert [answer.reply.text for answer in answers] == [
        reply.text for reply in InProcess(start).chat(requests, Sampling(temperature=1.0, max_new_tokens=60))
    ]
    for request, answer in zip(requests, answers, strict=True):
        assert answer.prompt == prompt_ids(request, chat)
        assert len(answer.sampled) == answer.reply.completion_tokens
        said = answer.sampled[:-1] if answer.reply.finish == "stop" else answer.sampled
        assert chat.tokenizer.decode(said) == answer.reply.text
        assert not engine.ends & set(said)


def adapted(start: Path, method: Any = "lora") -> Any:
    """The model with an adapter, or without, whose weights have moved."""
    config = lora_config(replace(TRAIN, method=method))
    model = load_model(start)
    model = get_peft_model(model, config) if config else model
    torch.manual_seed(3)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight.add_(torch.randn_like(weight) * 0.05)
    return model


@pytest.mark.parametrize("method", ["lora", "full"])
def test_the_copy_says_what_the_trained_model_says_from_its_refresh_on(start: Path, method: str) -> None:
    policy = InProcessPolicy(start, TRAIN, batch=8)
    requests = [asked(query) for query in QUERIES[:3]]
    before = policy.answer(requests, GREEDY)
    model = adapted(start, method).eval()
    policy.refresh(model)
    after = policy.answer(requests, GREEDY)
    for answer in after:
        ids = torch.tensor([answer.prompt])
        plain = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=10, do_sample=False)[
            0, ids.shape[1] :
        ].tolist()
        assert answer.sampled == plain
    assert [one.sampled for one in after] != [one.sampled for one in before]
    # What the old weights read of a conversation is worth nothing to the new ones.
    second = [followed(request, answer.reply.text) for request, answer in zip(requests, after, strict=True)]
    policy.refresh(load_model(start))
    fresh = InProcessPolicy(start, TRAIN, batch=8)
    assert [one.sampled for one in policy.answer(second, WARM)] == [one.sampled for one in fresh.answer(second, WARM)]
    with pytest.raises(OresmithError, match="another model"):
        policy.refresh(SimpleNamespace(named_parameters=lambda: [("model.nothing.weight", torch.zeros(1))]))


def test_merged_weights_are_those_of_a_merge(start: Path) -> None:
    model = adapted(start)
    found = dict(merged_weights(model))
    merged = dict(model.merge_and_unload().named_parameters())
    assert found
    assert all(torch.allclose(weight, merged[name], atol=1e-6) for name, weight in found.items())
    changed = {name for name, weight in load_model(start).named_parameters() if not torch.equal(weight, merged[name])}
    assert changed == found.keys()


def test_vllm_is_given_ids_and_seeds_and_its_scores_are_kept(chat: Chat) -> None:
    asked_for: list[Any] = []

    class Llm:
        def generate(self, given: Any, sampling_params: Any, use_tqdm: bool) -> Any:
            asked_for.extend(zip(given, sampling_params, strict=True))
            said = [[*ids_of(called(("terminate", {"status": "success"})), chat), chat.tokenizer.end], [7, 8]]
            return [
                SimpleNamespace(
                    outputs=[
                        SimpleNamespace(
                            token_ids=ids,
                            finish_reason=reason,
                            logprobs=[{token: SimpleNamespace(logprob=-0.5)} for token in ids],
                        )
                    ]
                )
                for ids, reason in zip(said, ("stop", "length"), strict=True)
            ]

    policy = VllmPolicy(Llm(), chat, [chat.tokenizer.end], 16_000, lambda **given: given)
    cut, done = sorted(played(policy), key=lambda one: one.rollout.ended)
    assert (done.rollout.ended, cut.rollout.ended) == ("terminated", "length")
    assert done.segments[0].scores() == [-0.5 * one for one in done.segments[0].mask]
    assert [given["prompt_token_ids"] for given, _ in asked_for] == [
        one.segments[0].turns[0].prompt for one in (done, cut)
    ]
    told = [told for _, told in asked_for]
    assert len({one["seed"] for one in told}) == 2
    assert {(one["temperature"], one["top_p"], one["max_tokens"], one["logprobs"]) for one in told} == {
        (1.0, 1.0, 64, 0)
    }

    class Endless:
        def generate(self, *given: Any, **more: Any) -> Any:
            return [SimpleNamespace(outputs=[SimpleNamespace(token_ids=[7], finish_reason="stop", logprobs=[])])]

    with pytest.raises(OresmithError, match="without its end token"):
        played(VllmPolicy(Endless(), chat, [chat.tokenizer.end], 16_000, dict), 1)
