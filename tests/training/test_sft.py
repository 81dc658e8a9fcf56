"""SFT on the tiny model: the same gradients however rows are packed, the same bytes whenever it is interrupted."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import resource
import signal

import msgspec
import pytest

from oresmith.errors import OresmithError
from oresmith.models.directory import load_model
from oresmith.param_training import Sft, Train
from oresmith.training import sft
from oresmith.training.callbacks import Stop, step_callbacks
from oresmith.training.checkpoints import checkpoint_home, digest_of, drop_checkpoints, newest_checkpoint
from oresmith.training.collate import Collator, row_order
from tests.training.tinyrows import CHATS, rows_of, write_tiny

TRAIN = Train(threads=1, rank=4, alpha=8, checkpoint_steps=2)
FIT = Sft(batch=4, microbatch=4, epochs=2.0)
"""Six updates on twelve rows."""
CLOSE = 1e-5


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    home = tmp_path_factory.mktemp("models")
    return {"hermes": write_tiny(home / "hermes"), "qwen": write_tiny(home / "qwen", "qwen3")}


@pytest.fixture(scope="module")
def rows():
    return rows_of(CHATS["hermes"], 12)


class KilledError(Exception):
    """Stands for a kill: nothing after it runs."""


class Runner:
    """Trains the tiny model in directories of its own."""

    def __init__(self, home, model, rows):
        self.home, self.model, self.rows = home, model, rows
        self.seen: list[int] = []

    def __call__(self, name="a", *, train=TRAIN, fit=FIT, seed=1, at=None, live=None):
        out = self.home / f"out-{name}"
        out.mkdir(exist_ok=True)
        self.seen = []

        def progress(done, total):
            self.seen.append(done)
            if at is not None:
                at(done)

        return sft.fit(
            self.rows,
            self.model,
            train,
            fit,
            seed=seed,
            checkpoints=checkpoint_home(self.home, name, digest_of({"seed": seed})),
            out=out,
            name=name,
            live=live,
            on_progress=progress,
            quiet=True,
        )

    def sha256(self, name="a"):
        [weights] = (self.home / f"out-{name}").rglob("*.safetensors")
        return hashlib.sha256(weights.read_bytes()).hexdigest()


@pytest.fixture
def run(tmp_path, models, rows):
    return Runner(tmp_path, models["hermes"], rows)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, models, rows):
    """A training that nothing interrupted."""
    runner = Runner(tmp_path_factory.mktemp("whole"), models["hermes"], rows)
    return runner(), runner.sha256()


def kill_at(update):
    def at(done):
        if done == update:
            raise KilledError

    return at


def gradients(rows, model, train, fit, home):
    """Of the first update, by our trainer's own steps."""
    order = row_order(len(rows), fit.batch, 1)
    chat = CHATS["hermes" if "hermes" in str(model) else "qwen"]
    trainer = sft.build_trainer(rows, order, model, train, fit, seed=1, checkpoints=home, chat=chat)
    batches = [
        trainer.data_collator([{"row": place} for place in order[start : start + fit.microbatch]])
        for start in range(0, len(order), fit.microbatch)
    ]
    assert any(len(rests) > 1 for batch in batches for _, rests in batch.get("shares", [])) == (
        train.packing == "prefix"
    )
    items = sum((batch["labels"][:, 1:] != -100).sum() for batch in batches)
    loss = sum(trainer.training_step(trainer.model, batch, items) for batch in batches)
    # A fresh LoRA's B is zero, and so its A has no gradient: all weights show more, and the adapter is looked at too.
    return loss.item(), {n: p.grad for n, p in trainer.model.named_parameters() if p.grad is not None}, trainer, order


def separate_rows(rows, order, trainer):
    """The same by the plain loss of each row alone: its supervised tokens over all those of the update."""
    import torch

    trainer.model.zero_grad()
    total = sum(sum(rows[place].mask) for place in order)
    whole = 0.0
    for place in order:
        ids, mask = torch.tensor([rows[place].ids]), torch.tensor(rows[place].mask[1:]).bool()
        scores = trainer.model(input_ids=ids).logits[0, :-1].log_softmax(-1)
        loss = -scores[mask].gather(1, ids[0, 1:][mask][:, None]).sum() / total
        loss.backward()
        whole += loss.item()
    return whole, {n: p.grad for n, p in trainer.model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("family", ["hermes", "qwen"])
@pytest.mark.parametrize("method", ["lora", "full"])
@pytest.mark.parametrize("batches", [("prefix", 4), ("prefix", 2), ("none", 4), ("none", 2)], ids=str)
def test_loss_and_gradients_are_those_of_separate_rows(tmp_path, models, family, method, batches):
    packing, microbatch = batches
    some = [*rows_of(CHATS[family], 4), *rows_of(CHATS[family], 2, "another")]
    train = msgspec.structs.replace(TRAIN, method=method, packing=packing)
    fit = msgspec.structs.replace(FIT, microbatch=microbatch)
    loss, found, trainer, order = gradients(some, models[family], train, fit, tmp_path)
    assert trainer.data_collator.packing == packing
    found = {name: grad.clone() for name, grad in found.items()}
    plain, expected = separate_rows(some, order, trainer)
    assert loss == pytest.approx(plain, abs=CLOSE)
    assert found.keys() == expected.keys()
    assert max(float(grad.abs().max()) for grad in expected.values()) > 100 * CLOSE
    for name, grad in expected.items():
        assert float((found[name] - grad).abs().max()) < CLOSE, name


def test_the_same_seed_gives_the_same_adapter_and_another_seed_another(run, whole):
    again = run()
    assert (again, run.sha256()) == whole
    assert again.steps == 6
    assert again.tokens == 2 * sum(len(row.ids) for row in run.rows)
    assert again.supervised == 2 * sum(sum(row.mask) for row in run.rows)
    assert again.computed < again.tokens
    other = run("other", seed=2)
    assert run.sha256("other") != whole[1]
    assert other.order_sha256 != again.order_sha256


def test_a_killed_training_goes_on_from_its_checkpoint_and_ends_with_the_same_bytes(run, whole):
    with pytest.raises(KilledError):
        run(at=kill_at(5))
    assert run.seen == [1, 2, 3, 4, 5]
    done = run()
    assert run.seen == [5, 6]
    assert done.resumed_from == 4
    assert done._replace(resumed_from=0) == whole[0]
    assert run.sha256() == whole[1]


def test_dropout_too_is_the_same_after_a_resume(run):
    train = msgspec.structs.replace(TRAIN, dropout=0.3)
    run("straight", train=train)
    with pytest.raises(KilledError):
        run(train=train, at=kill_at(3))
    run(train=train)
    assert run.sha256() == run.sha256("straight")


def test_the_same_data_comes_in_the_same_order_after_a_resume(run, monkeypatch):
    given: list[list[int]] = []
    collate = Collator.__call__

    def noting(self, examples):
        given.append([example["row"] for example in examples])
        return collate(self, examples)

    counts = {"tokens": 0, "supervised": 0, "computed": 0}
    monkeypatch.setattr("oresmith.training.sft.check_batches", lambda *args: counts)  # it makes batches, too
    monkeypatch.setattr(Collator, "__call__", noting)
    order = row_order(12, 24, 1)
    with pytest.raises(KilledError):
        run(at=kill_at(5))
    straight = [row for batch in given for row in batch]
    assert straight == order[: len(straight)]
    given.clear()
    run()
    assert [row for batch in given for row in batch] == order[16:]


def test_a_training_that_ended_before_it_was_published_is_not_done_again(run, whole):
    run()
    done = run()
    assert run.seen == []
    assert done.resumed_from == 6
    assert (done._replace(resumed_from=0), run.sha256()) == whole


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_after_the_update_with_a_checkpoint(run, whole, number):
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt, match="after update 3 of 6"):
        run(at=lambda done: os.kill(os.getpid(), number) if done == 3 else None)
    assert signal.getsignal(number) is before
    done = run()
    assert (run.seen, done.resumed_from) == ([4, 5, 6], 3)
    assert run.sha256() == whole[1]


def test_a_second_signal_ends_it_at_once():
    stop = Stop()
    stop(signal.SIGINT, None)
    assert stop.asked
    with pytest.raises(KeyboardInterrupt):
        stop(signal.SIGINT, None)


def test_a_half_checkpoint_is_not_gone_on_from(run, whole):
    with pytest.raises(KilledError):
        run(at=kill_at(5))
    [newest] = (path for path in run.home.rglob("checkpoint-*") if path.is_dir())
    weights = newest / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert newest_checkpoint(newest.parent) is None
    done = run()
    assert run.seen == [1, 2, 3, 4, 5, 6]
    assert (done, run.sha256()) == whole


def test_checkpoints_of_other_parameters_go_and_all_go_after_success(tmp_path):
    first = checkpoint_home(tmp_path, "sft/1", digest_of({"rate": 1}))
    (first / "checkpoint-2").mkdir()
    other = checkpoint_home(tmp_path, "control/sft", digest_of({"rate": 1}))
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    second = checkpoint_home(tmp_path, "sft/1", digest_of({"rate": 2}))
    assert [path.exists() for path in (first, second, other)] == [False, True, True]
    drop_checkpoints(tmp_path, "sft/1")
    assert [path.exists() for path in (second, other)] == [False, True]


def test_only_the_newest_checkpoint_is_kept(run):
    run()
    assert [path.name for path in run.home.rglob("checkpoint-*")] == ["checkpoint-6"]


def test_a_full_disk_ends_it_with_a_sentence_and_keeps_the_earlier_checkpoint(run, whole):
    """A limit on the size of files gives the faults of a full disk, also inside torch and safetensors."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def at(done):
        if done == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))

    try:
        with pytest.raises(OresmithError, match="the disk refused a write") as refusal:
            run(at=at)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "checkpoint of update 2 is kept" in str(refusal.value)
    assert [path.name for path in run.home.rglob("checkpoint-*")] == ["checkpoint-2"]
    done = run()
    assert done.resumed_from == 2
    assert run.sha256() == whole[1]


@pytest.mark.parametrize(
    ("library", "error"),
    [
        ("python", OSError(errno.ENOSPC, "No space left on device")),
        ("safetensors", Exception("I/O error: No space left on device (os error 28)")),
        ("torch", RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 1152 vs 1046")),
    ],
)
def test_every_library_s_word_for_a_full_disk_is_understood(run, monkeypatch, library, error):
    def full(self, *args):
        raise error

    monkeypatch.setattr("transformers.Trainer._save_optimizer_and_scheduler", full)
    with pytest.raises(OresmithError, match="there is no earlier checkpoint"):
        run()


def test_a_fault_that_is_not_the_disk_s_is_not_called_one(run, monkeypatch):
    def broken(self, *args):
        raise ValueError("another fault")

    monkeypatch.setattr("transformers.Trainer._save_optimizer_and_scheduler", broken)
    with pytest.raises(ValueError, match="another fault"):
        run()


@pytest.mark.parametrize("packing", ["none", "prefix"])
def test_a_broken_collator_stops_it_before_anything_is_trained(run, monkeypatch, packing):
    method = "_padded" if packing == "none" else "_packed"
    collate = getattr(Collator, method)

    def with_prompt(self, rows):
        batch = collate(self, rows)
        return batch | {"labels": batch["input_ids"].clone()}

    monkeypatch.setattr(Collator, method, with_prompt)
    with pytest.raises(OresmithError, match="than what the model is to emit"):
        run(train=msgspec.structs.replace(TRAIN, packing=packing))
    assert run.seen == []


def test_a_loss_that_is_no_number_ends_it(run, monkeypatch):
    summed = sft.trainer_class()._summed
    monkeypatch.setattr(sft.trainer_class(), "_summed", lambda *args: summed(*args) * float("nan"))
    with pytest.raises(OresmithError, match="the loss is no number"):
        run()
    assert run.seen == [1]


def test_the_curve_has_a_row_an_update_and_dvclive_has_it_whole_after_a_resume(run, whole, tmp_path):
    live = tmp_path / "live"
    with pytest.raises(KilledError):
        run(at=kill_at(5), live=live)
    run(live=live)
    curve = whole[0].curve
    assert [row["step"] for row in curve] == [1, 2, 3, 4, 5, 6]
    assert set(curve[0]) == {"step", "loss", "grad_norm", "learning_rate", "mean_token_accuracy"}
    lines = (live / "plots" / "metrics" / "loss.tsv").read_text().split()
    assert lines[::2] == ["step", "1", "2", "3", "4", "5", "6"]
    assert [float(value) for value in lines[3::2]] == [row["loss"] for row in curve]
    assert json.loads((live / "metrics.json").read_text())["step"] == 6
    assert not (live / "dvc.yaml").exists()


def test_it_learns_and_all_weights_can_be_trained(run):
    fit = msgspec.structs.replace(FIT, learning_rate=3e-3, max_steps=12)
    done = run(train=msgspec.structs.replace(TRAIN, method="full"), fit=fit)
    assert done.steps == 12
    assert done.curve[-1]["loss"] < 0.7 * done.curve[0]["loss"]
    load_model(run.home / "out-a" / "model")


def test_updates_follow_max_steps_or_epochs_and_the_schedule_ends_at_zero(run):
    done = run(fit=msgspec.structs.replace(FIT, max_steps=3, schedule="linear", warmup=0.0))
    assert done.steps == 3
    rate = FIT.learning_rate
    assert [row["learning_rate"] for row in done.curve] == pytest.approx([rate, rate * 2 / 3, rate / 3])
    assert math.isclose(run("b", fit=msgspec.structs.replace(FIT, epochs=0.5)).steps, 2)


def test_what_cannot_be_split_or_run_is_refused(run):
    with pytest.raises(OresmithError, match="split evenly"):
        run(fit=msgspec.structs.replace(FIT, microbatch=3))
    with pytest.raises(OresmithError, match="no rows"):
        Runner(run.home, run.model, [])()


def test_beginnings_are_not_shared_where_activations_are_recomputed(run):
    done = run(train=msgspec.structs.replace(TRAIN, activation_checkpointing=True))
    assert done.packing == "none"
    assert done.steps == 6


def test_progress_says_what_is_left_where_no_terminal_is(run, capsys):
    from transformers import TrainerControl, TrainerState

    [step] = step_callbacks("sft/1", Stop())
    state = TrainerState(max_steps=20)
    step.on_train_begin(None, state, TrainerControl())
    for update in range(1, 21):
        state.global_step = update
        state.log_history.append({"loss": 1.5, "step": update, "epoch": 0.1})
        step.on_log(None, state, TrainerControl())
    step.on_train_end(None, state, TrainerControl())
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert lines[1].startswith("sft/1: 2 of 20 updates, loss 1.5000, about 0.0 min left")
    assert lines[-1] == "sft/1: 20 of 20 updates, loss 1.5000"
