"""The process that loads a release back (`loading.load_back`): an order on standard input, one JSON line as answer."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


class DiffersError(Exception):
    """What came back is not what was sent: no further try will change that."""


def main() -> None:
    """Carry out one order."""
    from oresmith.blocks.lifeline import end_with_parent

    end_with_parent()
    order = json.load(sys.stdin)
    os.environ["HF_TOKEN"] = order["token"]
    try:
        _with_timeouts(order["timeout"])
        if order["kind"] == "dataset":
            load_dataset_back(order)
        else:
            load_model_back(order)
    except DiffersError as error:
        print(json.dumps({"loaded": False, "differs": True, "fault": str(error)}))
    except Exception as error:
        print(json.dumps({"loaded": False, "fault": f"{type(error).__name__}: {error}"[:600]}))
    else:
        print(json.dumps({"loaded": True}))


def _with_timeouts(seconds: float) -> None:
    from huggingface_hub import set_client_factory

    from oresmith.release.publish.session import make_client
    from oresmith.release.publish.target import Patience

    set_client_factory(lambda: make_client(Patience(timeout=seconds)))


def load_dataset_back(order: dict[str, Any]) -> None:
    """Every config, all of it and as a stream.

    Raises:
        DiffersError: other configs, splits or rows than were sent.
    """
    import datasets

    where = {"path": order["repository"], "revision": order["revision"], "token": order["token"]}
    names = sorted(datasets.get_dataset_config_names(**where))
    if names != sorted(order["configs"]):
        raise DiffersError(f"configs {names}, sent {sorted(order['configs'])}")
    for name, splits in order["configs"].items():
        whole = datasets.load_dataset(name=name, **where)
        got = {str(split): rows.num_rows for split, rows in whole.items()}
        if got != splits:
            raise DiffersError(f"config {name}: rows {got}, sent {splits}")
        stream = datasets.load_dataset(name=name, streaming=True, **where)
        for split, rows in splits.items():
            first = list(stream[split].take(1))
            if len(first) != min(rows, 1) or (rows and sorted(first[0]) != sorted(whole[split].column_names)):
                raise DiffersError(f"config {name}, split {split}: the stream does not start as the whole does")


def load_model_back(order: dict[str, Any]) -> None:
    """Model, tokenizer and adapter; each tensor is the one that was sent.

    Raises:
        DiffersError: a tensor is missing, left over or other.
    """
    folder = Path(order["folder"])
    if (folder / "config.json").is_file():
        _load_transformers(order, folder)
    for path in sorted(folder.glob("**/*.safetensors")):
        if path.parent != folder:
            _same_file(order, folder, path)


def _load_transformers(order: dict[str, Any], folder: Path) -> None:
    import torch
    from safetensors import safe_open
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"revision": order["revision"], "token": order["token"]}
    model, told = AutoModelForCausalLM.from_pretrained(
        order["repository"], use_safetensors=True, dtype="auto", output_loading_info=True, **where
    )
    wrong = {key: sorted(map(str, value))[:3] for key, value in told.items() if value}
    if wrong:
        raise DiffersError(f"the model's tensors do not fit its code: {wrong}")
    loaded = model.state_dict()
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as tensors:
            for key in tensors.keys():  # noqa: SIM118
                if key not in loaded or not torch.equal(loaded[key], tensors.get_tensor(key)):
                    raise DiffersError(f"tensor {key} is not the one that was sent")
    text = "Find a shirt under 20 dollars."
    tokenizer = AutoTokenizer.from_pretrained(order["repository"], **where)
    if tokenizer(text)["input_ids"] != AutoTokenizer.from_pretrained(folder)(text)["input_ids"]:
        raise DiffersError("the tokenizer is not the one that was sent")


def _same_file(order: dict[str, Any], folder: Path, path: Path) -> None:
    from huggingface_hub import hf_hub_download

    name = path.relative_to(folder).as_posix()
    got = hf_hub_download(order["repository"], name, revision=order["revision"], token=order["token"])
    if Path(got).read_bytes() != path.read_bytes():
        raise DiffersError(f"{name} is not the one that was sent")


if __name__ == "__main__":
    main()
