"""Triton: sums of squares by program, one program that turns them into the clip factor, and the update."""

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
from .operator import NORM_EPSILON, AdamW
from .rewind import STATE, in_place

_BLOCK, _WARPS = 2048, 8
_PROGRAMS_PER_SM = 4
_PARTS = 1024


@triton.jit
def adamw_squares(gradient, parts, n, BLOCK: tl.constexpr):
    """Add the squares of every n-th block, n being the number of programs."""
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, n, tl.num_programs(0) * BLOCK):
        at = first + tl.program_id(0) * BLOCK + i
        g = tl.load(gradient + at, mask=at < n, other=0.0).to(tl.float32)
        total += g * g
    tl.store(parts + tl.program_id(0), tl.sum(total, axis=0))


@triton.jit
def adamw_clip(parts, norm, factor, programs, clip, epsilon, PARTS: tl.constexpr):
    """Turn the programs' sums into the norm and the clip factor; ``clip`` 0 gives the factor 1."""
    i = tl.arange(0, PARTS)
    total = tl.sqrt(tl.sum(tl.load(parts + i, mask=i < programs, other=0.0), axis=0))
    tl.store(norm, total)
    tl.store(factor, tl.minimum(clip / (total + epsilon), 1.0))


@triton.jit
def adamw_update(
    master,
    m,
    v,
    gradient,
    weight,
    factor,
    n,
    beta1,
    rest1,
    beta2,
    rest2,
    decay,
    rate,
    correction,
    epsilon,
    BLOCK: tl.constexpr,
):
    """Update one block in place."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    g = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32) * tl.load(factor)
    m_new = beta1 * tl.load(m + at, mask=inside, other=0.0) + rest1 * g
    v_new = beta2 * tl.load(v + at, mask=inside, other=0.0) + rest2 * g * g
    x = decay * tl.load(master + at, mask=inside, other=0.0)
    x -= rate * m_new / (tl.sqrt(v_new * correction) + epsilon)
    tl.store(master + at, x, mask=inside)
    tl.store(m + at, m_new, mask=inside)
    tl.store(v + at, v_new, mask=inside)
    tl.store(weight + at, x.to(tl.bfloat16), mask=inside)


@implementation("train.adamw", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """The norm stays on the device; the state is copied here, since the step changes it in place."""
    import torch

    w = inputs.workload
    assert isinstance(w, AdamW)
    first = {name: to_tensor(inputs.arrays[name], device) for name in STATE}
    state = {name: tensor.clone() for name, tensor in first.items()}
    gradient = to_tensor(inputs.arrays["gradient"], device)
    weight = torch.empty(w.parameters, dtype=torch.bfloat16, device=device)
    blocks = -(-w.parameters // _BLOCK)
    processors = 2 if device == "cpu" else torch.cuda.get_device_properties(device).multi_processor_count
    programs = min(blocks, processors * _PROGRAMS_PER_SM, _PARTS)
    parts = torch.zeros(programs, dtype=torch.float32, device=device)
    norm, factor = torch.zeros(1, device=device), torch.ones(1, device=device)
    # 1 - beta2 would lose three digits in fp32.
    constants = (w.beta1, 1.0 - w.beta1, w.beta2, 1.0 - w.beta2, *w.factors(), w.epsilon)
    # The launch syntax is beyond type checkers.
    squares: Any = adamw_squares
    clip: Any = adamw_clip
    update: Any = adamw_update

    def step() -> None:
        if w.clip:
            squares[(programs,)](gradient, parts, w.parameters, BLOCK=_BLOCK, num_warps=_WARPS)
            clip[(1,)](parts, norm, factor, programs, w.clip, NORM_EPSILON, PARTS=_PARTS, num_warps=4)
        arguments = (*state.values(), gradient, weight, factor, w.parameters, *constants)
        update[(blocks,)](*arguments, BLOCK=_BLOCK, num_warps=_WARPS)

    def put_back() -> None:
        for name, tensor in state.items():
            tensor.copy_(first[name])

    def read() -> Arrays:
        tensors = {**state, "weight": weight} | ({"norm": norm} if w.clip else {})
        return {name: to_array(value).copy() for name, value in tensors.items()}

    return in_place(step, put_back, read)


def compile_specs(target: str) -> list[KernelSpec]:
    """Return the three kernels, for gradients in bf16 and fp32."""
    specs = []
    options = {"BLOCK": _BLOCK}
    floats = dict.fromkeys(("beta1", "rest1", "beta2", "rest2", "decay", "rate", "correction", "epsilon"), "fp32")
    for element in ("bf16", "fp32"):
        gradient = f"*{element}"
        squares = {"gradient": gradient, "parts": "*fp32", "n": "i32"}
        update = dict.fromkeys(("master", "m", "v", "factor"), "*fp32")
        update |= {"gradient": gradient, "weight": "*bf16", "n": "i32", **floats}
        specs += [
            KernelSpec(f"squares_{element}", adamw_squares, squares, options, _WARPS, 2, ("n",)),
            KernelSpec(f"update_{element}", adamw_update, update, options, _WARPS, 2, ("n",)),
        ]
    clip = dict.fromkeys(("parts", "norm", "factor"), "*fp32")
    clip |= {"programs": "i32", "clip": "fp32", "epsilon": "fp32"}
    return [*specs, KernelSpec("clip", adamw_clip, clip, {"PARTS": _PARTS}, 4, 2)]
