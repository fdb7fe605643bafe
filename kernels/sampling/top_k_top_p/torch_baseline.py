"""The user's code in torch: sort the vocabulary, or take the top k of it, then cut, normalise and draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...contract import Arrays, Inputs, Prepared, UnsupportedError
from ...registry import implementation
from .operator import TopKTopP, check_lists
from .reference import uniform_bits

if TYPE_CHECKING:
    import torch

Tensors = dict[str, "torch.Tensor"]


def _tensors(inputs: Inputs, device: str) -> Tensors:
    import torch

    tensors = {}
    for name, array in inputs.arrays.items():
        if array.dtype == np.uint16:
            tensors[name] = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(device)
        else:
            tensors[name] = torch.from_numpy(array).to(device)
    uniform = uniform_bits(inputs.arrays["seed"], inputs.arrays["offset"]).astype(np.float64) * 2.0**-64
    tensors["uniform"] = torch.from_numpy(uniform.astype(np.float32).clip(max=1 - 2.0**-24)).to(device)[:, None]
    return tensors


def _adjusted(t: Tensors) -> torch.Tensor:
    import torch

    x = t["logits"].float()
    if t["bias_token"].shape[1]:
        x = x.scatter_add(1, t["bias_token"].long(), t["bias"])
    if t["seen_token"].shape[1]:
        at, count = t["seen_token"].long(), t["seen_count"]
        seen, factor = x.gather(1, at), t["repetition"][:, None]
        seen = torch.where(seen > 0, seen / factor, seen * factor)
        seen = seen - t["frequency"][:, None] * count - t["presence"][:, None] * (count > 0)
        x = x.scatter(1, at, seen)
    return x


def _sorted_threshold(value: torch.Tensor, t: Tensors) -> torch.Tensor:
    """Return the least value to keep of rows sorted in descending order."""
    import torch

    size = value.shape[1]
    floor = value[:, :1] + t["min_p"][:, None].log()
    top_k = t["top_k"].long()[:, None]
    kth = value.gather(1, torch.where(top_k > 0, top_k, size).clamp(max=size) - 1)
    value = value.masked_fill(value < torch.maximum(floor, kth), -torch.inf)
    p = torch.softmax(value, dim=-1)
    before = p.cumsum(-1) - p
    last = ((before < t["top_p"][:, None]) & (p > 0)).sum(-1, keepdim=True).clamp(min=1) - 1
    return value.gather(1, last)


def _draw(x: torch.Tensor, token: torch.Tensor | None, t: Tensors) -> Tensors:
    """Draw from logits in which what is dropped is -inf; ``token`` numbers their columns."""
    import torch

    p = torch.softmax(x, dim=-1)
    cumulative = p.cumsum(-1)
    column = torch.searchsorted(cumulative, t["uniform"] * cumulative[:, -1:], right=True)
    greedy = t["temperature"][:, None] == 0
    column = torch.where(greedy, x.argmax(-1, keepdim=True), column).clamp(max=x.shape[1] - 1)
    logprob = torch.where(greedy, 0.0, p.gather(1, column).log())
    kept = torch.where(greedy[:, 0], 1, (x > -torch.inf).sum(-1))
    return {
        "token": (column if token is None else token.gather(1, column)).squeeze(1).int(),
        "logprob": logprob.squeeze(1),
        "kept": kept.int(),
    }


def _scaled(t: Tensors) -> torch.Tensor:
    import torch

    temperature = t["temperature"][:, None]
    return _adjusted(t) / torch.where(temperature == 0, 1.0, temperature)


def _sort_path(t: Tensors) -> Tensors:
    import torch

    x = _scaled(t)
    value, _ = x.sort(dim=-1, descending=True)
    return _draw(x.masked_fill(x < _sorted_threshold(value, t), -torch.inf), None, t)


def _topk_path(t: Tensors) -> Tensors:
    import torch

    x = _scaled(t)
    value, token = x.topk(min(int(t["top_k"].max()), x.shape[1]), dim=-1)
    value = value.masked_fill(value < _sorted_threshold(value, t), -torch.inf)
    token, order = token.sort(dim=-1)
    return _draw(value.gather(1, order), token, t)


def _prepare(inputs: Inputs, device: str, sample: Callable[[Tensors], Tensors]) -> Prepared:
    import torch

    assert isinstance(inputs.workload, TopKTopP)
    check_lists(inputs)
    if any((inputs.arrays[name] < 0).any() for name in ("seen_token", "bias_token")):
        raise UnsupportedError("lists of unequal length need a loop over rows in torch; give every row as many tokens")
    tensors = _tensors(inputs, device)
    latest: Tensors = {}

    def run() -> None:
        with torch.inference_mode():
            latest.update(sample(tensors))

    def output() -> Arrays:
        return {name: value.cpu().numpy() for name, value in latest.items()}

    return Prepared(run, output)


@implementation("sampling.top_k_top_p", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Sort every row, find the threshold in the sorted row, mask, softmax, draw."""
    return _prepare(inputs, device, _sort_path)


@implementation("sampling.top_k_top_p", backend="torch", devices=("cpu", "cuda"), name="torch_topk")
def prepare_topk(inputs: Inputs, device: str) -> Prepared:
    """``torch.topk``, then everything on those few; of logits equal to the k-th it keeps only some."""
    if inputs.arrays["top_k"].min() < 1:
        raise UnsupportedError("torch_topk needs a top_k of 1 or more in every row; use the sort path")
    return _prepare(inputs, device, _topk_path)
