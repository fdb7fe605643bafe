"""nvfp4 in Numba: the tensor's largest weight, then groups of 16, as many at a time as a vector has lanes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit, prange

from ... import simd
from ...narrow_formats import E2M1_LARGEST, E4M3_LARGEST
from ...numba_rounding import MAGNITUDE_16, code_of, halves, to_float, with_sign
from .operator import GROUP

_LANES = simd.LANES
_VECTORS_PER_GROUP = max(1, GROUP // _LANES)
_PAIRS = GROUP // 2
_ZERO, _ONE, _SIX = np.float32(0.0), np.float32(1.0), np.float32(E2M1_LARGEST)
_SIXTH, _LARGEST = np.float32(1.0 / E2M1_LARGEST), np.float32(E4M3_LARGEST)
_SUBNORMAL = np.float32(2.0**-9)


@njit(forceinline=True)
def _scale_codes(top: Any, inverse_tensor: Any) -> Any:
    """Return the e4m3 codes of groups' scales in int32 lanes, from the bits of their largest weights."""
    y = simd.widen_bf16(top) * _SIXTH * inverse_tensor
    return code_of(simd.minimum(_LARGEST, y), 3, 121)


@njit(forceinline=True)
def _inverses(code: Any, tensor_scale: Any) -> Any:
    """Return the reciprocal of code times tensor scale, 0 where that is 0."""
    normal = simd.bitcast((code << np.int32(20)) + np.int32(120 << 23), np.float32)
    value = simd.select(code < np.int32(8), simd.convert(code, np.float32) * _SUBNORMAL, normal) * tensor_scale
    return simd.select(value > _ZERO, simd.full(_ONE, np.float32) / value, _ZERO)


@njit(forceinline=True)
def _nibble(y: Any) -> Any:
    bound = simd.minimum(_SIX, simd.maximum(-_SIX, y))
    return with_sign(code_of(bound, 1, 127), y, 8, 28)


@cache
def maxima() -> Any:
    """Return the kernel that finds the largest magnitude of each of several parts of a flat tensor."""

    @njit(parallel=True, error_model="numpy")
    def largest_of_parts(weight, parts):
        n, pieces = weight.size, parts.size
        groups = n // GROUP
        for piece in prange(pieces):
            top = simd.full(np.uint16(0), np.uint16)
            other = top
            start, stop = piece * groups // pieces * GROUP, (piece + 1) * groups // pieces * GROUP
            paired = start + (stop - start) // (2 * _LANES) * (2 * _LANES)
            for i in range(start, paired, 2 * _LANES):
                top = simd.maximum(simd.load(weight, i) & MAGNITUDE_16, top)
                other = simd.maximum(simd.load(weight, i + _LANES) & MAGNITUDE_16, other)
            for i in range(paired, stop, _LANES):
                top = simd.maximum(simd.load(weight, i) & MAGNITUDE_16, top)
            parts[piece] = to_float(simd.max_lanes(simd.maximum(top, other)))

    return largest_of_parts


@cache
def quantize() -> Any:
    """Return the kernel that quantises a flat tensor, given also as pairs of weights, by `LANES` groups at a time."""

    @njit(parallel=True, error_model="numpy")
    def quantize_groups(weight, pairs, tensor_scale, code, scale, tops, inverses):
        groups, pieces = weight.size // GROUP, tops.shape[0]
        inverse_tensor = _ONE / tensor_scale if tensor_scale > 0 else _ZERO
        chunks = -(-groups // _LANES)
        first_half = simd.first_lanes(_PAIRS)
        for piece in prange(pieces):
            for chunk in range(piece * chunks // pieces, (piece + 1) * chunks // pieces):
                first, count = chunk * _LANES, min(_LANES, groups - chunk * _LANES)
                for g in range(count):
                    top = simd.load(weight, (first + g) * GROUP) & MAGNITUDE_16
                    for k in range(1, _VECTORS_PER_GROUP):
                        top = simd.maximum(simd.load(weight, (first + g) * GROUP + k * _LANES) & MAGNITUDE_16, top)
                    tops[piece, g] = simd.max_lanes(top)
                scales = _scale_codes(simd.load(tops, (piece, 0)), inverse_tensor)
                simd.store_masked(scale, first, simd.convert(scales, np.uint8), simd.first_lanes(count))
                simd.store(inverses, (piece, 0), _inverses(scales, tensor_scale))
                start = first * _PAIRS
                for k in range(0, count * _PAIRS, _LANES):
                    g = k // _PAIRS
                    factor = simd.full(inverses[piece, g], np.float32)
                    if _LANES > _PAIRS:
                        factor = simd.select(first_half, factor, inverses[piece, g + 1])
                    lanes = simd.first_lanes(count * _PAIRS - k)
                    x = simd.load_masked(pairs, start + k, lanes, np.uint32(0))
                    low, high = halves(x)
                    packed = _nibble(low * factor) | (_nibble(high * factor) << np.int32(4))
                    simd.store_masked(code, start + k, simd.convert(packed, np.uint8), lanes)

    return quantize_groups
