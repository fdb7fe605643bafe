"""One row of sampling.top_k_top_p in Numba.

The row is read once from memory, for the maximum of every block; from then on it is in the cache. The k-th largest
block maximum bounds the k-th largest logit from below, so that only blocks above it are looked at again: with top-k
set, the rest is work on a few hundred logits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from ... import simd
from ..numba_draw import scaled_draw
from ..numba_weights import BLOCK, key_below, key_of, least_below_target, mass_above, threshold, value_of, weights

_LANES = simd.LANES
_STEP = 4 * _LANES
_LINE = 16
_AHEAD = 2048
_MINUS_INF = np.float32(-np.inf)
_ZERO, _NO_SCALE = np.int64(0), np.float32(0.0)
_LN_2 = math.log(2.0)
_LEAST, _MOST = np.float32(-126.0), np.float32(126.0)
# The error of a mantissa that is the fraction averages to this much of a unit of the exponent.
_MANTISSA, _BIASED = np.float32(2.0**23), np.float32((127.0 - 0.0573) * 2.0**23)


@njit(forceinline=True)
def _rough_power(x: Any, base: Any, scale: Any) -> Any:
    """Return 2**((x - base) scale) within 3 %, unbiased: the fraction goes into the mantissa as it is."""
    y = simd.minimum(_MOST, simd.maximum(_LEAST, (x - base) * scale))
    return simd.bitcast(simd.convert(simd.fma(y, _MANTISSA, _BIASED), np.int32), np.float32)


@njit
def block_maxima(row: Any, n: int, maxima: Any, scale: Any) -> Any:
    """Write the maximum of each block; return the row's, whether it holds a NaN, and a rough sum of the weights.

    The sum is that of ``2**((x - maximum) scale)``; it is left out where ``scale`` is 0.
    """
    top, s = simd.full(_MINUS_INF, np.float32), simd.full(0.0, np.float32)
    missing, base = top != top, _NO_SCALE
    for block in range((n + BLOCK - 1) // BLOCK):
        start, stop = block * BLOCK, min((block + 1) * BLOCK, n)
        a = simd.full(_MINUS_INF, np.float32)
        b = a
        if stop - start == BLOCK:
            for i in range(start, stop, _STEP):
                for line in range(0, _STEP, _LINE):
                    simd.prefetch(row, i + _AHEAD + line)
                x0, x1 = simd.load(row, i), simd.load(row, i + _LANES)
                x2, x3 = simd.load(row, i + 2 * _LANES), simd.load(row, i + 3 * _LANES)
                missing = missing | (x0 != x0) | (x1 != x1) | (x2 != x2) | (x3 != x3)
                a = simd.maximum(x1, simd.maximum(x0, a))
                b = simd.maximum(x3, simd.maximum(x2, b))
        else:
            for i in range(start, stop, _LANES):
                x0 = simd.load_masked(row, i, simd.first_lanes(stop - i), _MINUS_INF)
                missing = missing | (x0 != x0)
                a = simd.maximum(x0, a)
        a = simd.maximum(a, b)
        maxima[block] = simd.max_lanes(a)
        top = simd.maximum(a, top)
        if scale > _NO_SCALE:
            if block == 0 and abs(maxima[0]) < np.inf:
                base = maxima[0]
            for i in range(start, stop - _LANES + 1, _LANES):
                s = s + _rough_power(simd.load(row, i), base, scale)
    maximum = simd.max_lanes(top)
    shift = (np.float64(base) - np.float64(maximum)) * np.float64(scale)
    return maximum, simd.any_lane(missing), np.float64(simd.sum_lanes(s)) * 2.0**shift


@njit
def _collect(row: Any, n: int, maxima: Any, bound: Any, values: Any) -> Any:
    """List the logits from a bound on, in order, as far as they fit; return how many there are."""
    count, room = _ZERO, np.int64(values.size - _LANES)
    for block in range((n + BLOCK - 1) // BLOCK):
        if maxima[block] >= bound:
            stop = min((block + 1) * BLOCK, n)
            for i in range(block * BLOCK, stop, _LANES):
                x = simd.load_masked(row, i, simd.first_lanes(stop - i), _MINUS_INF)
                found = x >= bound
                if simd.any_lane(found):
                    if count <= room:
                        simd.store_compressed(values, count, x, found)
                    count += simd.count_lanes(found)
            if count > room:
                return count
    return count


@njit
def _least_logit(limit: float) -> Any:
    """Return the smallest float32 that is not below a float64."""
    rounded = np.float32(limit)
    return value_of(key_of(rounded) + 1) if np.float64(rounded) < limit else rounded


@njit
def cut(row, n, maxima, top, scale, unit, top_k, top_p, least, estimate, values, scratch):
    """Return the least logit that min-p, top-k and top-p keep, and what `threshold` knows of the draw.

    ``least`` is the one that min-p keeps, ``estimate`` about the weight of the row.
    """
    blocks, high = (n + BLOCK - 1) // BLOCK, key_of(top)
    bound, x, size, one = least, row, n, np.int64(unit)
    over, upper = np.int64(-1), high
    if 0 < top_k < n and 2 * top_k <= blocks:
        key = least_below_target(
            maxima, blocks, key_of(_MINUS_INF), high, _ZERO, top_k * one, top, _NO_SCALE, unit, scratch[1]
        )
        bound = max(bound, value_of(key))
    if bound > _MINUS_INF:
        count = _collect(row, n, maxima, bound, values)
        if count <= values.size - _LANES:
            x, size = values, count
    kept = least
    if 0 < top_k < n:
        low = key_below(bound) if bound > _MINUS_INF else key_of(_MINUS_INF)
        total = mass_above(x, size, value_of(low), top, _NO_SCALE, unit)
        if total > top_k * one:
            key, over, upper = threshold(
                x, size, low, high, np.float64(total), 0.0, top_k * one, top, _NO_SCALE, unit, scratch
            )
            # What is listed weighs one each, which is of no use to the draw.
            kept, over = max(kept, value_of(key)), np.int64(-1)
    if top_p < 1.0:
        low = key_below(kept) if kept > _MINUS_INF else key_of(_MINUS_INF)
        if kept > _MINUS_INF and size == n:
            estimate = np.float64(mass_above(x, size, value_of(low), top, scale, unit))
        key, over, upper = threshold(x, size, low, high, estimate, top_p, _ZERO, top, scale, unit, scratch)
        kept = max(kept, value_of(key))
    return kept, over, value_of(upper)


@njit
def _block_mass(row: Any, start: int, stop: int, kept: Any, top: Any, scale: Any, unit: Any) -> Any:
    a, count = simd.full(0, np.int64), _ZERO
    for i in range(start, stop, _LANES):
        x = simd.load_masked(row, i, simd.first_lanes(stop - i), _MINUS_INF)
        stays = (x >= kept) & (x > _MINUS_INF)
        a = a + simd.select(stays, weights(x, top, scale, unit), _ZERO)
        count += simd.count_lanes(stays)
    return simd.sum_lanes(a), count


@njit
def _listed_mass(near: Any, start: int, stop: int, kept: Any, top: Any, scale: Any, unit: Any) -> Any:
    return _block_mass(near, start, stop, kept, top, scale, unit) if stop > start else (_ZERO, _ZERO)


@njit
def draw(row, n, maxima, kept, over, upper, top, scale, unit, seed, offset, scratch):
    """Return the token drawn from the logits from ``kept`` on, their weight and their number.

    Blocks are weighed again unless ``over`` says that ``scratch`` holds the weights above ``upper``, and the rest.
    """
    near, _, _, masses, counts = scratch
    total, count, blocks, place = _ZERO, max(over, _ZERO), (n + BLOCK - 1) // BLOCK, _ZERO
    for block in range(blocks):
        if over >= 0:
            more, found = _listed_mass(near, place, place + counts[block], kept, top, scale, unit)
            masses[block] += more
            place += counts[block]
        elif maxima[block] >= kept:
            start, stop = block * BLOCK, min((block + 1) * BLOCK, n)
            masses[block], found = _block_mass(row, start, stop, kept, top, scale, unit)
        else:
            masses[block], found = _ZERO, _ZERO
        total += masses[block]
        count += found
    rest, block = scaled_draw(seed, offset, total), 0
    while rest >= masses[block]:
        rest -= masses[block]
        block += 1
    stop = min((block + 1) * BLOCK, n)
    for i in range(block * BLOCK, stop, _LANES):
        x = simd.load_masked(row, i, simd.first_lanes(stop - i), _MINUS_INF)
        w = simd.select((x >= kept) & (x > _MINUS_INF), weights(x, top, scale, unit), _ZERO)
        mass = simd.sum_lanes(w)
        if rest < mass:
            for lane in range(_LANES):
                one = simd.lane(w, lane)
                if rest < one:
                    return i + lane, total, count
                rest -= one
        rest -= mass
    return -1, total, count


@njit
def first_of(row: Any, n: int, value: Any) -> Any:
    """Return the first place of a value in a row."""
    for i in range(0, n, _LANES):
        x = simd.load_masked(row, i, simd.first_lanes(n - i), _MINUS_INF)
        bits = simd.mask_bits(x == value)
        if bits:
            for lane in range(_LANES):
                if (bits >> lane) & 1:
                    return i + lane
    return -1


@njit
def sample_row(row, temperature, top_k, top_p, min_p, seed, offset, unit, maxima, values, scratch):
    """Return token, logprob and number of kept tokens of one row."""
    n = row.size
    power = math.log2(math.e) / np.float64(temperature) if temperature > 0.0 else 0.0
    scale, least = np.float32(power), _MINUS_INF
    weighs_all = top_p < 1.0 and not 0 < top_k < n
    top, missing, estimate = block_maxima(row, n, maxima, scale if weighs_all else _NO_SCALE)
    if missing or not abs(top) < np.inf:
        return -1, math.nan, 0
    if temperature == 0.0:
        return first_of(row, n, top), 0.0, 1
    if min_p > 0.0:
        least = _least_logit(np.float64(top) + np.float64(temperature) * math.log(np.float64(min_p)))
    kept, over, upper = cut(
        row, n, maxima, top, scale, unit, top_k, np.float64(top_p), least, estimate * unit, values, scratch
    )
    token, total, count = draw(row, n, maxima, kept, over, upper, top, scale, unit, seed, offset, scratch)
    power *= np.float64(row[token]) - np.float64(top)
    return token, _LN_2 * (power - math.log2(np.float64(total) / np.float64(unit))), count
