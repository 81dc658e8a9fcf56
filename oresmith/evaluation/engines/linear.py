"""Linear layers whose products do not depend on how many rows they are computed with.

PyTorch's own product of a few rows is another one than that of many: it differs in the last bits and, from two rows to
sixteen, costs nearly as much as sixteen. oneDNN's, with weights put in its order once, takes each row alike from two
rows on, on any number of threads, and is faster in between.
"""

from __future__ import annotations

from typing import Any

import torch

_ROWS = 16
"""For which the weights are put in order."""


class PackedLinear(torch.nn.Module):  # type: ignore[misc]
    """Takes the place of a linear layer in float32, for inference."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self._shape = tuple(layer.weight.shape)
        self._weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), _ROWS)
        self._bias = None if layer.bias is None else layer.bias.detach()

    def refresh(self, kind: str, tensor: Any) -> None:
        """Take another `weight` or `bias` of the same shape.

        Raises:
            ValueError: another shape, or a part that the layer has not.
        """
        if kind == "bias" and self._bias is not None and tensor.shape == self._bias.shape:
            self._bias = tensor.detach().float().clone()
        elif kind == "weight" and tuple(tensor.shape) == self._shape:
            self._weight = torch.ops.mkldnn._reorder_linear_weight(tensor.detach().float(), _ROWS)
        else:
            raise ValueError(f"no {kind} of shape {tuple(tensor.shape)}")

    def forward(self, rows: Any) -> Any:
        """Shape (.., inputs) to (.., outputs)."""
        return torch.ops.mkldnn._linear_pointwise(rows, self._weight, self._bias, "none", [], "")


def pack(model: Any) -> bool:
    """Replace the linear layers of a model; says whether this is possible here.

    Args:
        model: of transformers. Only float32 on the CPU is replaced.
    """
    possible = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    if not possible or model.dtype != torch.float32 or model.device.type != "cpu":
        return False
    found = [
        (module, name, layer)
        for module in model.modules()
        for name, layer in module.named_children()
        if type(layer) is torch.nn.Linear
    ]
    for module, name, layer in found:
        setattr(module, name, PackedLinear(layer))
    return True
