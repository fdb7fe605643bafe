"""The user's code in torch: rows gathered back in token order, and a batched product with the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from ..expert_rows import check_source
from .operator import Combine

if TYPE_CHECKING:
    import torch


def combine(y: torch.Tensor, weights: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Return the weighted sums; products are summed in fp32."""
    import torch

    row_of = torch.empty(source.numel(), dtype=torch.int64, device=y.device)
    row_of[source.long()] = torch.arange(source.numel(), device=y.device)
    gathered = y.index_select(0, row_of).view(*weights.shape, -1).float()
    return torch.bmm(weights.unsqueeze(1), gathered).squeeze(1).to(y.dtype)


@implementation("moe.combine", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Eager operations."""
    import torch

    w = inputs.workload
    assert isinstance(w, Combine)
    check_source(inputs)
    tensors = [to_tensor(inputs.arrays[name], device) for name in ("y", "weights", "source")]
    latest: dict[str, torch.Tensor] = {}

    def run() -> None:
        with torch.inference_mode():
            latest["out"] = combine(*tensors)

    def output() -> Arrays:
        return {"out": to_array(latest["out"])}

    return Prepared(run, output)
