"""The user's code in torch: the parts' baselines one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from ..combine.torch_baseline import combine
from ..expert_gemm.torch_baseline import loop_over_experts
from ..routing.torch_baseline import route
from .operator import MoeLayer

if TYPE_CHECKING:
    import torch


@implementation("moe.layer", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Eager operations."""
    import torch

    w = inputs.workload
    assert isinstance(w, MoeLayer)
    given = {name: to_tensor(array, device) for name, array in inputs.arrays.items()}
    y = torch.empty((w.dispatch.slots, w.hidden), dtype=given["x"].dtype, device=device)
    latest: dict[str, torch.Tensor] = {}

    def run() -> None:
        with torch.inference_mode():
            latest.update(route(given["logits"], given.get("bias"), w.routing))
            rows = given["x"].index_select(0, latest["source"] // w.top_k)
            loop_over_experts(latest["counts"], rows, given["w_in"], given["w_out"], y, w.gated)
            latest["out"] = combine(y, latest["weights"], latest["source"])

    def output() -> Arrays:
        return {name: to_array(value) for name, value in latest.items()}

    return Prepared(run, output)
