"""The user's code in torch: all positions at once for a sequence, level by level for a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from .operator import SpeculativeVerify, check_tokens
from .reference import uniforms

if TYPE_CHECKING:
    import torch

Tensors = dict[str, "torch.Tensor"]


def _outcome(t: Tensors, accepted: torch.Tensor, node: torch.Tensor, path: torch.Tensor, p: torch.Tensor) -> Tensors:
    """Draw the last token from weights and put it behind the accepted ones."""
    import torch

    cumulative = p.cumsum(-1)
    total = cumulative[:, -1:]
    drawn = torch.searchsorted(cumulative, t["last"] * total, right=True).clamp(max=p.shape[1] - 1)
    drawn = torch.where(total > 0, drawn, -1)  # false for NaN too
    place = torch.arange(path.shape[1] + 1, device=p.device)
    token = torch.where(place < accepted[:, None], torch.nn.functional.pad(path, (0, 1)), -1)
    token = torch.where(place == accepted[:, None], drawn, token)
    return {"accepted": accepted.int(), "node": node.int(), "token": token.int()}


def _sequence(t: Tensors) -> Tensors:
    import torch

    batch, length = t["token"].shape
    at = t["token"].long()[..., None]
    p, q = t["target"][:, :length].gather(2, at)[..., 0], t["draft"].gather(2, at)[..., 0]
    accepted = (t["accept"] * q < p).cumprod(1).sum(1)
    rows = torch.arange(batch, device=at.device)
    rest = t["target"][rows, accepted]
    q = t["draft"][rows, accepted.clamp(max=length - 1)]
    rest = rest - torch.where(accepted[:, None] < length, q, 0.0)
    return _outcome(t, accepted, accepted, t["token"], rest.clamp_(min=0))


def _tree(t: Tensors, branches: int, length: int) -> Tensors:
    import torch

    batch, inner = t["token"].shape[0], t["draft"].shape[1]
    rows = torch.arange(batch, device=t["token"].device)
    node, accepted = torch.zeros_like(rows), torch.zeros_like(rows)
    path = torch.full((batch, length), -1, dtype=torch.int32, device=rows.device)
    p, going = t["target"][:, 0], torch.ones_like(rows, dtype=torch.bool)
    for depth in range(length):
        q = t["draft"][rows, node.clamp(max=inner - 1)]
        chosen = torch.zeros_like(node)
        for child in range(1, branches + 1):
            number = (node * branches + child).clamp(max=t["token"].shape[1])
            x = t["token"][rows, number - 1]
            at = x.long()[:, None]
            passed = t["accept"][rows, number - 1] * q.gather(1, at)[:, 0] < p.gather(1, at)[:, 0]
            tried = going & (chosen == 0)
            chosen = torch.where(tried & passed, number, chosen)
            path[:, depth] = torch.where(tried & passed, x, path[:, depth])
            rest = (p - q).clamp_(min=0)
            rest /= rest.sum(1, keepdim=True)
            p = torch.where((tried & ~passed)[:, None], rest, p)
        going = going & (chosen > 0)
        node, accepted = torch.where(going, chosen, node), accepted + going
        p = torch.where(going[:, None], t["target"][rows, node], p)
    return _outcome(t, accepted, node, path, p)


@implementation("sampling.speculative_verify", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Gather, compare, subtract and clamp; the residual of the last position alone where there is one branch."""
    import torch

    w = inputs.workload
    assert isinstance(w, SpeculativeVerify)
    check_tokens(inputs)
    accept, last = uniforms(inputs.arrays, w.nodes)
    arrays = {name: inputs.arrays[name] for name in ("target", "draft", "token")}
    arrays |= {"accept": accept, "last": last.astype(np.float32).clip(max=1 - 2.0**-24)[:, None]}
    tensors = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
    latest: Tensors = {}

    def run() -> None:
        with torch.inference_mode():
            latest.update(_sequence(tensors) if w.branches == 1 else _tree(tensors, w.branches, w.draft_length))

    def output() -> Arrays:
        return {name: value.cpu().numpy() for name, value in latest.items()}

    return Prepared(run, output)
