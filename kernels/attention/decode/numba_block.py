"""Decode attention of some query rows over one block of keys, in compiled code."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit

from ... import simd
from .numba_tiles import TILE_ROWS, score_tile, value_tile

BLOCK = 32
"""Keys of a block: its keys and values stay in the L1 cache, or nearly, while all query rows go over them."""

_LANES = simd.LANES
_LEAST = np.float32(-127.0)
_MINUS_INF = np.float32(-np.inf)


@njit
def fill_offsets(offsets: Any, stream: Any, table: Any, start: int, stop: int, shape: Any) -> None:
    """Write where the keys of a block stand in the cache.

    ``offsets[BLOCK]`` is that of KV head 0 by key; ``stream[kv_heads * BLOCK]`` that of all keys of all heads in the
    order of their addresses, in which they are best fetched. Places that are left repeat the last.
    """
    _, kv_heads, page_size, head_dim = shape
    key, at, place = start, 0, 0
    while key < stop:
        page, slot = key // page_size, key % page_size
        base = (np.int64(table[page]) * kv_heads * page_size + slot) * head_dim
        here = min(page_size - slot, stop - key)
        for head in range(kv_heads):
            first = base + head * page_size * head_dim
            for i in range(here):
                stream[place] = first + i * head_dim
                place += 1
        for i in range(here):
            offsets[at + i] = base + i * head_dim
        at += here
        key += here
    for i in range(at, BLOCK):
        offsets[i] = offsets[at - 1]
    for i in range(place, stream.size):
        stream[i] = stream[place - 1]


@njit(forceinline=True)
def exp2_scalar(x: Any) -> Any:
    """Return 2**x of a float32; -inf gives 0."""
    return simd.lane(simd.exp2(simd.full(x, np.float32)), 0)


@njit(forceinline=True)
def _store_rounded(weights: Any, at: int, p: Any) -> None:
    simd.store(weights, at, simd.narrow_bf16(p))


@njit(forceinline=True)
def _store_plain(weights: Any, at: int, p: Any) -> None:
    simd.store(weights, at, p)


def _make_softmax(dot: bool) -> Any:
    store_weights = _store_rounded if dot else _store_plain

    @njit
    def softmax(scores: Any, weights: Any, at: int, start: int, low: int, high: int, scale: Any, top: Any) -> Any:
        """Turn a row of scores into weights; return the new maximum, in powers of two, and the sum of the weights.

        Keys outside ``low <= key < high`` get weight 0.
        """
        running = simd.full(top, np.float32)
        for i in range(0, BLOCK, _LANES):
            key = simd.lane_indices(np.int32) + np.int32(start + i)
            seen = (key >= np.int32(low)) & (key < np.int32(high))
            x = simd.select(seen, simd.load(scores, at + i) * scale, _MINUS_INF)
            simd.store(scores, at + i, x)
            running = simd.maximum(x, running)
        top = simd.max_lanes(running)
        # -inf - -inf would be NaN where 0 is meant.
        base = top if top > _MINUS_INF else np.float32(0.0)
        total = simd.full(0.0, np.float32)
        for i in range(0, BLOCK, _LANES):
            p = simd.exp2_in_range(simd.maximum(_LEAST, simd.load(scores, at + i) - base))
            total = total + p
            store_weights(weights, at + i, p)
        return top, simd.sum_lanes(total)

    return softmax


def _make_values(rows: int, dot: bool) -> Any:
    # What fits in the registers beside the operands.
    most = 8 if rows <= 2 and _LANES == 16 else 4 if _LANES > 4 or rows <= 2 else 2
    wide, narrow = value_tile(rows, most, dot), value_tile(rows, 2, dot)
    single = value_tile(rows, 2 if dot else 1, dot)

    @njit
    def values_of_rows(
        p: Any, row: int, factors: Any, v: Any, offsets: Any, following: Any, count: int, dim: int, out: Any
    ) -> None:
        d, to = 0, row * dim
        while d + most * _LANES <= dim:
            wide(p, row * BLOCK, BLOCK, factors, row, v, offsets, following, count, d, dim, out, to)
            d += most * _LANES
        while d + 2 * _LANES <= dim:
            narrow(p, row * BLOCK, BLOCK, factors, row, v, offsets, following, count, d, dim, out, to)
            d += 2 * _LANES
        if d < dim:
            single(p, row * BLOCK, BLOCK, factors, row, v, offsets, following, count, d, dim, out, to)

    return values_of_rows


@cache
def block_step(dot: bool) -> Any:
    """Return the compiled step over one block.

    ``step(q, k, v, offsets, following, start, count, bounds, scale, dim, scores, weights, tops, sums, factors, out)``
    with ``q, out [rows * dim]``, ``scores, weights [rows * BLOCK]``, and per row the first key it sees and the first
    that it does not in ``bounds [rows, 2]``. Updates the running maxima, sums and products in ``tops``, ``sums`` and
    ``out``. ``dot``: whether q, k, v and the weights are multiplied as pairs of bf16.
    """
    sizes = [min(n, TILE_ROWS) for n in (TILE_ROWS, 1, 2, 3)]
    scores_full, scores_1, scores_2, scores_3 = (score_tile(n, dot) for n in sizes)
    values_full, values_1, values_2, values_3 = (_make_values(n, dot) for n in sizes)
    softmax = _make_softmax(dot)

    @njit
    def step(
        q: Any, k: Any, v: Any, offsets: Any, following: Any, start: int, count: int, bounds: Any, scale: Any, dim: int,
        scores: Any, weights: Any, tops: Any, sums: Any, factors: Any, out: Any,
    ) -> None:  # fmt: skip
        rows = tops.size
        even = rows // TILE_ROWS * TILE_ROWS
        left, to = rows - even, even * BLOCK
        # Only the first tile asks for what follows; for the others that is a hit in the cache.
        ahead = following
        for row in range(0, even, TILE_ROWS):
            scores_full(q, row * dim, k, offsets, ahead, count, dim, scores, row * BLOCK, BLOCK)
            ahead = offsets
        if left == 1:
            scores_1(q, even * dim, k, offsets, ahead, count, dim, scores, to, BLOCK)
        elif left == 2:
            scores_2(q, even * dim, k, offsets, ahead, count, dim, scores, to, BLOCK)
        elif left == 3:
            scores_3(q, even * dim, k, offsets, ahead, count, dim, scores, to, BLOCK)
        for row in range(rows):
            low, high = bounds[row, 0], min(bounds[row, 1], start + count)
            top, total = softmax(scores, weights, row * BLOCK, start, low, high, scale, tops[row])
            factors[row] = exp2_scalar(tops[row] - top) if tops[row] > _MINUS_INF else np.float32(0.0)
            tops[row] = top
            sums[row] = sums[row] * factors[row] + total
        ahead = following
        for row in range(0, even, TILE_ROWS):
            values_full(weights, row, factors, v, offsets, ahead, count, dim, out)
            ahead = offsets
        if left == 1:
            values_1(weights, even, factors, v, offsets, ahead, count, dim, out)
        elif left == 2:
            values_2(weights, even, factors, v, offsets, ahead, count, dim, out)
        elif left == 3:
            values_3(weights, even, factors, v, offsets, ahead, count, dim, out)

    return step
