"""The trainers of the real run are built from its own parameters, so that no slip in them waits for a GPU.

The stand-in has Qwen3's architecture and template, and random weights. What differs from the real run is the hardware:
the device, and vLLM, which is built as configuration only.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oresmith.models import Chat
from oresmith.models.base import write_base
from oresmith.param_models import Base
from oresmith.profiles import load_profile
from tests.code_deps import ROOT

pytest.importorskip("trl", reason="the extra `train` is not installed")
PARAMS = load_profile("sn15", ROOT)
TRAIN = replace(PARAMS.train, device="cpu")


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    where = tmp_path_factory.mktemp("stand-in")
    write_base(Base(model="tiny", template=PARAMS.base.template, min_context=PARAMS.base.min_context), where)
    return where


@pytest.fixture(scope="module")
def chat(start):
    return Chat.load(start)


def built(trainer, fit):
    """What every step's trainer must hold of the parameters."""
    args = trainer.args
    assert args.bf16 and args.learning_rate == fit.learning_rate
    assert args.per_device_train_batch_size == fit.microbatch
    assert args.per_device_train_batch_size * args.gradient_accumulation_steps == fit.batch
    assert args.gradient_checkpointing == TRAIN.activation_checkpointing
    assert args.save_steps == TRAIN.checkpoint_steps
    lora = trainer.model.peft_config["default"]
    assert (lora.r, lora.lora_alpha) == (TRAIN.rank, TRAIN.alpha)
    wrapped = {
        name.split(".lora_A")[0].split(".")[-1] for name, _ in trainer.model.named_parameters() if "lora_A" in name
    }
    assert wrapped == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    weights = {str(one.dtype) for one in trainer.model.parameters() if not one.requires_grad}
    assert weights == {"torch.bfloat16"}


@pytest.mark.parametrize("step", ["sft", "rejection", "teacher"])
def test_the_sft_steps(step, start, chat, tmp_path):
    from oresmith.training.collate import row_order
    from oresmith.training.sft import build_trainer
    from tests.training.tinyrows import CHATS, rows_of

    fit = getattr(PARAMS, step)
    rows = rows_of(CHATS["qwen"], 4)
    order = row_order(len(rows), 2 * fit.batch, 1)
    built(build_trainer(rows, order, start, TRAIN, fit, seed=1, checkpoints=tmp_path, chat=chat), fit)


def test_kto(start, chat, tmp_path):
    from oresmith.training.kto import build_trainer, plan_kto
    from oresmith.training.kto_collate import KtoCollator
    from tests.training.test_kto import rows_of

    found = rows_of(chat)
    planned = plan_kto(found.rows.rows, found.labels(), PARAMS.kto)
    collator = KtoCollator(found.rows.rows, found.labels(), pad=chat.tokenizer.end)
    trainer = build_trainer(collator, planned, start, TRAIN, PARAMS.kto, checkpoints=tmp_path)
    built(trainer, PARAMS.kto)
    assert trainer.args.beta == 0.02


def test_grpo(start, chat, tmp_path):
    from oresmith.training.grpo import build_trainer
    from oresmith.training.grpo_plan import schedule
    from tests.training.grpo_build import cases

    settings = replace(PARAMS.grpo, rollouts="inprocess")
    trainer = build_trainer(schedule(cases(), settings), start, TRAIN, settings, chat=chat, checkpoints=tmp_path)
    built(trainer, settings)
    assert trainer.loss_type == "dr_grpo" and trainer.args.scale_rewards == "none"


def test_grpos_configuration_for_vllm(tmp_path):
    from trl.trainer.grpo_config import GRPOConfig

    from oresmith.training.grpo_plan import grpo_arguments

    made = GRPOConfig(**grpo_arguments(TRAIN, PARAMS.grpo, home=tmp_path, context=40_960))
    assert made.use_vllm and made.vllm_mode == "colocate"
    assert made.max_completion_length == PARAMS.grpo.max_completion
    assert made.vllm_max_model_length >= PARAMS.train.max_tokens


def test_rows_of_the_longest_length_are_within_the_models_context(chat):
    from oresmith.doctor.sizes import QWEN3_4B

    assert PARAMS.train.max_tokens + PARAMS.rollout.max_new_tokens <= QWEN3_4B["max_position_embeddings"]
    assert chat.template.id.startswith("qwen3")


def test_the_batches_are_shared_evenly_by_the_launchers_processes():
    from oresmith.yamlfile import read_yaml

    processes = read_yaml(ROOT / PARAMS.run.launch.split()[-1])["num_processes"]
    for step in (PARAMS.sft, PARAMS.rejection, PARAMS.teacher, PARAMS.kto, PARAMS.grpo):
        assert step.batch % (step.microbatch * processes) == 0
