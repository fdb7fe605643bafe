"""All rows of sampling.top_k_top_p, each on one thread."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange
from numba.np.ufunc.parallel import get_thread_id

from ... import simd
from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ..exact_weights import weight_unit
from ..numba_weights import BLOCK
from .numba_row import sample_row
from .operator import ROW_PARAMETERS, TopKTopP, check_lists

_LANES = simd.LANES
_CANDIDATES = 16_384
_SAMPLE = 1024
_MINUS_INF = np.float32(-np.inf)


@njit
def _widen(source: Any, target: Any) -> None:
    n = source.size
    full = n // _LANES * _LANES
    for i in range(0, full, _LANES):
        simd.prefetch(source, i + 2048)
        simd.store(target, i, simd.load_f32(source, i))
    if full < n:
        mask = simd.first_lanes(n - full)
        simd.store_masked(target, full, simd.load_f32_masked(source, full, mask, _MINUS_INF), mask)


@njit
def _adjust(row, bias_token, bias, seen_token, seen_count, repetition, presence, frequency):
    """Add the bias, then apply the penalties; each result is rounded to fp32 once."""
    for j in range(bias_token.size):
        if bias_token[j] >= 0:
            row[bias_token[j]] = np.float32(np.float64(row[bias_token[j]]) + np.float64(bias[j]))
    for j in range(seen_token.size):
        if seen_token[j] >= 0:
            value, count = np.float64(row[seen_token[j]]), np.float64(seen_count[j])
            value = value / np.float64(repetition) if value > 0.0 else value * np.float64(repetition)
            value = value - np.float64(frequency) * count - (np.float64(presence) if count > 0.0 else 0.0)
            row[seen_token[j]] = np.float32(value)


@cache
def _kernel() -> Any:
    @njit(parallel=True, error_model="numpy")
    def draw_rows(
        logits, logits16, temperature, top_k, top_p, min_p, repetition, presence, frequency, seen_token, seen_count,
        bias_token, bias, seed, offset, unit, work, maxima, values, near, rest, sample, masses, counts, token,
        logprob, kept
    ):  # fmt: skip
        for r in prange(token.size):
            thread = get_thread_id()
            row = work[thread]
            if logits16.shape[0] > 0:
                _widen(logits16[r], row)
            elif work.shape[1] > 0:
                _widen(logits[r], row)
            else:
                row = logits[r]
            if work.shape[1] > 0:
                _adjust(
                    row, bias_token[r], bias[r], seen_token[r], seen_count[r], repetition[r], presence[r], frequency[r]
                )
            scratch = near[thread], rest[thread], sample[thread], masses[thread], counts[thread]
            token[r], logprob[r], kept[r] = sample_row(
                row, temperature[r], np.int64(top_k[r]), top_p[r], min_p[r], seed[r], offset[r], unit, maxima[thread],
                values[thread], scratch
            )  # fmt: skip

    return draw_rows


@implementation("sampling.top_k_top_p", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """One read of the logits from memory; all buffers are made here."""
    assert isinstance(inputs.workload, TopKTopP)
    check_lists(inputs)
    arrays = inputs.arrays
    rows, vocab = arrays["logits"].shape
    threads, blocks = get_num_threads(), -(-vocab // BLOCK)
    bf16 = arrays["logits"].dtype == np.uint16
    changed = bf16 or arrays["seen_token"].size > 0 or arrays["bias_token"].size > 0
    result: Arrays = {
        "token": np.empty(rows, np.int32),
        "logprob": np.empty(rows, np.float32),
        "kept": np.empty(rows, np.int32),
    }
    none32, none16 = np.empty((0, 0), np.float32), np.empty((0, 0), np.uint16)
    buffers = (
        (blocks, np.float32),
        (_CANDIDATES, np.float32),
        (_CANDIDATES, np.float32),
        (_CANDIDATES, np.float32),
        (_SAMPLE, np.float32),
        (blocks, np.int64),
        (blocks, np.int64),
    )
    arguments = (
        none32 if bf16 else arrays["logits"],
        arrays["logits"] if bf16 else none16,
        *(arrays[name] for name in ROW_PARAMETERS),
        *(arrays[name] for name in ("seen_token", "seen_count", "bias_token", "bias", "seed", "offset")),
        np.float32(weight_unit(vocab)),
        simd.aligned_empty((threads, vocab if changed else 0), np.float32),
        *(simd.aligned_empty((threads, size), kind) for size, kind in buffers),
        result["token"],
        result["logprob"],
        result["kept"],
    )
    kernel = _kernel()
    return Prepared(lambda: kernel(*arguments), lambda: dict(result))
