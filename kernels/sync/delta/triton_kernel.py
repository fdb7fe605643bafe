"""Triton: count the changes of each block, add the counts up, and pack; weights are read twice.

The second reading finds no place in the cache for large tensors; packing into regions instead would need as much
memory again as positions of all weights.
"""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...triton_support import KernelSpec
from .operator import Delta

_BLOCK, _WARPS = 4096, 8


@triton.jit
def delta_count(old, new, counts, n, BLOCK: tl.constexpr):
    """Count the changes of one block."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    differ = tl.load(old + at, mask=at < n, other=0) != tl.load(new + at, mask=at < n, other=0)
    tl.store(counts + tl.program_id(0), tl.sum(differ.to(tl.int32), axis=0))


@triton.jit
def delta_pack(old, new, ends, counts, position, value, n, BLOCK: tl.constexpr):
    """Write the changes of one block behind those of the blocks before it."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(new + at, mask=at < n, other=0)
    differ = tl.load(old + at, mask=at < n, other=0) != x
    first = tl.load(ends + tl.program_id(0)) - tl.load(counts + tl.program_id(0))
    place = first + tl.cumsum(differ.to(tl.int32), axis=0) - 1
    tl.store(position + place, at, mask=differ)
    tl.store(value + place, x, mask=differ)


@implementation("sync.delta", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Buffers for all weights are made here, since the number that changed is not known before."""
    import torch

    w = inputs.workload
    assert isinstance(w, Delta)
    old, new = (torch.from_numpy(inputs.arrays[name].view(np.int16)).to(device) for name in ("old", "new"))
    blocks = -(-w.weights // _BLOCK)
    counts, ends = (torch.zeros(blocks, dtype=torch.int32, device=device) for _ in range(2))
    position = torch.empty(w.weights, dtype=torch.int32, device=device)
    value = torch.empty(w.weights, dtype=torch.int16, device=device)
    # The launch syntax is beyond type checkers.
    count: Any = delta_count
    pack: Any = delta_pack

    def run() -> None:
        count[(blocks,)](old, new, counts, w.weights, BLOCK=_BLOCK, num_warps=_WARPS)
        torch.cumsum(counts, 0, dtype=torch.int32, out=ends)
        pack[(blocks,)](old, new, ends, counts, position, value, w.weights, BLOCK=_BLOCK, num_warps=_WARPS)

    def output() -> Arrays:
        found = int(ends[-1])
        host = (tensor[:found].cpu().numpy() for tensor in (position, value))
        return {"position": next(host).view(np.uint32), "value": next(host).view(np.uint16)}

    return Prepared(run, output)


def compile_specs(target: str) -> list[KernelSpec]:
    """Return both kernels."""
    count = {"old": "*i16", "new": "*i16", "counts": "*i32", "n": "i32"}
    pack = {"old": "*i16", "new": "*i16", "ends": "*i32", "counts": "*i32", "position": "*i32", "value": "*i16"}
    options = {"BLOCK": _BLOCK}
    return [
        KernelSpec("count", delta_count, count, options, _WARPS, 2, ("n",)),
        KernelSpec("pack", delta_pack, {**pack, "n": "i32"}, options, _WARPS, 2, ("n",)),
    ]
