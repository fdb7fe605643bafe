"""Comparison, ``nonzero`` and indexing in eager torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from .operator import Delta

if TYPE_CHECKING:
    import torch


@implementation("sync.delta", backend="torch", devices=("cpu", "cuda"), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Bits are compared as int16, which torch has all operations for."""
    import torch

    assert isinstance(inputs.workload, Delta)
    old, new = (torch.from_numpy(inputs.arrays[name].view(np.int16)).to(device) for name in ("old", "new"))
    latest: dict[str, torch.Tensor] = {}

    def run() -> None:
        position = torch.nonzero(old != new).squeeze(1)
        latest.update(position=position.to(torch.int32), value=new[position])

    def output() -> Arrays:
        position, value = (latest[name].cpu().numpy() for name in ("position", "value"))
        return {"position": position.view(np.uint32), "value": value.view(np.uint16)}

    return Prepared(run, output)
