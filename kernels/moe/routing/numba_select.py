"""Select the best of a tile of tokens, `simd.LANES` at a time.

For each token, the candidates kept are at least its ``top_k`` largest scores. With scores seen as ``slots`` columns
(the lanes of one or more vectors, in turn), the ``top_k``-th largest of the columns' maxima is a bound that at least
``top_k`` scores reach and, with twice as many columns as choices, few more: 1.3 ``top_k`` on average. Scores at or
above it are compressed into a short list. The rest is done for all tokens of the tile at once, a token per lane:
maxima and lists are transposed and sorted by networks.

A token with more candidates than columns (many equal scores) has its list shortened by insertion, which is slower.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ... import simd

LANES = simd.LANES
MINUS_INF = np.float32(-np.inf)
NO_EXPERT = np.int32(2**31 - 1)


def choices_bucket(top_k: int) -> int:
    """Return the number of choices that a kernel is compiled for: 8, 16 or 32."""
    return 8 if top_k <= 8 else 16 if top_k <= 16 else 32


@simd.inlined
def _store_maxima(scores: Any, base: int, experts: int, maxima: Any, token: int, slots: int) -> None:
    """Write the maxima of one token's columns; columns without a score hold -inf. NaN is skipped."""
    for column in range(0, slots, LANES):
        a = simd.full(MINUS_INF, np.float32)
        b = a
        i = column
        while i + slots + LANES <= experts:
            a = simd.maximum(simd.load_f32(scores, base + i), a)
            b = simd.maximum(simd.load_f32(scores, base + i + slots), b)
            i += 2 * slots
        while i < experts:
            a = simd.maximum(simd.load_f32_masked(scores, base + i, simd.first_lanes(experts - i), MINUS_INF), a)
            i += slots
        simd.store(maxima, (token, column), simd.maximum(a, b))


@simd.leaf
def _list_all(scores: Any, base: int, experts: int, values: Any, numbers: Any, at: int) -> int:
    """Write all scores of one token, NaN as -inf; return the end of the list."""
    none = simd.full(MINUS_INF, np.float32)
    number = simd.lane_indices(np.int32)
    for i in range(0, experts, LANES):
        x = simd.load_f32_masked(scores, base + i, simd.first_lanes(experts - i), MINUS_INF)
        simd.store(values, at + i, simd.maximum(x, none))
        simd.store(numbers, at + i, number + np.int32(i))
    return at + experts


@simd.leaf
def _shorten(top_k: int, values: Any, numbers: Any, at: int, end: int) -> int:
    """Reduce a list to its best, in order, by insertion; return its new end."""
    held = 0
    for i in range(at, end):
        value, number = values[i], numbers[i]
        if held == top_k and not value > values[at + held - 1]:
            continue
        place = at + (held if held < top_k else top_k - 1)
        while place > at and values[place - 1] < value:
            values[place], numbers[place] = values[place - 1], numbers[place - 1]
            place -= 1
        values[place], numbers[place] = value, number
        held = min(held + 1, top_k)
    return at + held


@simd.inlined
def _append(x: Any, number: Any, chosen: Any, values: Any, numbers: Any, at: int) -> int:
    simd.store_compressed(values, at, x, chosen)
    simd.store_compressed(numbers, at, number, chosen)
    return at + simd.count_lanes(chosen)


@simd.inlined
def _list_candidates(scores: Any, base: int, experts: int, bound: Any, values: Any, numbers: Any, at: int) -> int:
    """Write the scores at or above a bound, and their experts, in expert order; return the end of the list."""
    limit = simd.full(bound, np.float32)
    number = simd.lane_indices(np.int32)
    i = 0
    while i + 4 * LANES <= experts:
        x0, x1 = simd.load_f32(scores, base + i), simd.load_f32(scores, base + i + LANES)
        x2, x3 = simd.load_f32(scores, base + i + 2 * LANES), simd.load_f32(scores, base + i + 3 * LANES)
        at = _append(x0, number, x0 >= limit, values, numbers, at)
        at = _append(x1, number + np.int32(LANES), x1 >= limit, values, numbers, at)
        at = _append(x2, number + np.int32(2 * LANES), x2 >= limit, values, numbers, at)
        at = _append(x3, number + np.int32(3 * LANES), x3 >= limit, values, numbers, at)
        number += np.int32(4 * LANES)
        i += 4 * LANES
    while i < experts:
        valid = simd.first_lanes(experts - i)
        x0 = simd.load_f32_masked(scores, base + i, valid, MINUS_INF)
        at = _append(x0, number, (x0 >= limit) & valid, values, numbers, at)
        number += np.int32(LANES)
        i += LANES
    return at


@cache
def selector(bucket: int) -> Any:
    """Return the function that selects for a tile, compiled for up to ``bucket`` choices.

    It leaves, for token ``t`` of the tile in lane ``t``, the best scores in the rows of ``keys``, best first, and their
    experts in ``ids``. Token ``t``'s scores begin at ``first + t * stride`` of a flat array.
    """
    slots = max(2 * bucket, LANES)

    @simd.leaf
    def select(scores, first, stride, experts, top_k, tokens, maxima, values, numbers, keys, ids):
        for t in range(tokens):
            _store_maxima(scores, first + t * stride, experts, maxima, t, slots)
        for column in range(0, slots, LANES):
            simd.transpose_tile(maxima, (0, column), keys, (column, 0))
        simd.sort_columns(keys, slots, bucket)
        bounds = keys[top_k - 1]
        flat_values, flat_numbers = values.reshape(-1), numbers.reshape(-1)
        none, no_expert = simd.full(MINUS_INF, np.float32), simd.full(NO_EXPERT, np.int32)
        for t in range(tokens):
            base, at, bound = first + t * stride, t * slots, bounds[t]
            if bound > MINUS_INF:
                end = _list_candidates(scores, base, experts, bound, flat_values, flat_numbers, at)
            else:
                end = _list_all(scores, base, experts, flat_values, flat_numbers, at)
            if end > at + slots:
                end = _shorten(top_k, flat_values, flat_numbers, at, end)
            for i in range(0, slots, LANES):
                simd.store(flat_values, end + i, none)
                simd.store(flat_numbers, end + i, no_expert)
        for column in range(0, slots, LANES):
            simd.transpose_tile(values, (0, column), keys, (column, 0))
            simd.transpose_tile(numbers, (0, column), ids, (column, 0))
        simd.sort_columns_by(keys, ids, slots, bucket)

    return select


def list_rows(experts: int, bucket: int) -> int:
    """Return the rows of the lists' scratch: one per token, and room for a list that runs over its row."""
    slots = max(2 * bucket, LANES)
    return LANES + -(-(experts + slots + 2 * LANES) // slots)
