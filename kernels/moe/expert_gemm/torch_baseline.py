"""The user's code in torch: a loop over the experts that have rows."""

from __future__ import annotations

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from .operator import ExpertGemm, check_counts


@implementation("moe.expert_gemm", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Per expert ``linear``, the activation, ``linear`` into the rows of the output."""
    import torch
    from torch.nn import functional

    w = inputs.workload
    assert isinstance(w, ExpertGemm)
    check_counts(inputs)

    x, w_in, w_out = (to_tensor(inputs.arrays[name], device) for name in ("x", "w_in", "w_out"))
    y = torch.zeros_like(x)
    # Counts come from routing on the device; a loop needs them on the host.
    counts_there = torch.from_numpy(inputs.arrays["counts"]).to(device)

    def run() -> None:
        start = 0
        with torch.inference_mode():
            for e, count in enumerate(counts_there.tolist()):
                if count == 0:
                    continue
                rows = slice(start, start + count)
                h = functional.linear(x[rows], w_in[e])
                if w.gated:
                    gate, up = h.chunk(2, dim=-1)
                    h = functional.silu(gate) * up
                else:
                    h = functional.relu(h).square()
                y[rows] = functional.linear(h, w_out[e])
                start += count

    def output() -> Arrays:
        return {"y": to_array(y)}

    return Prepared(run, output)
