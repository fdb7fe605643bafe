"""The user's code in torch: all logits in fp32, log-softmax, gather; autograd for the gradients."""

from __future__ import annotations

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from .operator import FusedLogprob, check_tokens


@implementation("sampling.fused_logprob", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """``linear``, ``log_softmax``, ``gather``, all in fp32; ``autograd.grad`` if gradients are wanted."""
    import torch

    w = inputs.workload
    assert isinstance(w, FusedLogprob)
    check_tokens(inputs)
    t = {name: to_tensor(array, device) for name, array in inputs.arrays.items()}
    token = t["token"][:, None]
    leaves = [t[name].detach().requires_grad_(w.backward) for name in ("hidden", "weight")]
    latest: dict[str, torch.Tensor] = {}

    def run() -> None:
        with torch.set_grad_enabled(w.backward):
            # Logits rounded to bf16 would be off by up to 0.05 where they are large.
            x = torch.nn.functional.linear(*(leaf.float() for leaf in leaves))
            x = x / w.temperature if w.temperature != 1.0 else x
            logprob = torch.log_softmax(x, dim=-1).gather(1, token)[:, 0]
            latest["logprob"] = logprob.detach()
            if w.backward:
                gradients = torch.autograd.grad(logprob, leaves, t["grad"])
                latest["grad_hidden"], latest["grad_weight"] = gradients

    def output() -> Arrays:
        return {name: to_array(value) for name, value in latest.items()}

    return Prepared(run, output)
