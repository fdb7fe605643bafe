"""Triton: gate, selection and weights of a block of tokens, and the block's count of choices per expert.

A score and its column are packed into one 64-bit key, the score's bits made to order as an unsigned integer on top
and the complement of the column below, so that keys are distinct and the largest is the best, the lowest expert among
equals. Experts stand in columns by group: column ``g * SIZE + s`` is expert ``g * size + s``, padded to powers of
two.
"""

from __future__ import annotations

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportCallIssue=false
from typing import Any

import triton
import triton.language as tl

# Triton reads module-level values only as constexpr; type checkers see the kernels as plain functions.
_UNDEFINED: Any = tl.constexpr(-3.4028234663852886e38)


@triton.jit
def pack(score, column, COLUMNS: tl.constexpr):
    """Return 64-bit keys that order as (score, lowest column first)."""
    bits = tl.where(score == 0, 0.0, score).to(tl.int32, bitcast=True)  # zeros of either sign are equal
    ordered = tl.where(bits < 0, ~bits, bits ^ -2147483648).to(tl.uint32, bitcast=True)
    return (ordered.to(tl.uint64) << 32) | (COLUMNS - 1 - column).to(tl.uint64)


@triton.jit
def score_of(key):
    """Return the score of a packed key."""
    ordered = (key >> 32).to(tl.uint32).to(tl.int32, bitcast=True)
    return tl.where(ordered < 0, ordered ^ -2147483648, ~ordered).to(tl.float32, bitcast=True)


@triton.jit
def _keep_best_groups(keys, size, groups_kept, KEPT: tl.constexpr, TOKENS: tl.constexpr, GROUPS: tl.constexpr,
                      SIZE: tl.constexpr, valid_group):  # fmt: skip
    """Set to 0 the keys of experts outside each token's best groups."""
    by_group = tl.reshape(keys, (TOKENS, GROUPS, SIZE))
    best = tl.max(by_group, axis=2)
    second = tl.max(tl.where(by_group == best[:, :, None], 0, by_group), axis=2)
    score = tl.where(size > 1, score_of(best) + score_of(second), score_of(best))
    group = tl.arange(0, GROUPS)[None, :]
    group_keys = tl.where(valid_group, pack(score, group, GROUPS), 0)
    top = tl.topk(group_keys, KEPT)
    rank = tl.arange(0, KEPT)[None, :]
    bound = tl.min(tl.where(rank < groups_kept, top, 0xFFFFFFFFFFFFFFFF), axis=1)
    kept = (group_keys >= bound[:, None])[:, :, None]
    return tl.reshape(tl.where(kept, by_group, 0), (TOKENS, GROUPS * SIZE))


@triton.jit
def routing_choose(logits, bias, weights, experts_out, partial, tokens, experts, top_k, groups, groups_kept, scale,
                   GATE: tl.constexpr, RENORMALIZE: tl.constexpr, TOKENS: tl.constexpr, GROUPS: tl.constexpr,
                   SIZE: tl.constexpr, KEPT: tl.constexpr, CHOICES: tl.constexpr, BINS: tl.constexpr,
                   EPSILON: tl.constexpr):  # fmt: skip
    """Route ``TOKENS`` tokens per program; ``partial[program, expert]`` counts their choices."""
    program = tl.program_id(0)
    token = program * TOKENS + tl.arange(0, TOKENS)
    column = tl.arange(0, GROUPS * SIZE)
    size = experts // groups
    group, member = column // SIZE, column % SIZE
    expert = group * size + member
    exists = (group < groups) & (member < size)
    start = token.to(tl.int64) * experts
    mask = (token < tokens)[:, None] & exists[None, :]
    x = tl.load(logits + start[:, None] + expert[None, :], mask=mask, other=0.0).to(tl.float32)
    x = tl.where(exists[None, :], x, float("-inf"))
    if GATE == 2:
        offset = tl.load(bias + expert, mask=exists, other=0.0)
        score = tl.where(x != x, _UNDEFINED, 1.0 / (1.0 + tl.exp(-x)) + offset[None, :])
    else:
        x = tl.where(x != x, float("-inf"), x)
        score = x
    keys = tl.where(exists[None, :], pack(score, column[None, :], GROUPS * SIZE), 0)
    if GROUPS > 1:
        valid_group = (tl.arange(0, GROUPS) < groups)[None, :]
        keys = _keep_best_groups(keys, size, groups_kept, KEPT, TOKENS, GROUPS, SIZE, valid_group)
    top = tl.topk(keys, CHOICES)
    chosen = (GROUPS * SIZE - 1) - (top & 0xFFFFFFFF).to(tl.int32)
    number = chosen // SIZE * size + chosen % SIZE
    slot = tl.arange(0, CHOICES)[None, :]
    valid = (token < tokens)[:, None] & (slot < top_k)
    if GATE == 2:
        again = tl.load(logits + start[:, None] + number, mask=valid, other=float("-inf")).to(tl.float32)
        weight = tl.where(again != again, 0.0, 1.0 / (1.0 + tl.exp(-again)))
        if RENORMALIZE:
            weight = weight / (tl.sum(tl.where(slot < top_k, weight, 0.0), axis=1) + EPSILON)[:, None]
    else:
        value = score_of(top)
        highest = tl.max(value, axis=1)[:, None]
        weight = tl.exp(value - highest)
        if GATE == 1:
            # Columns that hold no expert are -inf, which adds nothing.
            weight = weight / tl.sum(tl.exp(x - highest), axis=1)[:, None]
        else:
            weight = weight / tl.sum(tl.where(slot < top_k, weight, 0.0), axis=1)[:, None]
    at = token.to(tl.int64)[:, None] * top_k + slot
    tl.store(weights + at, weight * scale, mask=valid)
    tl.store(experts_out + at, number, mask=valid)
    counts = tl.histogram(tl.ravel(number), BINS, mask=tl.ravel(valid))
    bins = tl.arange(0, BINS)
    tl.store(partial + program.to(tl.int64) * experts + bins, counts, mask=bins < experts)
