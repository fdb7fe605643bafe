"""Combine on all cores: a piece of a token's result stays in registers while its rows are read side by side."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from ... import simd
from ...contract import Arrays, Inputs, Prepared
from ...precision import widen
from ...registry import implementation
from ...simd.rounding import masked_store
from ..expert_rows import check_source
from ..numba_rows import invert
from .operator import Combine

_LANES = simd.LANES
_PIECE = 4 * _LANES


@cache
def _kernel(precision: str) -> Any:
    put = masked_store(precision)

    @simd.leaf
    def share(y, weights, row_of, top_k, out, start, stop):
        hidden = out.shape[1]
        zero = simd.full(0.0, np.float32)
        whole = hidden // _PIECE * _PIECE
        for token in range(start, stop):
            first = token * top_k
            for i in range(0, whole, _PIECE):
                a, b, c, d = zero, zero, zero, zero
                for k in range(first, first + top_k):
                    row, weight = row_of[k], weights[k]
                    a = simd.fma(simd.load_f32(y, (row, i)), weight, a)
                    b = simd.fma(simd.load_f32(y, (row, i + _LANES)), weight, b)
                    c = simd.fma(simd.load_f32(y, (row, i + 2 * _LANES)), weight, c)
                    d = simd.fma(simd.load_f32(y, (row, i + 3 * _LANES)), weight, d)
                lanes = simd.first_lanes(_LANES)
                put(out, (token, i), a, lanes)
                put(out, (token, i + _LANES), b, lanes)
                put(out, (token, i + 2 * _LANES), c, lanes)
                put(out, (token, i + 3 * _LANES), d, lanes)
            for i in range(whole, hidden, _LANES):
                lanes = simd.first_lanes(hidden - i)
                a = zero
                for k in range(first, first + top_k):
                    a = simd.fma(simd.load_f32_masked(y, (row_of[k], i), lanes, np.float32(0.0)), weights[k], a)
                put(out, (token, i), a, lanes)

    @njit(parallel=True, error_model="numpy")
    def combine(y, weights, source, row_of, top_k, out):
        invert(source, row_of)
        tokens, threads = out.shape[0], get_num_threads()
        for t in prange(threads):
            share(y, weights, row_of, top_k, out, tokens * t // threads, tokens * (t + 1) // threads)

    return combine


def bind(w: Combine, y: Any, weights: Any, source: Any) -> tuple[Any, Any]:
    """Return what does the work on given arrays, and the result that it fills; all buffers are made here."""
    row_of = np.empty(w.slots, np.int32)
    out = simd.aligned_empty((w.tokens, w.hidden), y.dtype)
    kernel, flat = _kernel(w.precision), weights.reshape(-1)
    return lambda: kernel(y, flat, source, row_of, w.top_k, out), out


@implementation("moe.combine", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Inverting the permutation is part of the run."""
    w, arrays = inputs.workload, inputs.arrays
    assert isinstance(w, Combine)
    check_source(inputs)
    run, out = bind(w, arrays["y"], arrays["weights"], arrays["source"])

    def output() -> Arrays:
        return {"out": widen(out)}

    return Prepared(run, output)
