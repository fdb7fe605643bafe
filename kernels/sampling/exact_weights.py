"""Weights of tokens as whole numbers, so that sums of them do not depend on the order of adding.

A token of logit ``x`` in a row of maximum ``m`` weighs ``floor(2**((x - m) scale) * unit)``. The power is computed in
fp32 by the same fused multiply-adds on every backend, and the sums are exact 64-bit integers: where rows are cut, how
many threads share them and which device adds them change no bit. A unit of 2**44 for a vocabulary of 2**18 leaves less
than 1e-8 of the probability below one.
"""

from __future__ import annotations

import numpy as np

_MOST_BITS = 44
_SUM_BITS = 62


def weight_unit(vocab: int) -> float:
    """Return the weight of the most probable token: a power of two such that a whole vocabulary of it fits 2**62."""
    return 2.0 ** min(_MOST_BITS, _SUM_BITS - (vocab - 1).bit_length())


def sortable(value: float) -> int:
    """Return the integer that orders as a float32 does among others."""
    bits = int(np.float32(value).view(np.int32))
    return bits if bits >= 0 else bits ^ 0x7FFFFFFF
