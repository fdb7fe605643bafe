"""The user's code in torch: gate, ``topk``, renormalise, stable ``argsort`` by expert, ``bincount``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_tensor
from .operator import Routing
from .reference import SIGMOID_EPSILON

if TYPE_CHECKING:
    import torch


def _choose(logits: torch.Tensor, bias: torch.Tensor | None, w: Routing) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    if w.gate == "softmax_after_topk":
        values, experts = logits.topk(w.top_k, dim=-1)
        weights = torch.softmax(values.float(), dim=-1)
    elif w.gate == "softmax":
        weights, experts = torch.softmax(logits.float(), dim=-1).topk(w.top_k, dim=-1)
        if w.renormalize:
            weights = weights / weights.sum(-1, keepdim=True)
    else:
        gates = torch.sigmoid(logits.float())
        assert bias is not None
        scores = gates + bias
        if w.groups > 1:
            by_group = scores.view(w.tokens, w.groups, -1)
            of_group = by_group.topk(min(2, by_group.shape[-1]), dim=-1).values.sum(-1)
            kept = of_group.topk(w.groups_kept, dim=-1, sorted=False).indices
            outside = torch.ones_like(of_group, dtype=torch.bool).scatter_(1, kept, False)
            scores = by_group.masked_fill(outside.unsqueeze(-1), float("-inf")).view(w.tokens, -1)
        experts = scores.topk(w.top_k, dim=-1).indices
        weights = gates.gather(1, experts)
        if w.renormalize:
            weights = weights / (weights.sum(-1, keepdim=True) + SIGMOID_EPSILON)
    return (weights * w.scale if w.scale != 1.0 else weights), experts


def _permute(experts: torch.Tensor, w: Routing) -> dict[str, torch.Tensor]:
    import torch

    flat = experts.view(-1)
    sorted_experts, order = torch.sort(flat, stable=True)
    counts = torch.bincount(flat, minlength=w.experts)
    padded = (counts + (w.block - 1)) // w.block * w.block if w.block > 1 else counts
    offsets = torch.zeros(w.experts + 1, dtype=torch.int64, device=flat.device)
    torch.cumsum(padded, 0, out=offsets[1:])
    if w.block == 1:
        return {"counts": counts, "offsets": offsets, "source": order}
    begin = torch.cumsum(counts, 0) - counts
    place = torch.arange(w.slots, device=flat.device) + (offsets[:-1] - begin)[sorted_experts]
    source = torch.full((w.capacity,), w.slots, dtype=torch.int64, device=flat.device)
    source[place] = order
    first_row = torch.arange(0, w.capacity, w.block, device=flat.device)
    block_expert = torch.searchsorted(offsets[1:], first_row, right=True)
    block_expert = block_expert.masked_fill_(first_row >= offsets[-1], -1)
    return {"counts": counts, "offsets": offsets, "source": source, "block_expert": block_expert}


def route(logits: torch.Tensor, bias: torch.Tensor | None, w: Routing) -> dict[str, torch.Tensor]:
    """Return weights, experts and the permutation."""
    weights, experts = _choose(logits, bias, w)
    return {"weights": weights, "experts": experts, **_permute(experts, w)}


@implementation("moe.routing", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Plain torch operations; among equal scores ``topk`` takes any."""
    import torch

    w = inputs.workload
    assert isinstance(w, Routing)
    logits = to_tensor(inputs.arrays["logits"], device)
    bias = to_tensor(inputs.arrays["bias"], device) if "bias" in inputs.arrays else None
    latest: dict[str, torch.Tensor] = {}

    def run() -> None:
        with torch.inference_mode():
            latest.update(route(logits, bias, w))

    def output() -> Arrays:
        return {name: value.cpu().numpy() for name, value in latest.items()}

    return Prepared(run, output)
