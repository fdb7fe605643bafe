"""The step as Mamba's own plain torch writes it: the state decayed, an outer product added, a product with C."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from .operator import Mamba2Decode

if TYPE_CHECKING:
    import torch


@implementation("ssm.mamba2_decode", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Eager operations in fp32."""
    import torch

    w = inputs.workload
    assert isinstance(w, Mamba2Decode)
    a = {name: to_tensor(array, device) for name, array in inputs.arrays.items()}
    latest: dict[str, torch.Tensor] = {}

    def run() -> None:
        with torch.inference_mode():
            dt = torch.nn.functional.softplus(a["dt"] + a["dt_bias"])
            x = a["x"].float()
            b, c = (a[name].float().repeat_interleave(w.heads // w.groups, dim=1) for name in ("B", "C"))
            decay = torch.exp(dt * a["A"])[..., None, None]
            h = a["h"] * decay + (dt.unsqueeze(-1) * x).unsqueeze(-1) * b.unsqueeze(2)
            latest["h"] = h
            latest["y"] = torch.matmul(h, c.unsqueeze(-1)).squeeze(-1) + a["D"].unsqueeze(-1) * x

    def output() -> Arrays:
        return {name: to_array(value) for name, value in latest.items()}

    return Prepared(run, output)
