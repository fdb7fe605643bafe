"""``torch.nn.functional.linear``: MKL, oneDNN or cuBLAS, whichever torch chooses."""

from __future__ import annotations

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor


@implementation("linear.gemm", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """One call of ``linear`` into an output that torch allocates."""
    import torch

    x, weight = (to_tensor(inputs.arrays[name], device) for name in ("x", "weight"))
    latest: list[torch.Tensor] = []

    def run() -> None:
        with torch.inference_mode():
            latest[:] = [torch.nn.functional.linear(x, weight)]

    def output() -> Arrays:
        return {"y": to_array(latest[0])}

    return Prepared(run, output)
