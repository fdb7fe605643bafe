"""Draws from whole-number weights in Numba kernels; see `exact_weights`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .philox_numba import random_words

_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


@njit
def scaled_draw(seed: Any, offset: Any, total: Any) -> Any:
    """Return the whole part of a 64-bit uniform number in [0, 1) times a total below 2**62.

    The number is the first two words of Philox, the first on top.
    """
    w0, w1, _, _ = random_words(np.uint64(seed), np.uint64(offset))
    t0, t1 = np.uint64(total) >> _HALF, np.uint64(total) & _LOW
    low, cross, other = w1 * t1, w0 * t1, w1 * t0
    carry = (low >> _HALF) + (cross & _LOW) + (other & _LOW)
    return np.int64(w0 * t0 + (cross >> _HALF) + (other >> _HALF) + (carry >> _HALF))
