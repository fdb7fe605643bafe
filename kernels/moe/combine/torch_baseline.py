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


@implementation("moe.combine", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Eager operations; products are summed in fp32."""
    import torch

    w = inputs.workload
    assert isinstance(w, Combine)
    check_source(inputs)
    y, weights, source = (to_tensor(inputs.arrays[name], device) for name in ("y", "weights", "source"))
    rows = torch.arange(w.slots, device=device)
    row_of = torch.empty_like(rows)
    latest: dict[str, torch.Tensor] = {}

    def run() -> None:
        with torch.inference_mode():
            row_of[source.long()] = rows
            gathered = y.index_select(0, row_of).view(w.tokens, w.top_k, w.hidden).float()
            out = torch.bmm(weights.unsqueeze(1), gathered).squeeze(1)
            latest["out"] = out.to(y.dtype)

    def output() -> Arrays:
        return {"out": to_array(latest["out"])}

    return Prepared(run, output)
