"""Philox 4x32-10 inside Numba kernels; see `philox`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .philox import KEY_STEPS, MULTIPLIERS, ROUNDS

_M0, _M1 = np.uint64(MULTIPLIERS[0]), np.uint64(MULTIPLIERS[1])
_K0, _K1 = np.uint64(KEY_STEPS[0]), np.uint64(KEY_STEPS[1])
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


@njit(forceinline=True)
def random_words(seed: Any, offset: Any) -> Any:
    """Return four 32-bit words, held as uint64, for a 64-bit seed and a 32-bit offset."""
    c0, c1, c2, c3 = np.uint64(offset) & _LOW, np.uint64(0), np.uint64(0), np.uint64(0)
    k0, k1 = np.uint64(seed) & _LOW, np.uint64(seed) >> _HALF
    for _ in range(ROUNDS):
        first, second = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (second >> _HALF) ^ c1 ^ k0, second & _LOW, (first >> _HALF) ^ c3 ^ k1, first & _LOW
        k0, k1 = (k0 + _K0) & _LOW, (k1 + _K1) & _LOW
    return c0, c1, c2, c3


@njit(forceinline=True)
def to_uniform(word: Any) -> float:
    """Return a number strictly between 0 and 1, ``(word + 1/2) / 2**32``."""
    return (np.float64(word) + 0.5) * 2.0**-32
