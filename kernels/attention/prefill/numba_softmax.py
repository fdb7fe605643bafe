"""Online softmax of a panel of scores: a line per key and a lane per query, so that nothing is reduced across lanes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit

from ... import simd
from ...matmul.panels import PANEL

_LANES = simd.LANES
_MINUS_INF = np.float32(-np.inf)
_LEAST = np.float32(-127.0)
_ONE, _TWO = np.float32(1.0), np.float32(2.0)
LINES_STEP = 4
"""The lines of a panel are completed to a multiple of this: pairs of keys, and two elements per step of a product."""


@njit(forceinline=True)
def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent of float32 lanes, with an absolute error of 2e-7."""
    return _ONE - _TWO / (simd.exp(x * _TWO) + _ONE)


@simd.leaf
def cap_scores(scores: Any, lines: int, scale: Any, cap: Any) -> None:
    """Replace scores by ``cap * tanh(scale * score / cap)``."""
    inner = scale / cap
    for at in range(0, lines * PANEL, _LANES):
        simd.store(scores, at, tanh(simd.load(scores, at) * inner) * cap)


@simd.leaf
def hide(scores: Any, lines: int, start: int, lows: Any, highs: Any, first: int) -> None:
    """Set the score of every key outside ``lows[first + lane] <= key < highs[first + lane]`` to -inf."""
    for v in range(0, PANEL, _LANES):
        low, high = simd.load(lows, first + v), simd.load(highs, first + v)
        for line in range(lines):
            key = np.int32(start + line)
            seen = (low <= key) & (high > key)
            at = line * PANEL + v
            simd.store(scores, at, simd.select(seen, simd.load(scores, at), _MINUS_INF))


@simd.leaf
def complete(scores: Any, lines: int) -> int:
    """Add lines of hidden keys up to a multiple of `LINES_STEP`; return how many there are then."""
    whole = (lines + LINES_STEP - 1) // LINES_STEP * LINES_STEP
    for at in range(lines * PANEL, whole * PANEL, _LANES):
        simd.store(scores, at, simd.full(_MINUS_INF, np.float32))
    return whole


@cache
def softmax_step(pairs: bool) -> Any:
    """Return ``step(scores, weights, lines, scale, first, tops, sums, factors)``.

    Turns ``lines`` lines of scores into weights ``2**(scale * (score - top))``, in place as fp32, or as pairs of bf16
    in ``weights``, the same memory. Updates the largest score and the sum of the weights of the queries from ``first``
    on; ``factors`` is what sums of earlier keys are to be multiplied by. Returns whether one of them is not 1.
    """

    @simd.inlined
    def weight(scores: Any, at: int, scale: Any, shift: Any) -> Any:
        return simd.exp2_in_range(simd.maximum(_LEAST, simd.fma(simd.load(scores, at), scale, shift)))

    if pairs:

        @simd.inlined
        def put(scores: Any, weights: Any, line: int, v: int, scale: Any, shift: Any) -> Any:
            at = line * PANEL + v
            p, q = weight(scores, at, scale, shift), weight(scores, at + PANEL, scale, shift)
            low, high = simd.narrow_bf16(p), simd.narrow_bf16(q)
            pair = simd.convert(low, np.uint32) | (simd.convert(high, np.uint32) << np.uint32(16))
            simd.store(weights, line // 2 * PANEL + v, pair)
            return p + q
    else:

        @simd.inlined
        def put(scores: Any, weights: Any, line: int, v: int, scale: Any, shift: Any) -> Any:
            at = line * PANEL + v
            p, q = weight(scores, at, scale, shift), weight(scores, at + PANEL, scale, shift)
            simd.store(scores, at, p)
            simd.store(scores, at + PANEL, q)
            return p + q

    @simd.leaf
    def step(scores: Any, weights: Any, lines: int, scale: Any, first: int, tops: Any, sums: Any, factors: Any) -> bool:
        changed = False
        for v in range(0, PANEL, _LANES):
            before = simd.load(tops, first + v)
            a, b, c, d = before, before, before, before
            for line in range(0, lines, 4):
                at = line * PANEL + v
                a = simd.maximum(simd.load(scores, at), a)
                b = simd.maximum(simd.load(scores, at + PANEL), b)
                c = simd.maximum(simd.load(scores, at + 2 * PANEL), c)
                d = simd.maximum(simd.load(scores, at + 3 * PANEL), d)
            top = simd.maximum(simd.maximum(a, b), simd.maximum(c, d))
            # -inf - -inf would be NaN where 0 is meant.
            base = simd.select(top > _MINUS_INF, top, np.float32(0.0))
            shift = base * -scale
            total, other = simd.full(0.0, np.float32), simd.full(0.0, np.float32)
            for line in range(0, lines, 4):
                total = total + put(scores, weights, line, v, scale, shift)
                other = other + put(scores, weights, line + 2, v, scale, shift)
            factor = simd.exp2_in_range(simd.maximum(_LEAST, simd.fma(before, scale, shift)))
            simd.store(tops, first + v, top)
            simd.store(sums, first + v, simd.fma(simd.load(sums, first + v), factor, total + other))
            simd.store(factors, first + v, factor)
            changed = changed or simd.any_lane(before < top)
        return changed

    return step


@simd.leaf
def rescale(product: Any, at: int, lines: int, factors: Any, first: int) -> None:
    """Multiply the lines of a panel by a factor per query."""
    for v in range(0, PANEL, _LANES):
        factor = simd.load(factors, first + v)
        for line in range(lines):
            place = at + line * PANEL + v
            simd.store(product, place, simd.load(product, place) * factor)
