"""Logits reduced in the tiles that make them; for the gradients, made anew in tiles by BLAS.

Such a tile is at most `_ROWS` rows by a chunk of the vocabulary; it is all that is ever held of the logits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit, prange

from ... import simd
from ...contract import Arrays, Inputs, Prepared
from ...precision import widen
from ...registry import implementation
from .numba_forward import Forward
from .operator import FusedLogprob, check_tokens

_ROWS, _LEAST_CHUNK = 1024, 2048
# Logits of a tile: they stay in the last-level cache. Of few rows it takes more tokens, but a small part of them all.
_TILE, _PARTS = 2**21, 32
_LANES = simd.LANES
_MINUS_INF = np.float32(-np.inf)
_LEAST = np.float32(-126.0)
_LOG2_E, _LN_2 = math.log2(math.e), math.log(2.0)


@njit
def _row_gradient(x: Any, scale: Any, top: Any, log_sum: Any, factor: Any) -> None:
    """Replace a row's logits by ``-factor * softmax``."""
    n = x.size
    for i in range(0, n, _LANES):
        inside = simd.first_lanes(n - i)
        v = simd.load_masked(x, i, inside, _MINUS_INF)
        p = simd.exp2(simd.maximum(_LEAST, (v - top) * scale - log_sum))
        simd.store_masked(x, i, -factor * p, inside)


@cache
def _gradient_kernel() -> Any:
    @njit(parallel=True, error_model="numpy")
    def gradient(x, first, token, scale, top, total, factor):
        for r in prange(x.shape[0]):
            at = token[r] - first
            _row_gradient(x[r], scale, top[r], np.float32(math.log2(total[r])), factor[r])
            if 0 <= at < x.shape[1]:
                x[r, at] += factor[r]

    return gradient


def _multiply(a: Any, b: Any, out: Any, *, keep: bool = False) -> None:
    """Write ``a @ b``, or add it to what is there with ``keep``; ``out`` is C-contiguous, a and b are so or transposed.

    BLAS stores columns, so that the product is that of the transposed matrices in the other order.
    """
    from scipy.linalg.blas import sgemm

    left, right = b.T, a.T
    flip_left, flip_right = not left.flags.f_contiguous, not right.flags.f_contiguous
    sgemm(
        1.0, left.T if flip_left else left, right.T if flip_right else right, float(keep), out.T,
        trans_a=flip_left, trans_b=flip_right, overwrite_c=True,
    )  # fmt: skip


@implementation("sampling.fused_logprob", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """One pass over the weights, and a second one for the gradients; all buffers are made here."""
    w = inputs.workload
    assert isinstance(w, FusedLogprob)
    check_tokens(inputs)
    token, weight = inputs.arrays["token"], inputs.arrays["weight"]
    scale = np.float32(_LOG2_E / w.temperature)
    forward = Forward(inputs.arrays["hidden"], weight, token, scale, w.precision)
    result: Arrays = {"logprob": np.empty(w.rows, np.float32)}
    backward = _backward(inputs, forward, result) if w.backward else None

    def run() -> None:
        forward.run()
        logprob = (forward.chosen.astype(np.float64) - forward.top) * scale - np.log2(forward.total)
        result["logprob"][:] = logprob * _LN_2
        if backward is not None:
            backward()

    return Prepared(run, lambda: dict(result))


def _backward(inputs: Inputs, forward: Forward, result: Arrays) -> Callable[[], None]:
    w = inputs.workload
    assert isinstance(w, FusedLogprob)
    hidden, token, weight = widen(inputs.arrays["hidden"]), inputs.arrays["token"], inputs.arrays["weight"]
    tiles = [slice(at, min(at + _ROWS, w.rows)) for at in range(0, w.rows, _ROWS)]
    size = min(w.vocab, max(_LEAST_CHUNK, min(_TILE // min(_ROWS, w.rows), w.vocab // _PARTS)))
    chunks = [slice(at, min(at + size, w.vocab)) for at in range(0, w.vocab, size)]
    logits = np.empty(min(_ROWS, w.rows) * size, np.float32)
    factor = (inputs.arrays["grad"] / w.temperature).astype(np.float32)
    grad_hidden = result["grad_hidden"] = np.empty((w.rows, w.width), np.float32)
    grad_weight = result["grad_weight"] = np.empty((w.vocab, w.width), np.float32)
    scale, gradient = np.float32(_LOG2_E / w.temperature), _gradient_kernel()

    def run() -> None:
        for chunk in chunks:
            part = widen(weight[chunk])
            for rows in tiles:
                height = rows.stop - rows.start
                x = logits[: height * len(part)].reshape(height, len(part))
                _multiply(hidden[rows], part.T, x)
                gradient(x, chunk.start, token[rows], scale, forward.top[rows], forward.total[rows], factor[rows])
                _multiply(x, part, grad_hidden[rows], keep=chunk.start > 0)
                _multiply(x.T, hidden[rows], grad_weight[chunk], keep=rows.start > 0)

    return run
