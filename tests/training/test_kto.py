"""KTO: what its loss covers, in which order and with which weights rows come, and when the step refuses or stops."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from msgspec.structs import replace

from oresmith.errors import OresmithError
from oresmith.models import HERMES, QWEN3, Chat
from oresmith.models.base import write_base
from oresmith.models.replies import END, write_reply
from oresmith.models.tiny import tiny_tokenizer
from oresmith.models.tokenizer import ChatTokenizer
from oresmith.param_models import Base
from oresmith.param_training import Kto, Train
from oresmith.training import kto_forward
from oresmith.training.kto import build_trainer, fit_kto, plan_kto
from oresmith.training.kto_collate import PAIRS, KtoCollator, check_batches
from oresmith.training.kto_rows import KtoRows
from oresmith.training.rowset import Talk, talk_rows
from tests.models.build import TOOLS, assistant, call, tool, user

TRAIN = Train(rank=4, alpha=8, threads=1, packing="none", checkpoint_steps=2)
SETTINGS = Kto(enabled=True, batch=4, microbatch=2, max_steps=3, learning_rate=1e-3, seed=1)
SHARING = replace(SETTINGS, batch=8, microbatch=8)
RESULT = "RESULT OF THE SEARCH"


def talk(number, success):
    """A conversation of three answers, other words for each number."""
    word = f"thing {number}"
    told = "It matches." if success else "Whatever."
    return Talk(
        row_id=f"{'good' if success else 'bad'}-{number}",
        messages=[
            {
                "role": "system",
                "content": "You buy for a shop. " * 9 if number % 2 else "You shop for the user. " * 5,
            },
            user(f"I want a {word}."),
            assistant("", f"I search {word}.", call(q=word)),
            tool(f"{RESULT} {number}: " + "a b c " * (number % 3)),
            assistant("", told, call("recommend_product", 1, product_ids=str(number))),
            tool("ok", 1),
            assistant(f"Done with {number}."),
        ],
        tools=TOOLS[:1],
        problem=f"problem {number % 5}",
        cluster="c",
    )


def rows_of(chat, good=6, bad=6):
    talks = [talk(number, success) for success, count in ((True, good), (False, bad)) for number in range(count)]
    rows = talk_rows(talks, chat, max_tokens=None)
    return KtoRows(rows, {one.row_id: one.row_id.startswith("good") for one in talks})


def spans(ids, mask, chat):
    """The texts that a mask covers."""
    edges = [place for place, (a, b) in enumerate(pairwise([0, *mask, 0])) if a != b]
    return [chat.tokenizer.decode(ids[a:b]) for a, b in zip(edges[::2], edges[1::2], strict=True)]


@pytest.fixture(scope="module")
def hermes():
    return Chat(HERMES, ChatTokenizer(tiny_tokenizer()))


@pytest.fixture(scope="module")
def qwen():
    return Chat(QWEN3, ChatTokenizer(tiny_tokenizer()))


@pytest.fixture(scope="module", params=["hermes", "qwen"])
def chat(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def tiny_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny")
    write_base(Base(model="tiny", dtype="float32"), path)
    return path


# What the loss covers.


def test_every_loss_of_a_batch_covers_the_assistants_turns_and_nothing_else(chat):
    chosen = rows_of(chat)
    rows = chosen.rows.rows
    plan = plan_kto(rows, chosen.labels(), SETTINGS)
    collator = KtoCollator(rows, chosen.labels(), pad=chat.tokenizer.end)
    for start in range(0, len(plan.order), 2):
        places = plan.order[start : start + 2]
        batch = collator([{"row": place} for place in places])
        for prefix, answering in zip(PAIRS, (places, places[::-1]), strict=True):
            for n, place in enumerate(answering):
                said = [
                    write_reply(dict(message), always_thinks=chat.template.always_thinks)
                    for message in chosen.rows.answers(rows[place])
                ]
                ids, mask = batch[prefix + "input_ids"][n].tolist(), batch[prefix + "completion_mask"][n].tolist()
                assert spans(ids, mask, chat) == said
                assert all(text.endswith(END) and RESULT not in text for text in said)
        assert batch["label"].tolist() == [rows[place].row_id.startswith("good") for place in places]


def test_a_mismatched_row_is_one_rows_prompt_and_anothers_completion(chat):
    chosen = rows_of(chat, 2, 1)
    rows = chosen.rows.rows[:3]
    batch = KtoCollator(rows, [True, True, False], pad=0)([{"row": place} for place in (0, 1, 2)])
    for n, before in enumerate((2, 0, 1)):
        prompt, completion = (row.ids[: row.mask.index(1)] for row in (rows[n], rows[before]))
        length = int(batch["KL_attention_mask"][n].sum())
        assert batch["KL_input_ids"][n].tolist()[:length] == prompt + rows[before].ids[len(completion) :]


def test_a_template_that_rewrites_earlier_turns_gives_a_row_a_turn(qwen):
    chosen = rows_of(qwen, 2, 2)
    assert len(chosen.rows.rows) == 4 * 3
    assert chosen.labels() == [True] * 6 + [False] * 6


def stripped(row, chat):
    """No end token in the loss."""
    return replace(
        row, mask=[one if token != chat.tokenizer.end else 0 for token, one in zip(row.ids, row.mask, strict=True)]
    )


def with_prompt(row, chat):
    return replace(row, mask=[1] * len(row.mask))


def with_result(row, chat):
    """All after the prompt, as TRL's own collator has it."""
    return replace(row, mask=[0] * row.mask.index(1) + [1] * (len(row.mask) - row.mask.index(1)))


def without_any(row, chat):
    return replace(row, mask=[0] * len(row.mask))


@pytest.mark.parametrize("broken", [stripped, with_prompt, with_result, without_any])
def test_a_broken_mask_stops_the_step_before_anything_is_trained(broken, chat, tiny_dir, tmp_path):
    chosen = rows_of(chat)
    plan = plan_kto(chosen.rows.rows, chosen.labels(), SETTINGS)
    seen_last = plan.order[-1]
    chosen.rows.rows[seen_last] = broken(chosen.rows.rows[seen_last], chat)
    with pytest.raises(OresmithError, match="would not cover just what the model is to emit"):
        fit_kto(
            chosen, plan, tiny_dir, TRAIN, SETTINGS, chat=chat, checkpoints=tmp_path, out=tmp_path / "out", quiet=True
        )
    assert not (tmp_path / "out").exists()


def test_padding_in_the_loss_is_found(chat):
    chosen = rows_of(chat)

    def careless(examples):
        batch = KtoCollator(chosen.rows.rows, chosen.labels(), pad=chat.tokenizer.end)(examples)
        batch["KL_completion_mask"][batch["KL_attention_mask"] == 0] = 1
        return batch

    plan = plan_kto(chosen.rows.rows, chosen.labels(), SETTINGS)
    with pytest.raises(OresmithError, match="padding is in the loss"):
        check_batches(careless, plan.order, 2, chosen.rows, chat=chat, context=10_000)


def test_a_mismatched_row_beyond_the_models_context_is_refused_and_not_cut(chat):
    chosen = rows_of(chat)
    plan = plan_kto(chosen.rows.rows, chosen.labels(), SETTINGS)
    collator = KtoCollator(chosen.rows.rows, chosen.labels(), pad=0)
    longest = check_batches(collator, plan.order, 2, chosen.rows, chat=chat, context=10_000)["longest_mismatched"]
    with pytest.raises(OresmithError, match="nothing is cut"):
        check_batches(collator, plan.order, 2, chosen.rows, chat=chat, context=longest - 1)


# What is refused.


@pytest.mark.parametrize("sizes", [{"batch": 1, "microbatch": 1}, {"batch": 4, "microbatch": 1}])
def test_fewer_than_two_rows_at_the_same_time_are_refused(hermes, sizes):
    chosen = rows_of(hermes)
    with pytest.raises(OresmithError, match="2 or more"):
        plan_kto(chosen.rows.rows, chosen.labels(), replace(SETTINGS, **sizes))


@pytest.mark.parametrize(("good", "bad"), [(3, 0), (0, 3)])
def test_rows_of_one_class_only_are_refused(hermes, good, bad):
    chosen = rows_of(hermes, good, bad)
    with pytest.raises(OresmithError, match="successes and failures"):
        plan_kto(chosen.rows.rows, chosen.labels(), SETTINGS)


# The trainer.


def fitted(chosen, start, folder, train=TRAIN, settings=SETTINGS, **options):
    chat = Chat.load(start)
    plan = plan_kto(chosen.rows.rows, chosen.labels(), settings)
    options = {"checkpoints": folder / "checkpoints", "out": folder / "out", "quiet": True} | options
    options["checkpoints"].mkdir(parents=True, exist_ok=True)
    return fit_kto(chosen, plan, start, train, settings, chat=chat, **options)


def adapter(folder):
    return (folder / "out/adapter/adapter_model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def chosen(qwen):
    return rows_of(qwen)


@pytest.fixture(scope="module")
def whole(chosen, tiny_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return fitted(chosen, tiny_dir, folder), folder


def test_every_update_logs_its_kl_and_what_was_seen_is_accounted_for(whole):
    done, _ = whole
    assert [row["step"] for row in done.outcome.curve] == [1, 2, 3]
    assert all(row["kl"] >= 0 and "rewards/margins" in row for row in done.outcome.curve)
    assert done.facts["desirable_seen"] + done.facts["undesirable_seen"] == 12
    assert done.facts["checked"]["batches"] == 6
    assert 0 < done.outcome.supervised < done.outcome.tokens
    json.dumps(done.facts)


def test_a_killed_training_goes_on_and_comes_to_the_same_adapter(chosen, tiny_dir, tmp_path, whole):
    def die(done, total):
        if done == 3:
            raise SystemExit

    with pytest.raises(SystemExit):
        fitted(chosen, tiny_dir, tmp_path, on_progress=die)
    done = fitted(chosen, tiny_dir, tmp_path)
    assert done.outcome.resumed_from == 2
    assert adapter(tmp_path) == adapter(whole[1])
    assert done.outcome.curve == whole[0].outcome.curve


def test_the_training_stops_where_the_kl_passes_its_bound(chosen, tiny_dir, tmp_path):
    settings = replace(SETTINGS, learning_rate=0.5, warmup=0.0, max_kl=1e-4, max_steps=20)
    with pytest.raises(OresmithError, match="KTO has left its bound"):
        fitted(chosen, tiny_dir, tmp_path, settings=settings)
    assert not (tmp_path / "out").exists()


def test_the_trainer_takes_the_rows_in_the_planned_order_and_cuts_none(chosen, tiny_dir, tmp_path):
    rows = chosen.rows.rows
    plan = plan_kto(rows, chosen.labels(), SETTINGS)
    collator = KtoCollator(rows, chosen.labels(), pad=0)
    trainer = build_trainer(collator, plan, tiny_dir, TRAIN, SETTINGS, checkpoints=tmp_path)
    seen = [
        row[:length].tolist()
        for batch in trainer.get_train_dataloader()
        for row, length in zip(batch["input_ids"], batch["attention_mask"].sum(1), strict=True)
    ]
    assert seen == [rows[place].ids for place in plan.order]
    assert trainer.desirable_weight == plan.weights.desirable
    assert trainer.undesirable_weight == plan.weights.undesirable


def gradients(chosen, start, folder, packing, method="lora"):
    """Loss, metrics and gradients of one batch of a policy that has left its reference."""
    import torch

    plan = plan_kto(chosen.rows.rows, chosen.labels(), SHARING)
    collator = KtoCollator(chosen.rows.rows, chosen.labels(), pad=0)
    train = replace(TRAIN, packing=packing, method=method)
    trainer = build_trainer(collator, plan, start, train, SHARING, checkpoints=folder)
    generator = torch.Generator().manual_seed(7)
    for parameter in trainer.model.parameters():
        if parameter.requires_grad:
            parameter.data += 0.02 * torch.randn(parameter.shape, generator=generator)
    trainer.model.train()
    loss = trainer.compute_loss(trainer.model, next(iter(trainer.get_train_dataloader())))
    loss.backward()
    found = {name: one.grad for name, one in trainer.model.named_parameters() if one.grad is not None}
    return loss.item(), {key: value[0] for key, value in trainer._metrics["train"].items()}, found


@pytest.fixture(params=[("qwen", "lora", True), ("hermes", "full", True), ("hermes", "lora", False)])
def case(request, monkeypatch):
    """Template, method, and the lengths of the beginnings that were shared; rows go one by one, or not."""
    family, method, single = request.param
    lengths = []

    def counted(ids, model):
        lengths.append(ids.shape[1])
        return beginning(ids, model)

    beginning = kto_forward._beginning
    monkeypatch.setattr(kto_forward, "_beginning", counted)
    monkeypatch.setattr(kto_forward, "one_by_one", lambda ids: single)
    return family, method, lengths


def test_sharing_beginnings_changes_neither_loss_nor_gradients(case, tiny_dir, tmp_path, qwen, hermes):
    import torch

    chosen, method = rows_of({"qwen": qwen, "hermes": hermes}[case[0]]), case[1]
    loss, metrics, plain = gradients(chosen, tiny_dir, tmp_path, "none", method)
    assert not case[2]
    shared_loss, shared_metrics, shared = gradients(chosen, tiny_dir, tmp_path, "prefix", method)
    assert len(set(case[2])) > 1  # beginnings of several lengths were shared
    assert shared_loss == pytest.approx(loss, abs=1e-6)
    assert shared_metrics == pytest.approx(metrics, rel=1e-4, abs=1e-4)
    assert metrics["kl"] > 0 or metrics["rewards/chosen"] != 0
    assert shared.keys() == plain.keys()
    largest = max(one.abs().max() for one in plain.values())
    assert all(torch.allclose(shared[name], plain[name], atol=1e-5 * largest, rtol=1e-4) for name in plain)
