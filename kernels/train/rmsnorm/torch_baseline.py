"""What model code does in torch: the formula written out in fp32 and cast back, with autograd; and ``F.rms_norm``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from .operator import RmsNorm

if TYPE_CHECKING:
    import torch

    Norm = Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]


def _eager(h: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    import torch

    wide = h.float()
    rstd = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
    return (wide * rstd).to(h.dtype) * weight


def _fused(h: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    import torch

    return torch.nn.functional.rms_norm(h, (h.shape[-1],), weight, epsilon)


def _prepare(inputs: Inputs, device: str, norm: Norm) -> Prepared:
    import torch

    w = inputs.workload
    assert isinstance(w, RmsNorm)
    tensors = {name: to_tensor(array, device) for name, array in inputs.arrays.items()}
    weight = tensors["weight"]
    latest: dict[str, torch.Tensor] = {}

    def forward() -> None:
        with torch.no_grad():
            h = tensors["x"] + tensors["residual"] if w.residual else tensors["x"]
            latest.update(h=h, y=norm(h, weight, w.epsilon))

    if w.direction == "forward":

        def forward_output() -> Arrays:
            # Torch's forms keep rstd to themselves; it is computed here, so that all outputs are checked.
            h = latest["h"]
            rstd = torch.rsqrt(h.float().pow(2).mean(-1) + w.epsilon)
            out = {"y": latest["y"], "rstd": rstd} | ({"h": h} if w.residual else {})
            return {name: to_array(value) for name, value in out.items()}

        return Prepared(forward, forward_output)

    h = tensors["h"].detach().requires_grad_()
    leaf = weight.detach().requires_grad_()
    y = norm(h, leaf, w.epsilon)

    def backward() -> None:
        grad_h, grad_weight = torch.autograd.grad(y, (h, leaf), tensors["grad_y"], retain_graph=True)
        if w.residual:
            grad_h = grad_h + tensors["grad_residual"]
        latest.update(grad_h=grad_h, grad_weight=grad_weight)

    return Prepared(backward, lambda: {name: to_array(value) for name, value in latest.items()})


@implementation("train.rmsnorm", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """The formula in eager operations, as in most models' code; backward through autograd."""
    return _prepare(inputs, device, _eager)


@implementation("train.rmsnorm", backend="torch", devices=("cpu", "cuda"), name="torch_rms_norm")
def prepare_rms_norm(inputs: Inputs, device: str) -> Prepared:
    """``torch.nn.functional.rms_norm``, whose fused form exists for CUDA."""
    return _prepare(inputs, device, _fused)
