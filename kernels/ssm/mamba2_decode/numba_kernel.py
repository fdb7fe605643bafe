"""The step on all cores: a row of a head's state passes through the registers once, and is written past the caches."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from ... import simd
from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from .operator import Mamba2Decode

_LANES = simd.LANES
# States beyond the caches are written past them; smaller ones are read from there by the next step.
_STREAMED_BYTES = 1 << 24


@simd.inlined
def _exp(x: Any) -> Any:
    return simd.lane(simd.exp(simd.full(x, np.float32)), 0)


@simd.inlined
def _softplus(x: Any) -> Any:
    # log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)), which neither overflows nor loses small results.
    return max(x, np.float32(0.0)) + np.float32(np.log1p(np.exp(-abs(np.float64(x)))))


@cache
def _kernel(streaming: bool) -> Any:
    put = simd.store_streaming if streaming else simd.store

    @simd.leaf
    def head(h, new_h, first, rows, size, decay, dt, skip, x, x_at, b, c, group_at, y):
        whole = size // _LANES * _LANES
        for row in range(rows):
            value = simd.lane(simd.load_f32_masked(x, x_at + row, simd.first_lanes(1), np.float32(0.0)), 0)
            gain, at = dt * value, first + row * size
            total = simd.full(0.0, np.float32)
            for n in range(0, whole, _LANES):
                added = simd.load_f32(b, group_at + n) * gain
                moved = simd.fma(simd.load(h, at + n), decay, added)
                put(new_h, at + n, moved)
                total = simd.fma(moved, simd.load_f32(c, group_at + n), total)
            if whole < size:
                lanes, zero = simd.first_lanes(size - whole), np.float32(0.0)
                added = simd.load_f32_masked(b, group_at + whole, lanes, zero) * gain
                moved = simd.fma(simd.load_masked(h, at + whole, lanes, zero), decay, added)
                simd.store_masked(new_h, at + whole, moved, lanes)
                total = simd.fma(moved, simd.load_f32_masked(c, group_at + whole, lanes, zero), total)
            y[x_at + row] = simd.sum_lanes(total) + skip * value

    @simd.leaf
    def share(h, new_h, x, b, c, dt, bias, a, d, y, heads, rows, size, groups, start, stop):
        for task in range(start, stop):
            sequence, number = task // heads, task % heads
            step = _softplus(dt[task] + bias[number])
            group_at = (sequence * groups + number // (heads // groups)) * size
            head(h, new_h, task * rows * size, rows, size, _exp(step * a[number]), step, d[number], x, task * rows,
                 b, c, group_at, y)  # fmt: skip

    @njit(parallel=True, error_model="numpy")
    def step(h, new_h, x, b, c, dt, bias, a, d, y, heads, rows, size, groups):
        threads = get_num_threads()
        for t in prange(threads):
            share(h, new_h, x, b, c, dt, bias, a, d, y, heads, rows, size, groups,
                  dt.size * t // threads, dt.size * (t + 1) // threads)  # fmt: skip

    return step


@implementation("ssm.mamba2_decode", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """All buffers are made here."""
    w = inputs.workload
    assert isinstance(w, Mamba2Decode)
    h, x = inputs.arrays["h"], inputs.arrays["x"]
    new_h, y = simd.aligned_empty(h.shape, np.float32), np.empty(x.shape, np.float32)
    names = ("B", "C", "dt", "dt_bias", "A", "D")
    arguments = (
        *(array.reshape(-1) for array in (h, new_h, x, *(inputs.arrays[name] for name in names), y)),
        w.heads,
        w.head_dim,
        w.state,
        w.groups,
    )
    kernel = _kernel(h.nbytes >= _STREAMED_BYTES and w.state % _LANES == 0)

    def output() -> Arrays:
        return {"y": y, "h": new_h}

    return Prepared(lambda: kernel(*arguments), output)
