"""Counter-based random numbers: Philox 4x32-10, the same on every backend.

Ten rounds turn a 128-bit counter and a 64-bit key into 128 random bits, without state: draw number ``n`` of a row is
known from the seed, the row and ``n`` alone, in any order, on any thread and device. Salmon, Moraes, Dror and Shaw,
"Parallel random numbers: as easy as 1, 2, 3", SC11, section 3.3. Triton's ``tl.randint4x(seed, offset)`` is this
function with the counter ``(offset, 0, 0, 0)`` and the key ``(seed & 0xFFFFFFFF, seed >> 32)``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

ROUNDS = 10
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
# Half a step off, the centre of the interval that a 32-bit number stands for, so that neither 0 nor 1 is returned.
_UNIT = 2.0**-32

Words = npt.NDArray[np.uint64]


def philox_4x32(counter: npt.ArrayLike, key: npt.ArrayLike) -> npt.NDArray[np.uint32]:
    """Return ``[..., 4]`` random words for counters ``[..., 4]`` and keys ``[..., 2]`` of 32-bit words."""
    c = [np.asarray(word, np.uint64) for word in np.moveaxis(np.asarray(counter, np.uint64) & _LOW, -1, 0)]
    k = [np.asarray(word, np.uint64) for word in np.moveaxis(np.asarray(key, np.uint64) & _LOW, -1, 0)]
    for _ in range(ROUNDS):
        first, second = np.uint64(MULTIPLIERS[0]) * c[0], np.uint64(MULTIPLIERS[1]) * c[2]
        c = [(second >> _HALF) ^ c[1] ^ k[0], second & _LOW, (first >> _HALF) ^ c[3] ^ k[1], first & _LOW]
        k = [(word + np.uint64(step)) & _LOW for word, step in zip(k, KEY_STEPS, strict=True)]
    return np.stack(np.broadcast_arrays(*c), axis=-1).astype(np.uint32)


def random_words(seed: npt.ArrayLike, offset: npt.ArrayLike) -> npt.NDArray[np.uint32]:
    """Return ``[..., 4]`` words for 64-bit seeds and 32-bit offsets, as ``tl.randint4x`` does."""
    seeds, offsets = np.broadcast_arrays(np.asarray(seed, np.uint64), np.asarray(offset, np.uint64))
    zero = np.zeros_like(offsets)
    counter = np.stack([offsets & _LOW, zero, zero, zero], axis=-1)
    return philox_4x32(counter, np.stack([seeds & _LOW, seeds >> _HALF], axis=-1))


def to_uniform(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
    """Return numbers strictly between 0 and 1, ``(word + 1/2) / 2**32``."""
    return (words.astype(np.float64) + 0.5) * _UNIT
