"""Triton: one program per sequence, which walks down the tree and passes over two rows per rejected child."""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportGeneralTypeIssues=false, reportCallIssue=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...triton_support import KernelSpec
from .operator import SpeculativeVerify, check_tokens

_WARPS = 16
_BLOCK = 4096
_UNIT = tl.constexpr(288230376151711744.0)  # reference.UNIT, 2**58; a test holds both equal


@triton.jit
def _weights(target, draft, at, n, c, BLOCK: tl.constexpr):
    """The weights of max(target - c draft, 0) in a block, and which are NaN."""
    index = at + tl.arange(0, BLOCK)
    p = tl.load(target + index, mask=index < n, other=0.0)
    q = tl.load(draft + index, mask=index < n, other=0.0)
    left = tl.fma(q, -c, p)
    return (tl.where(left > 0.0, left, 0.0) * _UNIT).to(tl.int64), (p != p) | (q != q)


@triton.jit
def _weigh(target, draft, n, c, BLOCK: tl.constexpr):
    """The weight of max(target - c draft, 0), and how many NaN there are."""
    mass = tl.zeros([BLOCK], tl.int64)
    missing = tl.zeros([BLOCK], tl.int32)
    for at in range(0, n, BLOCK):
        w, nan = _weights(target, draft, at, n, c, BLOCK)
        mass += w
        missing += nan.to(tl.int32)
    return tl.sum(mass), tl.sum(missing)


@triton.jit
def _draw(target, draft, n, c, rest, BLOCK: tl.constexpr):
    """The first token up to which the weights come to more than ``rest``."""
    found = tl.full([], 2147483647, tl.int32)
    for at in range(0, n, BLOCK):
        w, _ = _weights(target, draft, at, n, c, BLOCK)
        mass = tl.sum(w)
        if (rest >= 0) & (rest < mass):
            found = tl.min(tl.where(tl.cumsum(w, 0) > rest, at + tl.arange(0, BLOCK), 2147483647))
        rest -= mass
    return found


@triton.jit
def verify_tree(
    target, draft, token, seed, offset, accepted, node, out, vocab, nodes, inner, length,
    BRANCHES: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Verify one sequence; the grid has one program for each."""
    row = tl.program_id(0).to(tl.int64)
    key = tl.load(seed + row)
    first = tl.load(offset + row)
    for place in range(0, length + 1):
        tl.store(out + row * (length + 1) + place, -1)
    position = tl.full([], 0, tl.int32)
    depth = tl.full([], 0, tl.int32)
    going = tl.full([], 1, tl.int32)
    c = tl.full([], 0.0, tl.float32)
    total = tl.full([], 0, tl.int64)
    missing = tl.full([], 0, tl.int32)
    while (going == 1) & (position < inner):
        p_row = target + (row * (nodes + 1) + position) * vocab
        q_row = draft + (row * inner + position) * vocab
        share = tl.full([], 1.0, tl.float64)
        chosen = tl.full([], 0, tl.int32)
        child = tl.full([], 1, tl.int32)
        while (child <= BRANCHES) & (chosen == 0):
            number = position * BRANCHES + child
            x = tl.load(token + row * nodes + number - 1)
            p = tl.load(p_row + x)
            q = tl.load(q_row + x)
            w0, _, _, _ = tl.randint4x(key, (first + number).to(tl.uint32))
            u = (w0.to(tl.uint32, bitcast=True).to(tl.float64) + 0.5) * (1.0 / 4294967296.0)
            if u * q.to(tl.float64) * share < tl.fma(q, -c, p).to(tl.float64):
                chosen = number
                tl.store(out + row * (length + 1) + depth, x)
            else:
                c = (c.to(tl.float64) + share).to(tl.float32)
                total, missing = _weigh(p_row, q_row, vocab, c, BLOCK)
                share = total.to(tl.float64) / _UNIT
            child += 1
        if chosen == 0:
            going = tl.full([], 0, tl.int32)
        else:
            position = chosen
            depth += 1
            c = tl.full([], 0.0, tl.float32)
            total = tl.full([], 0, tl.int64)
    p_row = target + (row * (nodes + 1) + position) * vocab
    # A leaf has no draft, and with c = 0 it does not count.
    q_row = draft + (row * inner + tl.minimum(position, inner - 1)) * vocab
    q_row = tl.where(position < inner, q_row, p_row)
    if total == 0:
        c = tl.full([], 0.0, tl.float32)
        total, missing = _weigh(p_row, q_row, vocab, c, BLOCK)
    if (total > 0) & (missing == 0):
        w0, w1, _, _ = tl.randint4x(key, first.to(tl.uint32))
        uniform = (w0.to(tl.uint32, bitcast=True).to(tl.uint64) << 32) | w1.to(tl.uint32, bitcast=True).to(tl.uint64)
        rest = tl.umulhi(uniform, total.to(tl.uint64)).to(tl.int64)
        tl.store(out + row * (length + 1) + depth, _draw(p_row, q_row, vocab, c, rest, BLOCK))
    tl.store(accepted + row, depth)
    tl.store(node + row, position)


@implementation("sampling.speculative_verify", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Move everything to the device; all buffers are made here."""
    import torch

    w = inputs.workload
    assert isinstance(w, SpeculativeVerify)
    check_tokens(inputs)
    names = ("target", "draft", "token", "seed", "offset")
    moved = [torch.from_numpy(inputs.arrays[name]).to(device) for name in names]
    shapes = {"accepted": (w.batch,), "node": (w.batch,), "token": (w.batch, w.draft_length + 1)}
    out = {name: torch.empty(shape, dtype=torch.int32, device=device) for name, shape in shapes.items()}
    block = min(_BLOCK, triton.next_power_of_2(w.vocab))
    # The launch syntax is beyond type checkers.
    kernel: Any = verify_tree
    sizes = (w.vocab, w.nodes, w.inner, w.draft_length)

    def run() -> None:
        kernel[(w.batch,)](*moved, *out.values(), *sizes, BRANCHES=w.branches, BLOCK=block, num_warps=_WARPS)

    def output() -> Arrays:
        return {name: value.cpu().numpy() for name, value in out.items()}

    return Prepared(run, output)


def compile_specs(target: str) -> list[KernelSpec]:
    """Return the kernel for a sequence and for a tree of two branches."""
    signature = {"target": "*fp32", "draft": "*fp32", "token": "*i32", "seed": "*i64", "offset": "*i64"}
    signature |= dict.fromkeys(("accepted", "node", "out"), "*i32")
    signature |= dict.fromkeys(("vocab", "nodes", "inner", "length"), "i32")
    return [
        KernelSpec(name, verify_tree, signature, {"BRANCHES": branches, "BLOCK": _BLOCK}, _WARPS, 2, ("vocab",))
        for name, branches in (("verify_sequence", 1), ("verify_tree_2", 2))
    ]
