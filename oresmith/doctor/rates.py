"""Every constant that an estimate rests on, and where it comes from: measured, fitted, published or assumed."""

from __future__ import annotations

from typing import NamedTuple

CPU_TRAIN_FLOPS = 100e9
"""Measured: LoRA in float32 trains SmolLM2-135M at about 150 tokens per core and second without avx512_bf16, in rows of
2,000; at 4 operations a parameter and token (LoRA needs no gradients of the weights), attention counted, it is this."""
CPU_PREFILL_FLOPS = 150e9
"""Fitted: the stage `rollout` in float32 took 55 core-seconds for 9,850 tokens read and 4,005 written in batches of 16
(SmolLM2-135M). How they share that time is assumed: 560 tokens read a core and second .."""
CPU_DECODE_FLOPS = 27e9
""".. and 100 written."""
CPU_RUNTIME_BYTES = 0.45 * 2**30
"""Measured: resident memory of torch, transformers, TRL and PEFT before any weight (SmolLM2-135M, 512 and 1,024 tokens,
extrapolated to none)."""
GPU_RUNTIME_BYTES = 1.5 * 2**30
"""Assumed: CUDA context, kernels and fragmentation."""
HIDDEN_COPIES, FEED_FORWARD_COPIES = 7, 4
"""Measured: numbers that autograd keeps a token and layer of Llama's kind with LoRA on all linear layers, in hidden and
feed-forward widths (10,107 at 576 and 1,536; Qwen3's norms of queries and keys add a tenth)."""
ALLOCATOR = 1.3
"""Assumed: what the allocator holds beyond that, gradients on their way included."""
LOGIT_COPIES = 3
"""Assumed: logits in float32, their softmax and its gradient, at supervised positions only."""

MFU_TRAIN = 0.35
"""Assumed: share of a GPU's dense bfloat16 peak that LoRA training reaches with activation checkpointing."""
MFU_PREFILL = 0.4
"""Assumed, of vLLM."""
GPU_DECODE_TOKENS = 4000.0
"""Assumed: tokens a second and GPU that vLLM writes for a model of 4 billion parameters in bfloat16, 64 requests at a
time; other sizes in proportion."""
GPU_DECODE_PARAMETERS = 4e9

TURNS = 6.0
"""Assumed: model turns of an episode (search, views, recommendation, end)."""
TURN_TOKENS = 60.0
"""Assumed: tokens that the model writes in a turn."""
DATA_ROWS_PER_CORE_S = 40.0
"""Measured: traces that all data stages together, the arena's play included, bring through (4,746 in 122 core-s)."""
DATA_START_S = 45.0
"""Measured: starting the data stages of two snapshots, one after the other."""
DATA_BYTES_PER_ROW = 17e3
"""Measured: disk of a trace over all data stages, catalogues and indexes included (78 MB of 4,746 traces)."""
STAGE_START_S = 12.0
"""Measured, within a few seconds: importing torch, TRL and PEFT, reading corpus and model, checking rows."""
SUCCESS_SHARE = 0.4
"""Assumed: sampled episodes that are strict successes, which decides how many rows rejection and the teacher add."""
TRAIN_SHARE = 0.2
"""Measured: traces of an arena whose rows end in the train split of `sft`, in embedded worlds."""
PUBLISHED_ROWS, PUBLISHED_PROBLEMS = 15_269, 469
"""Published: train rows of the SN15 corpus and the distinct queries among them; taken for sources not yet at hand."""
HELDOUT_PROBLEMS = 240
"""Measured: held-out problems of the embedded worlds, where the parameters take all."""
ROW_TOKENS = {"compare/1": 2000.0, "compact/1": 3500.0, "raw/1": 6000.0}
"""Measured in the embedded world for compare/1 (median), assumed for the others: tokens of a row by view."""
PREFIX_TOKENS = 930.0
"""Measured: system prompt and tools, the beginning that rows share."""
SUPERVISED_SHARE = 0.25
"""Assumed: share of a row's tokens that the model is to write; rows of the embedded world lie below it."""


class Device(NamedTuple):
    """A GPU as its maker's data sheet states it."""

    name: str
    tflops: float
    """Dense bfloat16, in 10^12 a second."""
    memory_gib: float


DEVICES = (
    Device("B200", 2250, 180),
    Device("H200", 989, 141),
    Device("H100", 989, 80),
    Device("A100", 312, 80),
    Device("L40S", 362, 48),
    Device("RTX 4090", 165, 24),
    Device("A10", 125, 24),
)
"""Published. The first whose name stands in what the driver reports counts."""
PLANNED = DEVICES[2]
"""What a plan without hardware reckons with."""


def device_of(name: str) -> Device | None:
    """The data sheet of a GPU by the name that its driver reports; None for one that is not listed."""
    return next((device for device in DEVICES if device.name in name), None)
