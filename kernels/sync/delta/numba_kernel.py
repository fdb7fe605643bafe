"""One pass: each piece packs into a region of its own, and the regions are then moved together.

Memory of a region is touched only as far as it is filled.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from ... import simd
from ...contract import Inputs, Prepared
from ...registry import implementation
from .operator import Delta

_LANES = simd.LANES
_STEP = 4 * _LANES
_PIECES_PER_THREAD = 8


@njit(forceinline=True)
def _append(old: Any, new: Any, start: int, stop: int, position: Any, value: Any, place: int) -> int:
    for i in range(start, stop):
        # Written always and counted where it changed: there is nothing to predict.
        position[place] = i
        value[place] = new[i]
        place += old[i] != new[i]
    return place


@cache
def _kernels() -> Any:
    @njit(parallel=True, error_model="numpy")
    def find(old, new, size, position, value, counts):
        n = old.size
        for piece in prange(counts.size):
            start, stop = piece * size, min((piece + 1) * size, n)
            # A region has one place more than its piece has weights.
            first = piece * (size + 1)
            place = first
            full = start + max(stop - start, 0) // _STEP * _STEP
            for i in range(start, full, _STEP):
                differ = (simd.load(old, i) ^ simd.load(new, i)) | (
                    simd.load(old, i + _LANES) ^ simd.load(new, i + _LANES)
                )
                differ = differ | (simd.load(old, i + 2 * _LANES) ^ simd.load(new, i + 2 * _LANES))
                differ = differ | (simd.load(old, i + 3 * _LANES) ^ simd.load(new, i + 3 * _LANES))
                if simd.any_lane(differ != np.uint16(0)):
                    place = _append(old, new, i, i + _STEP, position, value, place)
            place = _append(old, new, full, stop, position, value, place)
            counts[piece] = place - first

    @njit(parallel=True, error_model="numpy")
    def pack(size, position, value, counts, ends, packed_position, packed_value):
        for piece in prange(counts.size):
            first, target = piece * (size + 1), ends[piece] - counts[piece]
            for k in range(counts[piece]):
                packed_position[target + k] = position[first + k]
                packed_value[target + k] = value[first + k]

    return find, pack


@implementation("sync.delta", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Buffers for all weights are made here, since the number that changed is not known before."""
    w, a = inputs.workload, inputs.arrays
    assert isinstance(w, Delta)
    pieces = _PIECES_PER_THREAD * get_num_threads()
    size = -(-w.weights // pieces // _STEP) * _STEP
    pieces = -(-w.weights // size)
    position, value = np.empty(pieces * (size + 1), np.uint32), np.empty(pieces * (size + 1), np.uint16)
    packed_position, packed_value = np.empty(w.weights, np.uint32), np.empty(w.weights, np.uint16)
    counts, ends = np.zeros(pieces, np.int64), np.zeros(pieces, np.int64)
    find, pack = _kernels()

    def run() -> None:
        find(a["old"], a["new"], size, position, value, counts)
        np.cumsum(counts, out=ends)
        pack(size, position, value, counts, ends, packed_position, packed_value)

    return Prepared(run, lambda: {"position": packed_position[: ends[-1]], "value": packed_value[: ends[-1]]})
