"""Triton: a program per group, or per row, in which GAE scans blocks of tokens from the end."""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from ...triton_support import KernelSpec
from .operator import STD_EPSILON, Advantages

_BLOCK, _WARPS = 1024, 4


@triton.jit
def advantages_group(reward, advantage, size, epsilon, BLOCK: tl.constexpr, SCALED: tl.constexpr):
    """Normalise one group."""
    place = tl.program_id(0).to(tl.int64) * size + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < size
    r = tl.load(reward + place, mask=inside, other=0.0)
    centred = tl.where(inside, r - tl.sum(r, axis=0) / size, 0.0)
    if SCALED:
        degrees = tl.maximum(size - 1, 1)
        centred = centred / (tl.sqrt(tl.sum(centred * centred, axis=0) / degrees) + epsilon)
    tl.store(advantage + place, centred, mask=inside)


@triton.jit
def _chain(factor_a, sum_a, factor_b, sum_b):
    """Compose two steps x -> factor x + sum, the later one second."""
    return factor_a * factor_b, sum_a * factor_b + sum_b


@triton.jit
def advantages_gae(reward, value, lengths, advantage, returns, length, gamma, decay, BLOCK: tl.constexpr):
    """Scan one row from its end in blocks; lane i of a block is its i-th token from the end."""
    row = tl.program_id(0).to(tl.int64)
    count = tl.load(lengths + row)
    i = tl.arange(0, BLOCK)
    last = tl.zeros([BLOCK], tl.float32)
    for first in range(0, length, BLOCK):
        t = length - 1 - (first + i)
        exists = (t >= 0) & (t < count)
        v = tl.load(value + row * length + t, mask=exists, other=0.0)
        following = tl.load(value + row * length + t + 1, mask=exists & (t + 1 < count), other=0.0)
        r = tl.load(reward + row * length + t, mask=exists, other=0.0)
        delta = r + gamma * following - v
        factors, sums = tl.associative_scan((tl.zeros([BLOCK], tl.float32) + decay, delta), 0, _chain)
        a = tl.where(exists, sums + factors * last, 0.0)
        tl.store(advantage + row * length + t, a, mask=t >= 0)
        tl.store(returns + row * length + t, tl.where(exists, a + v, 0.0), mask=t >= 0)
        last = tl.zeros([BLOCK], tl.float32) + tl.sum(tl.where(i == BLOCK - 1, a, 0.0), axis=0)


@implementation("rl.advantages", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """All buffers are made here."""
    import torch

    w = inputs.workload
    assert isinstance(w, Advantages)
    t = {name: to_tensor(array, device) for name, array in inputs.arrays.items()}
    out = {"advantage": torch.empty_like(t["reward"])}
    # The launch syntax is beyond type checkers.
    group: Any = advantages_group
    gae: Any = advantages_gae
    if w.kind == "group":
        block = max(16, triton.next_power_of_2(w.group_size))

        def run() -> None:
            arguments = (t["reward"], out["advantage"], w.group_size, STD_EPSILON)
            group[(w.groups,)](*arguments, BLOCK=block, SCALED=w.scaled, num_warps=1)

    else:
        out["returns"] = torch.empty_like(t["reward"])

        def run() -> None:
            arguments = (t["reward"], t["value"], t["lengths"], out["advantage"], out["returns"])
            factors = (w.length, w.gamma, w.gamma * w.lam)
            gae[(w.rows,)](*arguments, *factors, BLOCK=_BLOCK, num_warps=_WARPS)

    def output() -> Arrays:
        return {name: to_array(value) for name, value in out.items()}

    return Prepared(run, output)


def compile_specs(target: str) -> list[KernelSpec]:
    """Return both kernels."""
    group = {"reward": "*fp32", "advantage": "*fp32", "size": "i32", "epsilon": "fp32"}
    gae = dict.fromkeys(("reward", "value", "advantage", "returns"), "*fp32")
    gae |= {"lengths": "*i32", "length": "i32", "gamma": "fp32", "decay": "fp32"}
    return [
        KernelSpec("group", advantages_group, group, {"BLOCK": 16, "SCALED": True}, 1, 2),
        KernelSpec("gae", advantages_gae, gae, {"BLOCK": _BLOCK}, _WARPS, 2, ("length",)),
    ]
