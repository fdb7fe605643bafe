"""Whole-number weights and thresholds in Numba kernels; see `exact_weights`.

``x[:n]`` are fp32 logits, ``base`` is the row's maximum and ``scale`` is ``log2(e) / T``. With ``scale`` 0 every token
weighs one unit, so that the same code counts tokens: the k-th largest logit is where k units lie above.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.core import types
from numba.extending import intrinsic as _numba_intrinsic

from .. import simd

intrinsic: Any = _numba_intrinsic

_LANES = simd.LANES
_LEAST_POWER = np.float32(-125.0)
_LEAST_DIFFERENCE = np.float32(-1e38)
_MINUS_INF = np.float32(-np.inf)
_ZERO, _ONE = np.int64(0), np.int64(1)
# Logits whose maximum and weight are kept together.
BLOCK = 256
# The threshold is sought this many standard deviations around where a sample puts it.
_DEVIATIONS = 3.0


def _reinterpret(value: Any, source: Any, target: Any) -> Any:
    if value != source:
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(target))

    return target(source), generate


@intrinsic
def _bits_of(typingctx: Any, value: Any) -> Any:
    return _reinterpret(value, types.float32, types.int32)


@intrinsic
def _float_of(typingctx: Any, bits: Any) -> Any:
    return _reinterpret(bits, types.int32, types.float32)


@njit(forceinline=True)
def key_of(value: Any) -> Any:
    """Return the int64 that orders as a float32 does (-0.0 just below 0.0)."""
    bits = np.int64(_bits_of(value))
    return bits if bits >= 0 else bits ^ np.int64(0x7FFFFFFF)


@njit(forceinline=True)
def value_of(key: Any) -> Any:
    """Return the float32 of a key."""
    return _float_of(np.int32(key if key >= 0 else key ^ np.int64(0x7FFFFFFF)))


@njit(forceinline=True)
def key_below(value: Any) -> Any:
    """Return the key of the next smaller float32; both zeros are one value."""
    return np.int64(-2) if value == np.float32(0.0) else key_of(value) - _ONE


@njit(forceinline=True)
def weights(x: Any, base: Any, scale: Any, unit: Any) -> Any:
    """Return the weights of a vector of logits as int64 lanes."""
    least = _LEAST_POWER / scale if scale > np.float32(0.0) else _LEAST_DIFFERENCE
    return simd.convert(simd.exp2_product(simd.maximum(least, x - base), scale) * unit, np.int64)


@njit(forceinline=True)
def _where_above(x: Any, bound: Any, w: Any) -> Any:
    return simd.select(x > bound, w, np.int64(0))


@njit
def mass_above(x: Any, n: Any, bound: Any, base: Any, scale: Any, unit: Any) -> Any:
    """Return the weight of the logits strictly above a bound."""
    a = simd.full(0, np.int64)
    b = a
    full = n // (2 * _LANES) * (2 * _LANES)
    for i in range(0, full, 2 * _LANES):
        x0, x1 = simd.load(x, i), simd.load(x, i + _LANES)
        a = a + _where_above(x0, bound, weights(x0, base, scale, unit))
        b = b + _where_above(x1, bound, weights(x1, base, scale, unit))
    for i in range(full, n, _LANES):
        x0 = simd.load_masked(x, i, simd.first_lanes(n - i), _MINUS_INF)
        a = a + _where_above(x0, bound, weights(x0, base, scale, unit))
    return simd.sum_lanes(a + b)


@njit
def _between(x: Any, n: Any, low: Any, high: Any, y: Any) -> Any:
    """List the logits above ``low`` and up to ``high`` in ``y``, which may be ``x``; return how many there are."""
    count, lower, upper = _ZERO, value_of(low), value_of(high)
    for i in range(0, n, _LANES):
        v = simd.load(x, i) if n - i >= _LANES else simd.load_masked(x, i, simd.first_lanes(n - i), _MINUS_INF)
        inside = (v > lower) & (v <= upper)
        simd.store_compressed(y, count, v, inside)
        count += simd.count_lanes(inside)
    return count


@njit
def _range(x: Any, n: Any) -> Any:
    a, b = simd.full(np.float32(np.inf), np.float32), simd.full(_MINUS_INF, np.float32)
    for i in range(0, n, _LANES):
        inside = simd.first_lanes(n - i)
        a = simd.minimum(simd.load_masked(x, i, inside, np.float32(np.inf)), a)
        b = simd.maximum(simd.load_masked(x, i, inside, _MINUS_INF), b)
    return simd.min_lanes(a), simd.max_lanes(b)


@njit
def least_below_target(x, n, low, high, offset, target, base, scale, unit, y):
    """Return the smallest key in (low, high] above which lies less than the target.

    ``offset`` is the weight above ``high``. Halves the range and drops what falls outside; the scratch ``y`` holds
    ``n`` logits in whole vectors.
    """
    count = _between(x, n, low, high, y)
    if offset + mass_above(y, count, value_of(low), base, scale, unit) < target:
        return low + _ONE
    if count > _ZERO:
        least, most = _range(y, count)
        low, high = max(low, key_below(least)), min(high, key_of(most))
    while high - low > _ONE:
        middle = (low + high) >> _ONE
        mass = mass_above(y, count, value_of(middle), base, scale, unit)
        if offset + mass < target:
            high = middle
            offset += mass
        else:
            low = middle
        count = _between(y, count, low, high, y)
    return high


@njit
def _split_block(x, start, stop, low, lower, upper, base, scale, unit, near, count):
    """Return the weights of a block above ``low`` and above ``upper`` and how many lie above the latter.

    Those between ``lower`` and ``upper`` are listed from ``count`` on, as far as they fit; the new count comes last.
    """
    a = simd.full(0, np.int64)
    b = a
    over, room = _ZERO, np.int64(near.size - _LANES)
    for i in range(start, stop, _LANES):
        v = simd.load(x, i) if stop - i >= _LANES else simd.load_masked(x, i, simd.first_lanes(stop - i), _MINUS_INF)
        w = weights(v, base, scale, unit)
        above = v > upper
        between = (v > lower) & (v <= upper)
        a = a + _where_above(v, low, w)
        b = b + simd.select(above, w, _ZERO)
        over += simd.count_lanes(above)
        if simd.any_lane(between):
            if count <= room:
                simd.store_compressed(near, count, v, between)
            count += simd.count_lanes(between)
    return simd.sum_lanes(a), simd.sum_lanes(b), over, count


@njit
def _split(x, n, low, lower, upper, base, scale, unit, near, masses, counts):
    """Return the weights above ``low`` and ``upper``, and how many logits lie above ``upper`` and from ``lower`` to it.

    ``masses`` holds the weight above ``upper`` of each block, ``counts`` how many lie between the two.
    """
    total, above, over, count = _ZERO, _ZERO, _ZERO, _ZERO
    bounds = value_of(low), value_of(lower), value_of(upper)
    for block in range((n + BLOCK - 1) // BLOCK):
        start, stop = block * BLOCK, min((block + 1) * BLOCK, n)
        before = count
        a, masses[block], more, count = _split_block(
            x, start, stop, bounds[0], bounds[1], bounds[2], base, scale, unit, near, count
        )
        counts[block] = count - before
        total += a
        above += masses[block]
        over += more
    return total, above, over, count


@njit
def _guess(x, n, low, high, below, sample, y, room, base, scale, unit):
    """Return keys that likely enclose the one below which lies a weight, with no more than ``room`` logits between."""
    vectors = min(sample.size, n) // _LANES
    step = n // vectors // _LANES * _LANES
    for k in range(vectors):
        simd.store(sample, k * _LANES, simd.load(x, k * step))
    size = vectors * _LANES
    total = mass_above(sample, size, value_of(low), base, scale, unit)
    factor = np.float64(size) / np.float64(n)
    wanted = below * factor
    middle = least_below_target(sample, size, low, high, _ZERO, total - np.int64(wanted), base, scale, unit, y)
    at = simd.full(value_of(middle), np.float32)
    # Terms below the threshold are at most as large as the one there, which bounds the deviation of their sum.
    largest = np.float64(simd.lane(weights(at, base, scale, unit), 0))
    spread = _DEVIATIONS * np.sqrt(largest * max(wanted, 0.0)) + largest
    over = mass_above(sample, size, value_of(middle), base, scale, unit)
    target = total - np.int64(wanted - spread)
    lower = least_below_target(sample, size, low, middle, over, target, base, scale, unit, y)
    target = total - np.int64(wanted + spread)
    upper = least_below_target(sample, size, middle, high, _ZERO, target, base, scale, unit, y)
    # No more than fit: where few tokens hold nearly everything, the sample tells nothing but that they lie on top.
    one, count = np.int64(unit), np.float32(0.0)
    if mass_above(sample, size, value_of(lower), base, count, unit) > np.int64(room * factor) * one:
        over = mass_above(sample, size, value_of(upper), base, count, unit)
        target = over + np.int64(room * factor) * one
        lower = least_below_target(sample, size, lower, upper, over, target, base, count, unit, y)
    return lower, upper


@njit
def threshold(x, n, low, high, estimate, share, target, base, scale, unit, scratch):
    """Return the smallest key in (low, high] above which lies less than the target, and what is known of the draw.

    The target is a ``share`` of the weight above ``low``, or ``target`` where the share is 0. The weight above ``high``
    is less. ``estimate`` is about the weight above ``low``. A sample tells where the key lies; one pass
    verifies it and lists the logits near it, and the key is found among those. Where the sample misleads, or many
    logits are equal, halving goes on until the rest is few or one.

    The second number is how many logits lie above the listed ones, where ``masses``, ``counts`` and ``near`` of the
    scratch describe the blocks of the row; else -1. The third is the key above which they lie.
    """
    near, y, sample, masses, counts = scratch
    if n <= near.size - _LANES:
        if share > 0.0:
            target = share_of(mass_above(x, n, value_of(low), base, scale, unit), share)
        return least_below_target(x, n, low, high, _ZERO, target, base, scale, unit, y), -_ONE, high
    wanted = share * estimate if share > 0.0 else np.float64(target)
    room = near.size - _LANES
    lower, upper = _guess(x, n, low, high, estimate - wanted, sample, y, room, base, scale, unit)
    lower, upper = max(lower, low), min(max(upper, lower + _ONE), high)
    while high - low > _ONE:
        total, above, over, count = _split(x, n, low, lower, upper, base, scale, unit, near, masses, counts)
        if share > 0.0:
            # The first pass goes over all that lies above low; later ones have a low of their own.
            target, share = share_of(total, share), 0.0
        if above >= target:
            low = upper
        elif count <= room:
            key = least_below_target(near, count, lower, upper, above, target, base, scale, unit, y)
            if key > lower + _ONE or above + mass_above(near, count, value_of(lower), base, scale, unit) >= target:
                return key, over, upper
            high = lower
        elif mass_above(x, n, value_of(lower), base, scale, unit) < target:
            high = lower
        else:
            low, high = lower, upper
        lower, upper = (low + high) >> _ONE, high
    return high, -_ONE, high


@njit(forceinline=True)
def share_of(total: Any, share: float) -> Any:
    """Return the whole number of weight units that a share of a total needs: at least one, at most all."""
    return min(max(np.int64(np.ceil(np.float64(total) * share)), _ONE), total)
