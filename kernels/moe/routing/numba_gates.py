"""Weights of the chosen experts, and the scores of the sigmoid gate, for a tile of tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from ... import simd
from .numba_select import LANES, MINUS_INF
from .reference import SIGMOID_EPSILON

SOFTMAX_OF_CHOSEN, SOFTMAX_OF_ALL, SIGMOID = 0, 1, 2
# The score of a NaN logit: below every other, above that of an expert outside the kept groups (-inf).
_UNDEFINED = np.float32(np.finfo(np.float32).min)
_EPSILON = np.float32(SIGMOID_EPSILON)


def _widen(x: Any) -> Any:
    """Return lanes of logits as fp32, whatever their storage."""
    raise NotImplementedError("called from compiled code only")


@overload(_widen)
def _widen_lanes(x):
    if x.dtype == types.uint16:
        return lambda x: simd.widen_bf16(x)  # noqa: PLW0108 - overloads must be Python functions
    return lambda x: x


@njit(forceinline=True)
def _sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + simd.exp(-x))


@njit
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


@njit
def store_scores(logits: Any, base: int, experts: int, bias: Any, scores: Any, to: int) -> None:
    """Write ``sigmoid(x) + bias`` of one token."""
    for i in range(0, experts, LANES):
        valid = simd.first_lanes(experts - i)
        x = simd.load_f32_masked(logits, base + i, valid, 0.0)
        score = _sigmoid(x) + simd.load_masked(bias, i, valid, 0.0)
        simd.store_masked(scores, to + i, simd.select(x == x, score, _UNDEFINED), valid)


@njit
def _two_largest(scores: Any, base: int, size: int, first: Any, second: Any, token: int) -> None:
    """Write, per lane, the two largest of a group's scores."""
    a, b = simd.full(MINUS_INF, np.float32), simd.full(MINUS_INF, np.float32)
    for i in range(0, size, LANES):
        x = simd.load_masked(scores, base + i, simd.first_lanes(size - i), MINUS_INF)
        b = simd.maximum(simd.minimum(x, a), b)
        a = simd.maximum(x, a)
    simd.store(first, (token, 0), a)
    simd.store(second, (token, 0), b)


@njit
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
                start = t * stride + g * size
                scores[start : start + size] = MINUS_INF


@njit
def store_weights(gate, renormalize, scale, top_k, tokens, keys, ids, sums, logits, first, experts) -> None:
    """Replace the scores of the chosen, a token per lane, by their weights.

    ``sums`` holds each token's sum of exponentials (for `SOFTMAX_OF_ALL`); the tile's logits begin at ``first``.
    """
    factor = simd.full(scale, np.float32)
    if gate == SIGMOID:
        total = simd.full(0.0 if renormalize else 1.0, np.float32)
        start = simd.lane_indices(np.int64) * experts + first
        valid = simd.first_lanes(tokens)
        for j in range(top_k):
            number = start + simd.convert(simd.load(ids, (j, 0)), np.int64)
            x = simd.gather(logits, number, valid, 0)
            weight = _sigmoid(_widen(x))
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
