"""The loss as trainers write it: eager operations over padded rows with a mask, and autograd for the gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from .operator import PolicyLoss

if TYPE_CHECKING:
    import torch


def policy_loss(t: dict[str, torch.Tensor], w: PolicyLoss) -> torch.Tensor:
    """Return the loss of tensors named as the inputs, in their precision."""
    import torch

    mask = t["mask"].to(t["logprob"].dtype)
    advantage = t["advantage"].unsqueeze(1)
    # What stands in masked places must not reach the sums, not even as infinity times zero.
    d = (t["logprob"] - t["old_logprob"]).masked_fill(t["mask"] == 0, 0.0)
    if w.algorithm == "gspo":
        d = (d * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
    ratio = torch.exp(d)
    clipped = torch.clamp(ratio, 1 - w.clip_low, 1 + w.clip_high)
    loss = -torch.min(ratio * advantage, clipped * advantage)
    if w.kl:
        e = (t["ref_logprob"] - t["logprob"]).masked_fill(t["mask"] == 0, 0.0)
        loss = loss + w.kl * (torch.expm1(e) - e)
    masked = loss * mask
    if w.normalization == "token":
        return masked.sum() / mask.sum().clamp(min=1)
    if w.normalization == "constant":
        return masked.sum() / mask.numel()
    return (masked.sum(1) / mask.sum(1).clamp(min=1)).mean()


@implementation("rl.policy_loss", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Forward and backward, each run."""
    import torch

    w = inputs.workload
    assert isinstance(w, PolicyLoss)
    tensors = {name: to_tensor(array, device) for name, array in inputs.arrays.items()}
    tensors["logprob"] = tensors["logprob"].detach().requires_grad_()
    latest: dict[str, torch.Tensor] = {}

    def run() -> None:
        loss = policy_loss(tensors, w)
        (grad,) = torch.autograd.grad(loss, tensors["logprob"])
        latest.update(loss=loss.reshape(1), grad=grad)

    def output() -> Arrays:
        return {name: to_array(value) for name, value in latest.items()}

    return Prepared(run, output)
