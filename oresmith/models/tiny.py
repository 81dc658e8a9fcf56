"""The tiny model for tests: Qwen3's architecture and control tokens, a few hundred thousand random parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from oresmith.errors import OresmithError
from oresmith.models.embedded import save_weights
from oresmith.models.replies import END

ORIGIN = "random weights of Qwen3's architecture"
NOTES = ["For tests: the weights are random, and nothing it says means anything."]
CONTEXT = 16_384
"""Enough for the longest rows of the real run."""
VOCABULARY = 576
"""As many tokens as the tokenizer has, so that whatever is sampled can be decoded."""
SPECIAL = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> "
    "<|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|>"
).split()
"""Qwen3's control tokens, in its order .."""
TAGS = (
    "<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|> "
    "<tool_response> </tool_response> <think> </think>"
).split()
""".. and those that are no special tokens, which decoders show."""
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Qwen's pattern of words."""
_CORPUS = """\
I am looking for a product that costs between 100 and 250, with free shipping and cash on delivery, from a shop.
The customer wants a blue cotton shirt in size large. I search first, compare the titles, and look at the price of each.
Let me view the product information before I recommend it. The first item matches the brand and the material.
{"name": "find_product", "arguments": {"q": "blue cotton shirt", "page": 1, "price": "100-250", "service": "COD"}}
{"name": "view_product_information", "arguments": {"product_ids": "591486855,4410867766"}}
{"name": "recommend_product", "arguments": {"product_ids": "591486855"}}
{"name": "terminate", "arguments": {"status": "success"}}
[{"product_id": "4410867766", "shop_id": "1203", "title": "Wireless mouse, black", "price": 149.5, "sold_count": 87}]
# Tools You may call one or more functions to assist with the user query. You are provided with function signatures
For each function call, return a json object with function name and arguments within XML tags: {"type": "function"}
"description": "Search words", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}, "required"
system user assistant tool success failure sort priceasc pricedesc order default official COD flashsale
"""


def tiny_tokenizer() -> bytes:
    """A small byte-level `tokenizer.json` with Qwen3's control tokens; no torch is needed."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL) - len(TAGS),
        min_frequency=1,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS.splitlines(), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in TAGS])
    return bytes(tokenizer.to_str(pretty=False), "utf-8")


def write_tiny(target: Path, dtype: str, seed: int) -> None:
    """Write config, tokenizer and random weights.

    Args:
        target: an existing directory.
        dtype: of the weights, bfloat16 or float32.
        seed: of the weights.

    Raises:
        OresmithError: a package is missing.
    """
    try:
        import torch
        from transformers import Qwen3Config, Qwen3ForCausalLM
    except ImportError as error:
        raise OresmithError("a package for models is not installed", todo="pip install 'oresmith[train]'") from error
    raw = tiny_tokenizer()
    control = {token["content"]: token["id"] for token in json.loads(raw)["added_tokens"]}
    config = tiny_config(control) | {"dtype": dtype}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(Qwen3Config(**{key: value for key, value in config.items() if key != "dtype"}))
    weights = {name: value for name, value in model.state_dict().items() if name != "lm_head.weight"}
    (target / "tokenizer.json").write_bytes(raw)
    for name, content in (
        ("config.json", config),
        ("generation_config.json", {key: config[key] for key in ("eos_token_id", "pad_token_id")}),
        ("tokenizer_config.json", _tokenizer_config()),
    ):
        (target / name).write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", "utf-8")
    save_weights(target, weights, dtype)


def tiny_config(control: dict[str, int]) -> dict[str, Any]:
    """The model's config.json; `control` gives the ids of the end and the padding token."""
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "attention_bias": False,
        "eos_token_id": control[END],
        "head_dim": 32,  # vLLM's attention on CPUs takes no 16
        "hidden_act": "silu",
        "hidden_size": 128,
        "intermediate_size": 256,
        "max_position_embeddings": CONTEXT,
        "model_type": "qwen3",
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "pad_token_id": control["<|endoftext|>"],
        "rms_norm_eps": 1e-06,
        "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
        "tie_word_embeddings": True,
        "vocab_size": VOCABULARY,
    }


def _tokenizer_config() -> dict[str, Any]:
    return {
        "clean_up_tokenization_spaces": False,
        "eos_token": END,
        "model_max_length": CONTEXT,
        "pad_token": "<|endoftext|>",
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
