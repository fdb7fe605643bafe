"""Weights of the chosen experts, and the scores of the sigmoid gate, for a tile of tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from ... import simd
from .numba_select import LANES, MINUS_INF
from .reference import SIGMOID_EPSILON

SOFTMAX_OF_CHOSEN, SOFTMAX_OF_ALL, SIGMOID = 0, 1, 2
# The score of a NaN logit: below every other, above that of an expert outside the kept groups (-inf).
_UNDEFINED = np.float32(np.finfo(np.float32).min)
_EPSILON = np.float32(SIGMOID_EPSILON)


_LOG2_E = np.float32(1.4426950408889634)
_LEAST_POWER, _LARGEST_POWER = np.float32(-127.0), np.float32(128.0)


def _widen(x: Any) -> Any:
    """Return a stored logit as fp32."""
    raise NotImplementedError("called from compiled code only")


@overload(_widen)
def _widen_lane(x):  # pyright: ignore[reportUnusedFunction]
    def from_bf16(x):
        bits = simd.full(np.uint32(x) << np.uint32(16), np.uint32)
        return simd.lane(simd.bitcast(bits, np.float32), 0)

    return from_bf16 if x == types.uint16 else lambda x: x


@simd.inlined
def _sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + simd.exp(-x))


@simd.inlined
def _score(x: Any, bias: Any) -> Any:
    """Return ``sigmoid(x) + bias``, the sigmoid with an absolute error below 1e-7 but no relative one."""
    power = simd.exp2_in_range(simd.minimum(_LARGEST_POWER, simd.maximum(_LEAST_POWER, x * -_LOG2_E)))
    return simd.select(x == x, 1.0 / (1.0 + power) + bias, _UNDEFINED)


@simd.inlined
def sum_exponentials(logits: Any, base: int, experts: int, top: Any) -> Any:
    """Return the sum of ``exp(x - top)`` over one token's experts; NaN logits count as -inf."""
    highest = simd.full(top, np.float32)
    none = simd.full(MINUS_INF, np.float32)
    total = simd.full(0.0, np.float32)
    full = experts // LANES * LANES
    for i in range(0, full, LANES):
        total += simd.exp(simd.maximum(simd.load_f32(logits, base + i), none) - highest)
    if full < experts:
        x = simd.load_f32_masked(logits, base + full, simd.first_lanes(experts - full), MINUS_INF)
        total += simd.exp(simd.maximum(x, none) - highest)
    return simd.sum_lanes(total)


@simd.inlined
def store_scores(logits: Any, base: int, experts: int, bias: Any, scores: Any, to: int) -> None:
    """Write ``sigmoid(x) + bias`` of one token."""
    full = experts // LANES * LANES
    for i in range(0, full, LANES):
        x = simd.load_f32(logits, base + i)
        simd.store(scores, to + i, _score(x, simd.load(bias, i)))
    if full < experts:
        valid = simd.first_lanes(experts - full)
        x = simd.load_f32_masked(logits, base + full, valid, 0.0)
        simd.store_masked(scores, to + full, _score(x, simd.load_masked(bias, full, valid, 0.0)), valid)


@simd.inlined
def _two_largest(scores: Any, base: int, size: int, first: Any, second: Any, token: int) -> None:
    """Write, per lane, the two largest of a group's scores."""
    a, b = simd.full(MINUS_INF, np.float32), simd.full(MINUS_INF, np.float32)
    full = size // LANES * LANES
    for i in range(0, full, LANES):
        x = simd.load(scores, base + i)
        b = simd.maximum(simd.minimum(x, a), b)
        a = simd.maximum(x, a)
    if full < size:
        x = simd.load_masked(scores, base + full, simd.first_lanes(size - full), MINUS_INF)
        b = simd.maximum(simd.minimum(x, a), b)
        a = simd.maximum(x, a)
    simd.store(first, (token, 0), a)
    simd.store(second, (token, 0), b)


@simd.inlined
def _exclude(scores: Any, start: int, size: int) -> None:
    none = simd.full(MINUS_INF, np.float32)
    full = size // LANES * LANES
    for i in range(0, full, LANES):
        simd.store(scores, start + i, none)
    if full < size:
        simd.store_masked(scores, start + full, none, simd.first_lanes(size - full))


@simd.leaf
def exclude_groups(scores, stride, experts, groups, kept, tokens, first, second, by_group) -> None:
    """Set to -inf the scores of experts outside each token's best groups."""
    size = experts // groups
    for g in range(groups):
        for t in range(tokens):
            _two_largest(scores, t * stride + g * size, size, first, second, t)
        simd.transpose_tile(first, (0, 0), first, (0, 0))
        simd.transpose_tile(second, (0, 0), second, (0, 0))
        a, b = simd.load(first, (0, 0)), simd.load(second, (0, 0))
        for i in range(1, LANES):
            x = simd.load(first, (i, 0))
            b = simd.maximum(simd.minimum(x, a), simd.maximum(simd.load(second, (i, 0)), b))
            a = simd.maximum(x, a)
        simd.store(by_group, (g, 0), a + b if size > 1 else a)
    for g in range(groups):
        mine = simd.load(by_group, (g, 0))
        rank = simd.full(0, np.int32)
        for other in range(groups):
            theirs = simd.load(by_group, (other, 0))
            before = (theirs >= mine) if other < g else (theirs > mine)
            rank += simd.convert(before, np.int32)
        outside = simd.mask_bits(rank >= np.int32(kept))
        for t in range(tokens):
            if (outside >> t) & 1:
                _exclude(scores, t * stride + g * size, size)


@simd.leaf
def store_weights(gate, renormalize, scale, top_k, tokens, keys, ids, sums, logits, first, experts) -> None:
    """Replace the scores of the chosen, a token per lane, by their weights.

    ``sums`` holds each token's sum of exponentials (for `SOFTMAX_OF_ALL`); the tile's logits begin at ``first``.
    """
    factor = simd.full(scale, np.float32)
    if gate == SIGMOID:
        total = simd.full(0.0 if renormalize else 1.0, np.float32)
        for t in range(tokens):
            for j in range(top_k):
                keys[j, t] = _widen(logits[first + t * experts + ids[j, t]])
        for j in range(top_k):
            weight = _sigmoid(simd.load(keys, (j, 0)))
            weight = simd.select(weight == weight, weight, np.float32(0.0))
            simd.store(keys, (j, 0), weight)
            if renormalize:
                total += weight
        if renormalize:
            total += _EPSILON
    else:
        top = simd.load(keys, (0, 0))
        total = simd.full(0.0, np.float32)
        for j in range(top_k):
            weight = simd.exp(simd.load(keys, (j, 0)) - top)
            simd.store(keys, (j, 0), weight)
            total += weight
        if gate == SOFTMAX_OF_ALL:
            total = simd.load(sums, 0)
    factor = factor / total
    for j in range(top_k):
        simd.store(keys, (j, 0), simd.load(keys, (j, 0)) * factor)
