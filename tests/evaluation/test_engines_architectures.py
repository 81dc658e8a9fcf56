"""Other architectures are computed as they compute themselves, or refused; packed layers do what layers do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from oresmith.errors import OresmithError
from oresmith.evaluation.engines.inprocess import InProcess
from oresmith.evaluation.engines.linear import pack
from oresmith.evaluation.engines.packed import PackedModel
from oresmith.evaluation.engines.probe import probe
from tests.evaluation.engines_build import tiny

SMALL = {
    "vocab_size": 200,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
}
LOOKS_BACK = {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 0}


@pytest.mark.parametrize(
    "config",
    [
        transformers.LlamaConfig(**SMALL),
        transformers.Qwen3Config(**SMALL, **LOOKS_BACK),
        transformers.SmolLM3Config(**SMALL, pad_token_id=0),
        transformers.GPT2Config(vocab_size=200, n_embd=32, n_layer=2, n_head=2, scale_attn_by_inverse_layer_idx=True),
        transformers.OlmoeConfig(**SMALL, num_experts=4, num_experts_per_tok=2),
    ],
    ids=lambda config: config.model_type,
)
def test_other_architectures_are_computed_as_they_compute_themselves(config: Any) -> None:
    torch.manual_seed(0)
    packed, _ = probe(transformers.AutoModelForCausalLM.from_config(config).eval(), 200)
    assert isinstance(packed, PackedModel)


@pytest.mark.parametrize(
    "config",
    [
        transformers.Gemma2Config(**SMALL),
        transformers.MambaConfig(vocab_size=200, hidden_size=32, num_hidden_layers=2),
    ],
    ids=lambda config: config.model_type,
)
def test_a_model_that_is_not_computed_right_is_refused(config: Any) -> None:
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with pytest.raises(OresmithError, match="this architecture"):
        probe(model, 200)


def test_attention_that_is_not_ours_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from oresmith.evaluation.engines import packed

    one = packed._one
    monkeypatch.setattr(packed, "_one", lambda query, keys, *rest, **more: one(query, keys * 1.3, *rest, **more))
    with pytest.raises(OresmithError, match="scores differ"):
        InProcess(tiny(tmp_path))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_packed_layer_computes_what_the_layer_does_and_each_row_alike(bias: bool, threads: int) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(576, 96, bias=bias), torch.nn.Linear(96, 576, bias=bias))
    model.dtype, model.device = torch.float32, torch.device("cpu")  # as a model of transformers has them
    rows, before = torch.randn(1, 300, 576), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            expected = model(rows)
            if not pack(model):
                pytest.skip("this PyTorch has no oneDNN")
            found = model(rows)
            assert float((found - expected).abs().max()) < 1e-4
            assert torch.allclose(model(rows[:, ::3]), expected[:, ::3], atol=1e-4)
            for count in (2, 3, 16, 100):
                assert torch.equal(model(rows[:, 7 : 7 + count]), found[:, 7 : 7 + count])
    finally:
        torch.set_num_threads(before)


def test_layers_of_other_numbers_are_left_as_they_are() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4)).to(torch.bfloat16)
    model.dtype = torch.bfloat16
    assert not pack(model)
    assert type(model[0]) is torch.nn.Linear
