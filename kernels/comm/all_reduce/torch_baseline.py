"""torch.distributed over gloo, between processes of this machine."""

from __future__ import annotations

from ...contract import Inputs, Prepared
from ...registry import implementation
from ..ranks import prepare_collective


@implementation("comm.all_reduce", backend="torch", devices=("cpu",), baseline=True)
def prepare(inputs: Inputs, device: str) -> Prepared:
    """See `prepare_collective`."""
    return prepare_collective(inputs, "all_reduce")
