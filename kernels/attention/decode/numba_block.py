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
def fill_offsets(offsets: Any, table: Any, start: int, stop: int, shape: Any) -> None:
    """Write where the keys ``start`` to ``stop`` of KV head 0 stand in the cache."""
    _, kv_heads, page_size, head_dim = shape
    key, at = start, 0
    while key < stop:
        page, slot = key // page_size, key % page_size
        base = (np.int64(table[page]) * kv_heads * page_size + slot) * head_dim
        here = min(page_size - slot, stop - key)
        for i in range(here):
            offsets[at + i] = base + i * head_dim
        at += here
        key += here


@njit
def _line_up(rows: Any, offsets: Any, count: int, shift: int, after: Any, after_count: int, after_shift: int) -> None:
    """Write the rows of a phase and behind them those of the next, the last repeated until `rows` is full."""
    for i in range(count):
        rows[i] = offsets[i] + shift
    for i in range(after_count):
        rows[count + i] = after[i] + after_shift
    last = rows[count + after_count - 1]
    for i in range(count + after_count, rows.size):
        rows[i] = last


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
    # As many accumulators as fit in the registers beside the operands. Few widths, because each takes long to compile.
    most, least = 2 if _LANES == 4 and not dot else 4, 2 if dot else 1
    wide, narrow = value_tile(rows, most, dot), value_tile(rows, least, dot)

    @njit
    def values_of_rows(
        p: Any, row: int, factors: Any, v: Any, offsets: Any, skip: int, count: int, dim: int, out: Any
    ) -> None:
        d, to = 0, row * dim
        while d + most * _LANES <= dim:
            wide(p, row * BLOCK, BLOCK, factors, row, v, offsets, skip, count, d, dim, out, to)
            d += most * _LANES
        while d < dim:
            narrow(p, row * BLOCK, BLOCK, factors, row, v, offsets, skip, count, d, dim, out, to)
            d += least * _LANES

    return values_of_rows


@cache
def block_step(dot: bool) -> Any:
    """Return the compiled step over one block.

    ``step(q, kv, offsets, count, next_offsets, next_count, rows_at, start, bounds, scale, head_step, value_step,
    skip, scores, weights, tops, sums, factors, out)`` with, for every KV head, ``q, out [rows * dim]``, ``tops, sums
    [rows]``; ``scores, weights [rows * BLOCK]`` and ``factors [rows]`` are scratch. ``bounds [rows, 2]`` holds the
    first key a row sees and the first after that it does not. In ``kv`` a KV head's keys are ``head_step`` elements
    after those of the head before, and values ``value_step`` after keys. Updates the running maxima, sums and products
    in ``tops``, ``sums`` and ``out``. ``dot``: whether q, k, v and the weights are multiplied as pairs of bf16.

    Keys and values of the heads are read in turns, each phase asking for the first ``skip`` rows of the next.
    """
    sizes = [min(n, TILE_ROWS) for n in (TILE_ROWS, 1, 2, 3)]
    scores_full, scores_1, scores_2, scores_3 = (score_tile(n, dot) for n in sizes)
    values_full, values_1, values_2, values_3 = (_make_values(n, dot) for n in sizes)
    softmax = _make_softmax(dot)

    @njit
    def keys_of_head(q: Any, k: Any, offsets: Any, skip: int, count: int, dim: int, scores: Any) -> None:
        rows = scores.size // BLOCK
        even = rows // TILE_ROWS * TILE_ROWS
        left, to = rows - even, even * BLOCK
        # Only the first tile asks for what follows; for the others that is a hit in the cache.
        for row in range(0, even, TILE_ROWS):
            scores_full(q, row * dim, k, offsets, skip, count, dim, scores, row * BLOCK, BLOCK)
            skip = 0
        if left == 1:
            scores_1(q, even * dim, k, offsets, skip, count, dim, scores, to, BLOCK)
        elif left == 2:
            scores_2(q, even * dim, k, offsets, skip, count, dim, scores, to, BLOCK)
        elif left == 3:
            scores_3(q, even * dim, k, offsets, skip, count, dim, scores, to, BLOCK)

    @njit
    def values_of_head(
        weights: Any, factors: Any, v: Any, offsets: Any, skip: int, count: int, dim: int, out: Any
    ) -> None:
        rows = factors.size
        even = rows // TILE_ROWS * TILE_ROWS
        left = rows - even
        for row in range(0, even, TILE_ROWS):
            values_full(weights, row, factors, v, offsets, skip, count, dim, out)
            skip = 0
        if left == 1:
            values_1(weights, even, factors, v, offsets, skip, count, dim, out)
        elif left == 2:
            values_2(weights, even, factors, v, offsets, skip, count, dim, out)
        elif left == 3:
            values_3(weights, even, factors, v, offsets, skip, count, dim, out)

    @njit
    def step(
        q: Any, kv: Any, offsets: Any, count: int, next_offsets: Any, next_count: int, rows_at: Any, start: int,
        bounds: Any, scale: Any, head_step: int, value_step: int, skip: int, scores: Any, weights: Any, tops: Any,
        sums: Any, factors: Any, out: Any,
    ) -> None:  # fmt: skip
        heads, rows = tops.shape
        dim = out.shape[1] // rows
        next_first = min(skip, next_count)
        first = min(skip, count)
        for head in range(heads):
            shift = head * head_step
            _line_up(rows_at, offsets, count, shift, offsets, first, shift + value_step)
            keys_of_head(q[head], kv, rows_at, skip, count, dim, scores)
            for row in range(rows):
                low, high = bounds[row, 0], min(bounds[row, 1], start + count)
                before = tops[head, row]
                top, total = softmax(scores, weights, row * BLOCK, start, low, high, scale, before)
                factors[row] = exp2_scalar(before - top) if before > _MINUS_INF else np.float32(0.0)
                tops[head, row] = top
                sums[head, row] = sums[head, row] * factors[row] + total
            if head + 1 < heads:
                _line_up(rows_at, offsets, count, shift + value_step, offsets, first, shift + head_step)
            else:
                _line_up(rows_at, offsets, count, shift + value_step, next_offsets, next_first, 0)
            values_of_head(weights, factors, kv, rows_at, skip, count, dim, out[head])

    return step
