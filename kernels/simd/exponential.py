"""Base-2 and natural exponentials of float32 lanes.

``2**x = 2**n * 2**f`` with ``n`` the nearest whole number and ``|f| <= 1/2``. ``2**f`` is a polynomial of degree 5
with the constant term held at 1, so that whole powers are exact; its coefficients minimise the largest relative error
(9.2e-8; found by linear programming on 4001 points). ``n`` goes into the exponent bits by a shift. With the roundings
of float32 the relative error stays below 2.5e-7. The ends of the range are those of ``n``: below 2**-126.5 the result
is 0, from 2**127.5 it is infinity.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from .arithmetic import fma, maximum, minimum
from .lanes import bitcast

_C1 = np.float32(0.6931469775989911)
_C2 = np.float32(0.24022242085376594)
_C3 = np.float32(0.05550733743470701)
_C4 = np.float32(0.009671512639962574)
_C5 = np.float32(0.0013264727139949248)
_LOG2_E = np.float32(1.4426950408889634)
# ln 2 in two parts, the first so short that its product with a whole number is exact (Cody and Waite), so that the
# error does not grow with x.
_LN_2_HIGH = np.float32(355 / 512)
_LN_2_LOW = np.float32(math.log(2) - 355 / 512)
# Adding 1.5 * 2**23 leaves the nearest whole number in the low bits of the sum.
_ROUNDER = np.float32(1.5 * 2**23)
_BIAS = np.int32(127)
_MANTISSA_BITS = np.int32(23)
_LEAST, _MOST = np.float32(-127.0), np.float32(128.0)
_E_LEAST, _E_MOST = np.float32(-88.0), np.float32(88.7)


@njit(forceinline=True)
def _fraction_power(f: Any) -> Any:
    p = fma(f, _C5, _C4)
    p = fma(p, f, _C3)
    p = fma(p, f, _C2)
    p = fma(p, f, _C1)
    return fma(p, f, np.float32(1.0))


@njit(forceinline=True)
def _power(shifted: Any, f: Any) -> Any:
    """Return ``2**n * 2**f`` with ``n`` in the low bits of ``shifted``."""
    return _fraction_power(f) * bitcast((bitcast(shifted, np.int32) + _BIAS) << _MANTISSA_BITS, np.float32)


@njit(forceinline=True)
def exp2_in_range(x: Any) -> Any:
    """``exp2_in_range(x)``: 2**x where ``-127 <= x <= 128`` or NaN, the cheapest form; -127 gives 0, 128 infinity.

    Other values give nonsense: bound them with ``maximum(-127, x)``, which keeps NaN.
    """
    shifted = x + _ROUNDER
    return _power(shifted, x - (shifted - _ROUNDER))


@njit(forceinline=True)
def exp2_product(x: Any, scale: Any) -> Any:
    """``exp2_product(x, scale)``: 2**(x * scale) where ``-125 <= x * scale <= 127`` or x is NaN.

    The cheapest form, and the product is not rounded. Other values give nonsense: bound x first, for instance with
    ``maximum(-125 / scale, x)``, which keeps NaN and makes what lies below 2.4e-38 instead of 0.
    """
    shifted = fma(x, scale, _ROUNDER)
    f = fma(x, scale, _ROUNDER - shifted)
    return bitcast(bitcast(_fraction_power(f), np.int32) + (bitcast(shifted, np.int32) << _MANTISSA_BITS), np.float32)


@njit(forceinline=True)
def exp2(x: Any) -> Any:
    """``exp2(x)``: 2**x; NaN stays NaN, x < -126.5 (-inf too) gives 0, x >= 127.5 infinity."""
    return exp2_in_range(minimum(_MOST, maximum(_LEAST, x)))


@njit(forceinline=True)
def exp(x: Any) -> Any:
    """``exp(x)``: e**x; NaN stays NaN, x < -87.7 (-inf too) gives 0, x >= 88.4 infinity."""
    bounded = minimum(_E_MOST, maximum(_E_LEAST, x))
    shifted = fma(bounded, _LOG2_E, _ROUNDER)
    n = shifted - _ROUNDER
    rest = fma(n, -_LN_2_LOW, fma(n, -_LN_2_HIGH, bounded))
    return _power(shifted, rest * _LOG2_E)
