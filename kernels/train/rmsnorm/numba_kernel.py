"""One pass over memory: what a row needs twice comes from the cache the second time.

Rows are dealt to pieces; each piece has a row of scratch forward, and its own sum for the weight's gradient backward.
Outputs are written past the caches where rows are whole vectors.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from ... import simd
from ...contract import Arrays, Inputs, Prepared
from ...precision import widen
from ...registry import implementation
from ...simd.rounding import round_bf16
from .operator import RmsNorm

_LANES = simd.LANES
_PIECES_PER_THREAD = 4
_ZERO = np.float32(0.0)


@njit(forceinline=True)
def _same(values: Any) -> Any:
    return values


@cache
def _forward(bf16: bool, residual: bool, streaming: bool) -> Any:
    narrow = round_bf16 if bf16 else _same
    widen_stored = simd.widen_bf16 if bf16 else _same
    put = simd.store_streaming if streaming else simd.store

    @njit(parallel=True, error_model="numpy")
    def rmsnorm(x, other, weight, epsilon, scratch, h_out, y, rstd_out):
        rows, hidden = x.shape
        pieces = scratch.shape[0]
        full = hidden // _LANES * _LANES
        tail = simd.first_lanes(hidden - full)
        for piece in prange(pieces):
            for r in range(piece * rows // pieces, (piece + 1) * rows // pieces):
                total = simd.full(_ZERO, np.float32)
                for i in range(0, full, _LANES):
                    h = simd.load_f32(x, (r, i))
                    if residual:
                        stored = narrow(h + simd.load_f32(other, (r, i)))
                        put(h_out, (r, i), stored)
                        h = widen_stored(stored)
                    total = simd.fma(h, h, total)
                    simd.store(scratch, (piece, i), h)
                if full < hidden:
                    h = simd.load_f32_masked(x, (r, full), tail, _ZERO)
                    if residual:
                        stored = narrow(h + simd.load_f32_masked(other, (r, full), tail, _ZERO))
                        simd.store_masked(h_out, (r, full), stored, tail)
                        h = widen_stored(stored)
                    total = simd.fma(h, h, total)
                    simd.store(scratch, (piece, full), h)
                mean = np.float64(simd.sum_lanes(total)) / hidden
                rstd = np.float32(1.0 / np.sqrt(mean + epsilon))
                rstd_out[r] = rstd
                for i in range(0, full, _LANES):
                    put(y, (r, i), narrow(simd.load(scratch, (piece, i)) * rstd * simd.load(weight, i)))
                if full < hidden:
                    value = narrow(simd.load(scratch, (piece, full)) * rstd * simd.load(weight, full))
                    simd.store_masked(y, (r, full), value, tail)

    return rmsnorm


@njit(forceinline=True)
def _add_products(grad_y: Any, h: Any, weight: Any, sums: Any, rstd: Any, total: Any) -> Any:
    """Return the running sum of ``grad_y h weight`` and the new sum of ``grad_y h rstd`` over tokens."""
    product = grad_y * h
    return simd.fma(product, weight, total), simd.fma(product, rstd, sums)


@njit(forceinline=True)
def _gradient(grad_y: Any, h: Any, weight: Any, share: Any, rstd: Any, other: Any) -> Any:
    """Return ``rstd (grad_y weight + h share) + other``."""
    return simd.fma(simd.fma(h, share, grad_y * weight), rstd, other)


@cache
def _backward(bf16: bool, residual: bool, streaming: bool) -> Any:
    narrow = round_bf16 if bf16 else _same
    put = simd.store_streaming if streaming else simd.store

    @njit(parallel=True, error_model="numpy")
    def rmsnorm_backward(grad_y, h, other, weight, rstd_in, sums, grad_h, grad_weight):
        rows, hidden = h.shape
        pieces = sums.shape[0]
        full = hidden // _LANES * _LANES
        tail = simd.first_lanes(hidden - full)
        for piece in prange(pieces):
            sums[piece, :] = _ZERO
            for r in range(piece * rows // pieces, (piece + 1) * rows // pieces):
                rstd = rstd_in[r]
                total = simd.full(_ZERO, np.float32)
                for i in range(0, full, _LANES):
                    total, summed = _add_products(
                        simd.load_f32(grad_y, (r, i)), simd.load_f32(h, (r, i)), simd.load(weight, i),
                        simd.load(sums, (piece, i)), rstd, total,
                    )  # fmt: skip
                    simd.store(sums, (piece, i), summed)
                g_tail = simd.load_f32_masked(grad_y, (r, full), tail, _ZERO) if full < hidden else total
                h_tail = simd.load_f32_masked(h, (r, full), tail, _ZERO) if full < hidden else total
                if full < hidden:
                    total, summed = _add_products(
                        g_tail, h_tail, simd.load(weight, full), simd.load(sums, (piece, full)), rstd, total
                    )
                    simd.store(sums, (piece, full), summed)
                # The row is in the cache still: its products are made again rather than kept.
                mean = -np.float64(simd.sum_lanes(total)) * rstd / hidden
                share = np.float32(mean * rstd)
                zero = simd.full(_ZERO, np.float32)
                for i in range(0, full, _LANES):
                    added = simd.load_f32(other, (r, i)) if residual else zero
                    value = _gradient(
                        simd.load_f32(grad_y, (r, i)), simd.load_f32(h, (r, i)), simd.load(weight, i),
                        share, rstd, added,
                    )  # fmt: skip
                    put(grad_h, (r, i), narrow(value))
                if full < hidden:
                    added = simd.load_f32_masked(other, (r, full), tail, _ZERO) if residual else zero
                    value = _gradient(g_tail, h_tail, simd.load(weight, full), share, rstd, added)
                    simd.store_masked(grad_h, (r, full), narrow(value), tail)
        for i in prange(hidden):
            column = 0.0
            for piece in range(pieces):
                column += np.float64(sums[piece, i])
            grad_weight[i] = np.float32(column)

    return rmsnorm_backward


def _padded_weight(inputs: Inputs, padded: int) -> Any:
    """Return the weight as fp32 with zeros up to whole vectors: it stays in the cache."""
    weight = simd.aligned_empty(padded, np.float32)
    weight[:] = 0.0
    stored = inputs.arrays["weight"]
    weight[: stored.size] = widen(stored)
    return weight


@implementation("train.rmsnorm", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """All buffers are made here; the weight, which is read once per row from the cache, is widened here."""
    w, a = inputs.workload, inputs.arrays
    assert isinstance(w, RmsNorm)
    pieces = min(w.tokens, _PIECES_PER_THREAD * get_num_threads())
    padded = -(-w.hidden // _LANES) * _LANES
    weight = _padded_weight(inputs, padded)
    dtype = np.uint16 if w.precision == "bf16" else np.float32
    shape = (w.tokens, w.hidden)
    options = (w.precision == "bf16", w.residual, w.hidden == padded)
    if w.direction == "forward":
        kernel = _forward(*options)
        rstd = np.empty(w.tokens, np.float32)
        y = simd.aligned_empty(shape, dtype)
        # Without a residual nothing is written to h, nor read from the other input.
        h = simd.aligned_empty(shape if w.residual else (1, 1), dtype)
        scratch = simd.aligned_empty((pieces, padded), np.float32)
        other = a["residual"] if w.residual else a["x"]
        arguments = (a["x"], other, weight, w.epsilon, scratch, h, y, rstd)
        stored, plain = {"y": y} | ({"h": h} if w.residual else {}), {"rstd": rstd}
    else:
        kernel = _backward(*options)
        grad_h, grad_weight = simd.aligned_empty(shape, dtype), np.empty(w.hidden, np.float32)
        sums = simd.aligned_empty((pieces, padded), np.float32)
        other = a["grad_residual"] if w.residual else a["h"]
        arguments = (a["grad_y"], a["h"], other, weight, a["rstd"], sums, grad_h, grad_weight)
        stored, plain = {"grad_h": grad_h}, {"grad_weight": grad_weight}

    def output() -> Arrays:
        return {name: widen(array) for name, array in stored.items()} | plain

    return Prepared(lambda: kernel(*arguments), output)
