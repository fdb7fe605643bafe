"""Two passes: the norm in float64 over the gradient, then the update, which reads and writes the state once."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from ... import simd
from ...contract import Arrays, Inputs, Prepared
from ...precision import from_bf16
from ...registry import implementation
from ...simd.rounding import round_bf16
from .operator import AdamW
from .rewind import STATE, in_place

_LANES = simd.LANES
_STEP = 4 * _LANES
# Squares are added in fp32 within a block and in float64 across blocks.
_BLOCK = 64 * _STEP
_PIECES_PER_THREAD = 4
_ZERO = np.float32(0.0)


@njit(forceinline=True)
def _block_squares(gradient: Any, start: int, stop: int) -> Any:
    a = simd.full(_ZERO, np.float32)
    b, c, d = a, a, a
    full = start + (stop - start) // _STEP * _STEP
    for i in range(start, full, _STEP):
        g0, g1 = simd.load_f32(gradient, i), simd.load_f32(gradient, i + _LANES)
        g2, g3 = simd.load_f32(gradient, i + 2 * _LANES), simd.load_f32(gradient, i + 3 * _LANES)
        a, b, c, d = simd.fma(g0, g0, a), simd.fma(g1, g1, b), simd.fma(g2, g2, c), simd.fma(g3, g3, d)
    for i in range(full, stop, _LANES):
        g0 = simd.load_f32_masked(gradient, i, simd.first_lanes(stop - i), _ZERO)
        a = simd.fma(g0, g0, a)
    return np.float64(simd.sum_lanes((a + b) + (c + d)))


@njit(forceinline=True)
def _update(master: Any, m: Any, v: Any, g: Any, factors: Any) -> Any:
    """Return the new master weights and moments; the order of operations is that of the formula."""
    clip, beta1, rest1, beta2, rest2, decay, rate, correction, epsilon = factors
    g = g * clip
    m = simd.fma(m, beta1, g * rest1)
    v = simd.fma(v, beta2, (g * g) * rest2)
    change = m * rate / (simd.sqrt(v * correction) + epsilon)
    return simd.fma(master, decay, -change), m, v


@cache
def _kernels() -> Any:
    @njit(parallel=True, error_model="numpy")
    def squares(gradient, parts):
        n, pieces = gradient.size, parts.size
        blocks = -(-n // _BLOCK)
        for piece in prange(pieces):
            total = 0.0
            for block in range(piece * blocks // pieces, (piece + 1) * blocks // pieces):
                total += _block_squares(gradient, block * _BLOCK, min((block + 1) * _BLOCK, n))
            parts[piece] = total

    @njit(parallel=True, error_model="numpy")
    def update(master, m, v, gradient, weight, factors, pieces):
        n = gradient.size
        blocks = -(-n // _BLOCK)
        for piece in prange(pieces):
            for block in range(piece * blocks // pieces, (piece + 1) * blocks // pieces):
                start, stop = block * _BLOCK, min((block + 1) * _BLOCK, n)
                full = start + (stop - start) // _LANES * _LANES
                for i in range(start, full, _LANES):
                    x, m_new, v_new = _update(
                        simd.load(master, i), simd.load(m, i), simd.load(v, i), simd.load_f32(gradient, i), factors
                    )
                    simd.store(master, i, x)
                    simd.store(m, i, m_new)
                    simd.store(v, i, v_new)
                    simd.store_streaming(weight, i, round_bf16(x))
                if full < stop:
                    tail = simd.first_lanes(stop - full)
                    x, m_new, v_new = _update(
                        simd.load_masked(master, full, tail, _ZERO),
                        simd.load_masked(m, full, tail, _ZERO),
                        simd.load_masked(v, full, tail, _ZERO),
                        simd.load_f32_masked(gradient, full, tail, _ZERO),
                        factors,
                    )
                    simd.store_masked(master, full, x, tail)
                    simd.store_masked(m, full, m_new, tail)
                    simd.store_masked(v, full, v_new, tail)
                    simd.store_masked(weight, full, round_bf16(x), tail)

    return squares, update


@implementation("train.adamw", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """The state is copied here, since the step changes it in place."""
    w, a = inputs.workload, inputs.arrays
    assert isinstance(w, AdamW)
    state = {name: simd.aligned_empty(w.parameters, np.float32) for name in STATE}
    weight = simd.aligned_empty(w.parameters, np.uint16)
    pieces = _PIECES_PER_THREAD * get_num_threads()
    parts, norm = np.zeros(pieces), np.empty(1, np.float32)
    squares, update = _kernels()
    decay, rate, correction = w.factors()
    # 1 - beta2 would lose three digits in fp32.
    moments = (w.beta1, 1.0 - w.beta1, w.beta2, 1.0 - w.beta2)
    constants = tuple(np.float32(x) for x in (*moments, decay, rate, correction, w.epsilon))

    def step() -> None:
        total = 0.0
        if w.clip:
            squares(a["gradient"], parts)
            total = float(parts.sum())
            norm[0] = np.sqrt(total)
        factors = (np.float32(w.clip_factor(total)), *constants)
        update(*state.values(), a["gradient"], weight, factors, pieces)

    def put_back() -> None:
        for name, array in state.items():
            np.copyto(array, a[name])

    def read() -> Arrays:
        out: Arrays = {name: array.copy() for name, array in state.items()} | {"weight": from_bf16(weight)}
        return out | {"norm": norm.copy()} if w.clip else out

    put_back()
    return in_place(step, put_back, read)
