"""The user's code in torch: a loop over the experts that have rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from .operator import ExpertGemm, check_counts

if TYPE_CHECKING:
    import torch


def loop_over_experts(
    counts: torch.Tensor, x: torch.Tensor, w_in: torch.Tensor, w_out: torch.Tensor, y: torch.Tensor, gated: bool
) -> None:
    """Per expert ``linear``, the activation, ``linear`` into the rows of ``y``."""
    from torch.nn import functional

    start = 0
    # Counts come from routing on the device; a loop needs them on the host.
    for e, count in enumerate(counts.tolist()):
        if count == 0:
            continue
        rows = slice(start, start + count)
        h = functional.linear(x[rows], w_in[e])
        if gated:
            gate, up = h.chunk(2, dim=-1)
            h = functional.silu(gate) * up
        else:
            h = functional.relu(h).square()
        y[rows] = functional.linear(h, w_out[e])
        start += count


@implementation("moe.expert_gemm", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Eager operations."""
    import torch

    w = inputs.workload
    assert isinstance(w, ExpertGemm)
    check_counts(inputs)
    counts, x, w_in, w_out = (to_tensor(inputs.arrays[name], device) for name in ("counts", "x", "w_in", "w_out"))
    y = torch.zeros_like(x)

    def run() -> None:
        with torch.inference_mode():
            loop_over_experts(counts, x, w_in, w_out, y, w.gated)

    def output() -> Arrays:
        return {"y": to_array(y)}

    return Prepared(run, output)
