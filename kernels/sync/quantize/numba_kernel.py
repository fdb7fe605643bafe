"""fp8 in Numba: a strip of 128 rows is read for its maxima and, from the cache, again for its codes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from ... import simd
from ...contract import Arrays, Inputs, Prepared
from ...narrow_formats import E2M1_LARGEST, E4M3_LARGEST
from ...numba_rounding import MAGNITUDE_16, e4m3_code, halves, to_float
from ...registry import implementation
from . import numba_nvfp4
from .operator import BLOCK, GROUP, Quantize

_LANES = simd.LANES
_STRIP_COLUMNS = 1024
_ZERO = np.float32(0.0)
_PIECES_PER_THREAD = 8


@njit(forceinline=True)
def _magnitudes(weight: Any, r: int, i: int, lanes: Any) -> Any:
    return simd.load_masked(weight, (r, i), lanes, np.uint16(0)) & MAGNITUDE_16


@njit(forceinline=True)
def _load(array: Any, index: Any, left: int, fill: Any) -> Any:
    """Load a vector of which ``left`` elements exist."""
    if left >= _LANES:
        return simd.load(array, index)
    return simd.load_masked(array, index, simd.first_lanes(left), fill)


@cache
def _fp8(paired: bool, streaming: bool) -> Any:
    put = simd.store_streaming if streaming else simd.store

    @njit(parallel=True, error_model="numpy")
    def quantize(weight, pairs, code, codes, scale, largest):
        rows, columns = weight.shape
        strips = -(-columns // _STRIP_COLUMNS)
        for task in prange(scale.shape[0] * strips):
            block_row, strip = task // strips, task % strips
            first, last = block_row * BLOCK, min((block_row + 1) * BLOCK, rows)
            start, stop = strip * _STRIP_COLUMNS, min((strip + 1) * _STRIP_COLUMNS, columns)
            largest[task, :] = np.uint16(0)
            # Magnitudes of bf16 order as their bits do; NaN lies above all.
            for r in range(first, last):
                full = start + (stop - start) // _LANES * _LANES
                for i in range(start, full, _LANES):
                    seen = simd.load(largest, (task, i - start))
                    simd.store(
                        largest, (task, i - start),
                        simd.maximum(simd.load(weight, (r, i)) & MAGNITUDE_16, seen),
                    )  # fmt: skip
                if full < stop:
                    seen = simd.load(largest, (task, full - start))
                    x = _magnitudes(weight, r, full, simd.first_lanes(stop - full))
                    simd.store(largest, (task, full - start), simd.maximum(x, seen))
            for block in range(start // BLOCK, -(-stop // BLOCK)):
                top = simd.full(np.uint16(0), np.uint16)
                for i in range(block * BLOCK - start, min((block + 1) * BLOCK - start, _STRIP_COLUMNS), _LANES):
                    top = simd.maximum(simd.load(largest, (task, i)), top)
                scale[block_row, block] = to_float(simd.max_lanes(top)) / np.float32(E4M3_LARGEST)
            for r in range(first, last):
                for block in range(start // BLOCK, -(-stop // BLOCK)):
                    s = scale[block_row, block]
                    inverse = np.float32(1.0) / s if s > 0 else _ZERO
                    end = min((block + 1) * BLOCK, stop)
                    if paired:
                        for i in range(block * BLOCK // 2, end // 2, _LANES):
                            low, high = halves(_load(pairs, (r, i), end // 2 - i, np.uint32(0)))
                            both = e4m3_code(low * inverse) | (e4m3_code(high * inverse) << np.int32(8))
                            if i + _LANES <= end // 2:
                                put(codes, (r, i), simd.convert(both, np.uint16))
                            else:
                                lanes = simd.first_lanes(end // 2 - i)
                                simd.store_masked(codes, (r, i), simd.convert(both, np.uint16), lanes)
                    else:
                        for i in range(block * BLOCK, end, _LANES):
                            lanes = simd.first_lanes(end - i)
                            y = simd.load_f32_masked(weight, (r, i), lanes, _ZERO) * inverse
                            simd.store_masked(code, (r, i), simd.convert(e4m3_code(y), np.uint8), lanes)

    return quantize


@implementation("sync.quantize", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """All buffers are made here."""
    w, weight = inputs.workload, inputs.arrays["weight"]
    assert isinstance(w, Quantize)
    if w.format == "fp8_block128":
        code = simd.aligned_empty(weight.shape, np.uint8)
        scale = np.empty(w.scale_shape, np.float32)
        tasks = w.scale_shape[0] * -(-w.columns // _STRIP_COLUMNS)
        largest = simd.aligned_empty((tasks, _STRIP_COLUMNS), np.uint16)
        paired = w.columns % 2 == 0
        kernel = _fp8(paired, w.columns % (2 * _LANES) == 0)
        out: Arrays = {"code": code, "scale": scale}
        # Pairs of weights fill a lane, and their codes half of one.
        pairs, codes = (weight.view(np.uint32), code.view(np.uint16)) if paired else (weight, code)
        arguments = (weight, pairs, code, codes, scale, largest)
        return Prepared(lambda: kernel(*arguments), lambda: dict(out))
    flat = weight.reshape(-1)
    pieces = min(flat.size // GROUP, _PIECES_PER_THREAD * get_num_threads())
    packed, scale = np.empty((w.rows, w.columns // 2), np.uint8), np.empty(w.scale_shape, np.uint8)
    tensor_scale, parts = np.empty(1, np.float32), np.empty(pieces, np.float32)
    # A cache line and more per piece, so that threads do not share one.
    tops, inverses = np.zeros((pieces, 64), np.uint16), np.zeros((pieces, 64), np.float32)
    given = inputs.arrays.get("amax")
    largest_of_parts, quantize = numba_nvfp4.maxima(), numba_nvfp4.quantize()
    targets = (packed.reshape(-1), scale.reshape(-1), tops, inverses)

    def run() -> None:
        if given is None:
            largest_of_parts(flat, parts)
        amax = parts.max() if given is None else given[0]
        tensor_scale[0] = amax / np.float32(E4M3_LARGEST * E2M1_LARGEST)
        quantize(flat, flat.view(np.uint32), tensor_scale[0], *targets)

    return Prepared(run, lambda: {"code": packed, "scale": scale, "tensor_scale": tensor_scale})
