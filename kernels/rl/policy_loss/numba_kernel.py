"""One pass over the log-probabilities; a pass over the mask before it counts tokens, one byte each.

GSPO goes over a row twice, the second time in the cache.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit, prange

from ... import simd
from ...contract import Inputs, Prepared
from ...registry import implementation
from .operator import PolicyLoss, sequence_weights

_LANES = simd.LANES
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
# exp(e) - e - 1 = e**2 * (1/2 + e/6 + ...): taken where exp(e) - 1 would cancel.
_SERIES = tuple(np.float32(1.0 / np.prod(np.arange(1, k + 1, dtype=float))) for k in range(2, 10))
_NEAR = np.float32(0.5)


@njit(forceinline=True)
def _k3(e: Any) -> Any:
    """Return ``exp(e) - e - 1`` without cancellation."""
    s = simd.fma(e, _SERIES[7], simd.full(_SERIES[6], np.float32))
    s = simd.fma(s, e, _SERIES[5])
    s = simd.fma(s, e, _SERIES[4])
    s = simd.fma(s, e, _SERIES[3])
    s = simd.fma(s, e, _SERIES[2])
    s = simd.fma(s, e, _SERIES[1])
    s = simd.fma(s, e, _SERIES[0])
    return simd.select(simd.absolute(e) < _NEAR, s * e * e, simd.exp(e) - e - _ONE)


@njit(forceinline=True)
def _token(on: Any, logprob: Any, old: Any, ref: Any, constants: Any, kl: Any) -> Any:
    """Return loss and gradient of tokens, 0 where masked; without ``old`` the policy's part is left out.

    The constants are the advantage, and the bounds on the log ratio and on the ratio that apply to its sign.
    """
    advantage, low, high, bound = constants
    zero = simd.full(_ZERO, np.float32)
    loss, grad = zero, zero
    if old is not None:
        d = simd.select(on, logprob - old, zero)
        slope = simd.exp(d) * -advantage
        clipped = (d < low) | (d > high)
        loss = simd.select(clipped, simd.full(-advantage * bound, np.float32), slope)
        grad = simd.select(clipped, zero, slope)
    if ref is not None:
        e = simd.select(on, ref - logprob, zero)
        k3 = _k3(e)
        loss = simd.fma(k3, kl, loss)
        grad = grad - (k3 + e) * kl
    return simd.select(on, loss, zero), grad


@njit(forceinline=True)
def _on(mask: Any, r: int, i: int, lanes: Any) -> Any:
    return simd.load_masked(mask, (r, i), lanes, np.uint8(0)) != np.uint8(0)


@njit
def _mean_difference(logprob: Any, old: Any, mask: Any, r: int, count: float) -> float:
    length = logprob.shape[1]
    total = simd.full(_ZERO, np.float32)
    for i in range(0, length, _LANES):
        lanes = simd.first_lanes(length - i)
        d = simd.load_masked(logprob, (r, i), lanes, _ZERO) - simd.load_masked(old, (r, i), lanes, _ZERO)
        total = total + simd.select(_on(mask, r, i, lanes), d, _ZERO)
    return np.float64(simd.sum_lanes(total)) / max(count, 1.0)


@cache
def _kernels(gspo: bool, streaming: bool) -> Any:
    put = simd.store_streaming if streaming else simd.store

    @njit(parallel=True, error_model="numpy")
    def count_tokens(mask, counts):
        rows, length = mask.shape
        for r in prange(rows):
            total = 0
            full = length // _LANES * _LANES
            for i in range(0, full, _LANES):
                total += simd.count_lanes(simd.load(mask, (r, i)) != np.uint8(0))
            for i in range(full, length):
                total += mask[r, i] != 0
            counts[r] = total

    @njit(parallel=True, error_model="numpy")
    def policy_loss(logprob, old, ref, mask, advantage, weight, counts, bounds, kl, losses, grad):
        rows, length = logprob.shape
        low, high, lowest, highest = bounds
        zero = simd.full(_ZERO, np.float32)
        for r in prange(rows):
            a, scale = advantage[r], np.float32(weight[r])
            # A positive advantage is clipped above, a negative one below.
            d_low, d_high, bound = np.float32(-np.inf), np.float32(np.inf), _ONE
            if a > 0:
                d_high, bound = high, highest
            elif a < 0:
                d_low, bound = low, lowest
            constants = (a, d_low, d_high, bound)
            sequence_loss, sequence_grad = _ZERO, _ZERO
            if gspo:
                d = np.float32(_mean_difference(logprob, old, mask, r, counts[r]))
                slope = -a * np.float32(np.exp(np.float64(d)))
                clipped = d < d_low or d > d_high
                sequence_loss = -a * bound if clipped else slope
                sequence_grad = _ZERO if clipped else slope
            total = simd.full(_ZERO, np.float32)
            full = length // _LANES * _LANES
            for i in range(0, full, _LANES):
                on = simd.load(mask, (r, i)) != np.uint8(0)
                x = simd.load(logprob, (r, i))
                loss, slope_t = _token(
                    on, x, None if gspo else simd.load(old, (r, i)),
                    None if ref is None else simd.load(ref, (r, i)), constants, kl,
                )  # fmt: skip
                total = total + loss
                put(grad, (r, i), simd.select(on, (slope_t + sequence_grad) * scale, zero))
            if full < length:
                lanes = simd.first_lanes(length - full)
                on = _on(mask, r, full, lanes)
                x = simd.load_masked(logprob, (r, full), lanes, _ZERO)
                loss, slope_t = _token(
                    on, x, None if gspo else simd.load_masked(old, (r, full), lanes, _ZERO),
                    None if ref is None else simd.load_masked(ref, (r, full), lanes, _ZERO), constants, kl,
                )  # fmt: skip
                total = total + loss
                simd.store_masked(grad, (r, full), simd.select(on, (slope_t + sequence_grad) * scale, zero), lanes)
            row_loss = np.float64(simd.sum_lanes(total)) + np.float64(sequence_loss) * counts[r]
            losses[r] = row_loss * weight[r]

    return count_tokens, policy_loss


@implementation("rl.policy_loss", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Sums are fp32 per lane within a row and float64 over rows; all buffers are made here."""
    w, a = inputs.workload, inputs.arrays
    assert isinstance(w, PolicyLoss)
    grad = simd.aligned_empty((w.sequences, w.length), np.float32)
    counts, losses = np.empty(w.sequences), np.empty(w.sequences)
    loss = np.empty(1, np.float32)
    limits = (*w.bounds(), 1 - w.clip_low, 1 + w.clip_high)
    bounds = tuple(np.float32(x) for x in limits)
    count_tokens, policy_loss = _kernels(w.algorithm == "gspo", w.length % _LANES == 0)
    pointers = (a["logprob"], a["old_logprob"], a.get("ref_logprob"), a["mask"], a["advantage"])
    coefficient = np.float32(w.kl)

    def run() -> None:
        count_tokens(a["mask"], counts)
        policy_loss(*pointers, sequence_weights(w, counts), counts, bounds, coefficient, losses, grad)
        loss[0] = losses.sum()

    return Prepared(run, lambda: {"loss": loss, "grad": grad})
