"""Dispatch on all cores: a token's row is read once and written to all its places, past the caches if they are many."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from ... import simd
from ...contract import Arrays, Inputs, Prepared
from ...narrow_formats import E4M3_LARGEST
from ...numba_rounding import e4m3_code
from ...precision import widen
from ...registry import implementation
from ..expert_rows import check_source
from ..numba_rows import invert
from .operator import BLOCK, Dispatch

_LANES = simd.LANES
# Results beyond the caches are written past them; smaller ones are read from there by what comes next.
_STREAMED_BYTES = 1 << 24


@cache
def _copier(streaming: bool) -> Any:
    put = simd.store_streaming if streaming else simd.store

    @simd.leaf
    def copy(words, token, out, row):
        width = words.shape[1]
        whole = width // _LANES * _LANES
        for i in range(0, whole, _LANES):
            put(out, (row, i), simd.load(words, (token, i)))
        if whole < width:
            lanes = simd.first_lanes(width - whole)
            simd.store_masked(out, (row, whole), simd.load_masked(words, (token, whole), lanes, np.uint32(0)), lanes)

    return copy


@cache
def _copy_kernel(streaming: bool) -> Any:
    copy = _copier(streaming)

    @simd.leaf
    def share(words, row_of, top_k, out, start, stop):
        for token in range(start, stop):
            for k in range(top_k):
                copy(words, token, out, row_of[token * top_k + k])

    @njit(parallel=True, error_model="numpy")
    def dispatch(words, source, row_of, top_k, out):
        invert(source, row_of)
        tokens, threads = words.shape[0], get_num_threads()
        for t in prange(threads):
            share(words, row_of, top_k, out, tokens * t // threads, tokens * (t + 1) // threads)

    return dispatch


@simd.leaf
def _quantize_row(x, token, code, scale) -> None:
    hidden = x.shape[1]
    for block in range(scale.size):
        stop = min((block + 1) * BLOCK, hidden)
        top = simd.full(0.0, np.float32)
        for i in range(block * BLOCK, stop, _LANES):
            values = simd.load_f32_masked(x, (token, i), simd.first_lanes(stop - i), np.float32(0.0))
            top = simd.maximum(top, simd.absolute(values))
        s = simd.max_lanes(top) / np.float32(E4M3_LARGEST)
        scale[block] = s
        inverse = np.float32(1.0) / s if s > 0 else np.float32(0.0)
        for i in range(block * BLOCK, stop, _LANES):
            lanes = simd.first_lanes(stop - i)
            values = simd.load_f32_masked(x, (token, i), lanes, np.float32(0.0)) * inverse
            simd.store_masked(code, i, simd.convert(e4m3_code(values), np.uint8), lanes)


@cache
def _fp8_kernel(streaming: bool) -> Any:
    copy = _copier(streaming)

    @simd.leaf
    def share(x, row_of, top_k, codes, words, scales, out, out_scales, start, stop):
        for token in range(start, stop):
            _quantize_row(x, token, codes, scales)
            for k in range(top_k):
                row = row_of[token * top_k + k]
                copy(words, 0, out, row)
                for block in range(scales.size):
                    out_scales[row, block] = scales[block]

    @njit(parallel=True, error_model="numpy")
    def dispatch(x, source, row_of, top_k, codes, words, scales, out, out_scales):
        invert(source, row_of)
        tokens, threads = x.shape[0], codes.shape[0]
        for t in prange(threads):
            share(x, row_of, top_k, codes[t], words[t : t + 1], scales[t], out, out_scales,
                  tokens * t // threads, tokens * (t + 1) // threads)  # fmt: skip

    return dispatch


def bind(w: Dispatch, x: Any, source: Any) -> tuple[Any, Arrays]:
    """Return what does the work on given arrays, and the arrays that it fills; all buffers are made here."""
    row_of = np.empty(w.slots, np.int32)
    stored = np.uint8 if w.quantize == "fp8" else x.dtype
    y = simd.aligned_empty((w.slots, w.hidden), stored)
    words = y.view(np.uint32)
    streaming = y.nbytes >= _STREAMED_BYTES and words.shape[1] % _LANES == 0
    if w.quantize == "none":
        kernel = _copy_kernel(streaming)
        return lambda: kernel(x.view(np.uint32), source, row_of, w.top_k, words), {"y": y}
    threads = get_num_threads()
    codes = simd.aligned_empty((threads, w.hidden), np.uint8)
    scales = np.empty((threads, w.scales), np.float32)
    out_scales = np.empty((w.slots, w.scales), np.float32)
    kernel = _fp8_kernel(streaming)
    arguments = (x, source, row_of, w.top_k, codes, codes.view(np.uint32), scales, words, out_scales)
    return lambda: kernel(*arguments), {"code": y, "scale": out_scales}


@implementation("moe.dispatch", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Inverting the permutation is part of the run."""
    w = inputs.workload
    assert isinstance(w, Dispatch)
    check_source(inputs)
    run, result = bind(w, inputs.arrays["x"], inputs.arrays["source"])

    def output() -> Arrays:
        return {name: widen(a) if name == "y" else a for name, a in result.items()}

    return Prepared(run, output)
