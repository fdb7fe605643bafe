"""Advantages as trainers write them: a few operations per group, and a Python loop over tokens from the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from .operator import STD_EPSILON, Advantages

if TYPE_CHECKING:
    import torch


def _group(t: dict[str, torch.Tensor], w: Advantages) -> dict[str, torch.Tensor]:
    reward = t["reward"]
    centred = reward - reward.mean(1, keepdim=True)
    if w.scaled:
        # The standard deviation of a group of one is not a number.
        deviation = reward.std(1, keepdim=True) if w.group_size > 1 else 0.0
        centred = centred / (deviation + STD_EPSILON)
    return {"advantage": centred}


def _gae(t: dict[str, torch.Tensor], w: Advantages) -> dict[str, torch.Tensor]:
    import torch

    exists = torch.arange(w.length, device=t["value"].device) < t["lengths"].unsqueeze(1)
    value, reward = t["value"].masked_fill(~exists, 0.0), t["reward"].masked_fill(~exists, 0.0)
    last = torch.zeros(w.rows, device=value.device)
    backwards = []
    for step in reversed(range(w.length)):
        following = value[:, step + 1] if step < w.length - 1 else 0.0
        last = reward[:, step] + w.gamma * following - value[:, step] + w.gamma * w.lam * last
        backwards.append(last)
    advantage = torch.stack(backwards[::-1], dim=1)
    return {"advantage": advantage, "returns": advantage + value}


@implementation("rl.advantages", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Eager operations."""
    import torch

    w = inputs.workload
    assert isinstance(w, Advantages)
    tensors = {name: to_tensor(array, device) for name, array in inputs.arrays.items()}
    latest: dict[str, torch.Tensor] = {}

    def run() -> None:
        with torch.inference_mode():
            latest.update(_group(tensors, w) if w.kind == "group" else _gae(tensors, w))

    def output() -> Arrays:
        return {name: to_array(value) for name, value in latest.items()}

    return Prepared(run, output)
