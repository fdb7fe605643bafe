"""``torch.optim.AdamW`` after ``torch.nn.utils`` has clipped by the global norm, and a copy to bf16 weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from .operator import NORM_EPSILON, AdamW
from .rewind import STATE, in_place

if TYPE_CHECKING:
    import torch

# The norm is taken per tensor and then over tensors; this is the size of one. Over many millions at once torch's fp32
# norm on a CPU is wrong in the third digit.
_TENSOR = 65_536


def _prepare(inputs: Inputs, device: str, **form: bool) -> Prepared:
    import torch

    w = inputs.workload
    assert isinstance(w, AdamW)
    first = {name: to_tensor(inputs.arrays[name], device) for name in STATE}
    state = {name: tensor.clone() for name, tensor in first.items()}
    gradient = to_tensor(inputs.arrays["gradient"], device)
    parameter = torch.nn.Parameter(state["master"])
    count = torch.tensor(0.0, device=device if form.get("fused") else "cpu")
    optimiser = torch.optim.AdamW(
        [parameter],
        lr=w.learning_rate,
        betas=(w.beta1, w.beta2),
        eps=w.epsilon,
        weight_decay=w.weight_decay,
        **form,
    )
    optimiser.state[parameter] = {"step": count, "exp_avg": state["m"], "exp_avg_sq": state["v"]}
    weight = torch.empty(w.parameters, dtype=torch.bfloat16, device=device)
    latest: dict[str, torch.Tensor] = {}

    def step() -> None:
        with torch.no_grad():
            g = gradient.to(torch.float32, copy=True)
            if w.clip:
                parts = list(g.split(_TENSOR))
                norm = torch.nn.utils.get_total_norm(parts)
                g.mul_((w.clip / (norm + NORM_EPSILON)).clamp(max=1.0))
                latest["norm"] = norm.reshape(1)
            parameter.grad = g
            optimiser.step()
            weight.copy_(parameter)

    def put_back() -> None:
        count.fill_(w.step - 1)
        with torch.no_grad():
            for name, tensor in state.items():
                tensor.copy_(first[name])

    def read() -> Arrays:
        return {name: to_array(value).copy() for name, value in {**state, "weight": weight, **latest}.items()}

    put_back()
    return in_place(step, put_back, read)


@implementation("train.adamw", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """The optimiser in eager operations, tensor by tensor."""
    return _prepare(inputs, device, foreach=False)


@implementation("train.adamw", backend="torch", devices=("cpu", "cuda"), name="torch_fused")
def prepare_fused(inputs: Inputs, device: str) -> Prepared:
    """The optimiser's fused kernel."""
    return _prepare(inputs, device, fused=True)
