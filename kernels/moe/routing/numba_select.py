"""Select the best of a tile of tokens, `simd.LANES` at a time.

For each token, the ``n`` candidates kept are at least its ``top_k`` largest scores. With scores seen as ``slots`` columns
(the lanes of one or more vectors, in turn), the ``top_k``-th largest of the columns' maxima is a bound that at least
``top_k`` scores reach and, with twice as many columns as choices, few more: 1.3 ``top_k`` on average. Scores at or
above it are compressed into a short list. The rest is done for all tokens of the tile at once, a token per lane: maxima
and lists are transposed and sorted by networks.

A token with more candidates than columns (many equal scores) goes through `_insertion`, which is slower.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit

from ... import simd

LANES = simd.LANES
MINUS_INF = np.float32(-np.inf)
NO_EXPERT = np.int32(2**31 - 1)


def choices_bucket(top_k: int) -> int:
    """Return the number of choices that a kernel is compiled for: 8, 16 or 32."""
    return 8 if top_k <= 8 else 16 if top_k <= 16 else 32


@njit(inline="always")
def _store_maxima(scores: Any, base: int, experts: int, maxima: Any, token: int, slots: int) -> None:
    """Write the maxima of one token's columns; columns without a score hold -inf. NaN is skipped."""
    span = slots
    for column in range(0, slots, LANES):
        top = simd.full(MINUS_INF, np.float32)
        last = experts - LANES
        at = column
        while at <= last:
            top = simd.maximum(simd.load_f32(scores, base + at), top)
            at += span
        if at < experts:
            tail = simd.load_f32_masked(scores, base + at, simd.first_lanes(experts - at), MINUS_INF)
            top = simd.maximum(tail, top)
        simd.store(maxima, (token, column), top)


@njit
def _insertion(
    scores: Any, base: int, experts: int, top_k: int, values: Any, numbers: Any, at: int, slots: int
) -> None:
    """Write the best of one token, in order, to its list. NaN counts as -inf."""
    held = 0
    for e in range(experts):
        value = simd.lane(simd.load_f32_masked(scores, base + e, simd.first_lanes(1), MINUS_INF), 0)
        value = value if value > MINUS_INF else MINUS_INF
        if held == top_k and not value > values[at + held - 1]:
            continue
        place = held if held < top_k else top_k - 1
        while place > 0 and values[at + place - 1] < value:
            values[at + place] = values[at + place - 1]
            numbers[at + place] = numbers[at + place - 1]
            place -= 1
        values[at + place], numbers[at + place] = value, e
        held = min(held + 1, top_k)
    for i in range(held, slots):
        values[at + i], numbers[at + i] = MINUS_INF, NO_EXPERT


@njit(inline="always")
def _list_candidates(scores: Any, base: int, experts: int, bound: Any, values: Any, numbers: Any, at: int) -> int:
    """Write the scores at or above a bound, and their experts, in expert order; return the end of the list."""
    limit = simd.full(bound, np.float32)
    number = simd.lane_indices(np.int32)
    full = experts // LANES * LANES
    for i in range(0, full, LANES):
        x = simd.load_f32(scores, base + i)
        chosen = x >= limit
        simd.store_compressed(values, at, x, chosen)
        simd.store_compressed(numbers, at, number, chosen)
        at += simd.count_lanes(chosen)
        number += np.int32(LANES)
    if full < experts:
        valid = simd.first_lanes(experts - full)
        x = simd.load_f32_masked(scores, base + full, valid, MINUS_INF)
        chosen = (x >= limit) & valid
        simd.store_compressed(values, at, x, chosen)
        simd.store_compressed(numbers, at, number, chosen)
        at += simd.count_lanes(chosen)
    return at


@cache
def selector(bucket: int) -> Any:
    """Return ``select(scores, first, stride, experts, top_k, tokens, scratch)`` for up to ``bucket`` choices.

    It leaves, for token ``t`` of the tile in lane ``t``, the best scores in the rows of ``scratch.keys``, best first, and
    their experts in ``scratch.numbers``. Token ``t``'s scores begin at ``first + t * stride`` of a flat array.
    """
    slots = max(2 * bucket, LANES)

    @njit
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
            end = at + slots + 1
            if bound > MINUS_INF:
                end = _list_candidates(scores, base, experts, bound, flat_values, flat_numbers, at)
            if end > at + slots:
                _insertion(scores, base, experts, top_k, flat_values, flat_numbers, at, slots)
            else:
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
    return LANES + -(-(experts + slots + LANES) // slots)
