"""Rounding to few mantissa bits in Numba.

A magnitude is rounded by adding a power of two whose last place is the wanted one: the sum's low bits are then the
magnitude in units of that place, to nearest with ties to even, and carry into the exponent by themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from . import simd

MAGNITUDE_16 = np.uint16(0x7FFF)
_EXPONENT, _MAGNITUDE = np.int32(0x7F800000), np.int32(0x7FFFFFFF)
_HIGH_HALF, _HALF = np.uint32(0xFFFF0000), np.uint32(16)


@njit(forceinline=True)
def code_of(y: Any, mantissa_bits: Any, least_exponent: Any) -> Any:
    """Return the magnitude's code in int32 lanes, for exponents from ``least_exponent`` (biased by 127) on."""
    bits = simd.bitcast(y, np.int32) & _MAGNITUDE
    exponent = simd.maximum(bits & _EXPONENT, np.int32(least_exponent << 23))
    # The last place of 2**(e + 23 - mantissa_bits) is 2**(e - mantissa_bits).
    anchor = exponent + np.int32((23 - mantissa_bits) << 23)
    rounded = simd.bitcast(simd.bitcast(bits, np.float32) + simd.bitcast(anchor, np.float32), np.int32) - anchor
    shift = np.int32(23 - mantissa_bits)
    return (exponent >> shift) + rounded - np.int32(least_exponent << mantissa_bits)


@njit(forceinline=True)
def with_sign(code: Any, y: Any, sign: Any, shift: Any) -> Any:
    """Put the sign of ``y``, moved right by ``shift``, into the bit ``sign`` of a code."""
    return code | ((simd.bitcast(y, np.int32) >> np.int32(shift)) & np.int32(sign))


@njit(forceinline=True)
def e4m3_code(y: Any) -> Any:
    """Return e4m3 codes in int32 lanes, of values of at most 448 and a little."""
    return with_sign(code_of(y, 3, 121), y, 0x80, 24)


@njit(forceinline=True)
def halves(pairs: Any) -> Any:
    """Return the first and the second bf16 of pairs in uint32 lanes, as float32."""
    return simd.bitcast(pairs << _HALF, np.float32), simd.bitcast(pairs & _HIGH_HALF, np.float32)


@njit(forceinline=True)
def to_float(bits: Any) -> Any:
    """Return the value of the bits of one bf16."""
    return simd.lane(simd.widen_bf16(simd.full(bits, np.uint16)), 0)
