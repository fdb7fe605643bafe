"""One pass over the logits on all cores.

A row is cut into chunks so that every thread is busy with few rows too. A chunk is read in blocks that stay in the
L1 cache, and its exponentials are taken relative to a base, the maximum of an early block; a block that lies far above
the base is done again with its own maximum as the base. Sums are kept in float32 per lane within a block and in float64
across blocks and chunks.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from ... import simd
from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from .operator import Logprob, check_tokens

_LANES = simd.LANES
_STEP = 4 * _LANES
_BLOCK = 4096
_AHEAD = 4096
_LINE = 16  # fp32 per cache line; for bf16 each line is asked for twice
_LOG2_E, _LN_2 = math.log2(math.e), math.log(2.0)
_ZERO = np.float32(0.0)
# Terms below this power of two count as it: 152,000 of them are still nothing beside the largest, which is 1.
_LEAST_POWER = np.float32(-125.0)
# How far, in powers of two, a logit may lie above the base: the rounding of the exponent grows with it.
_HEADROOM = np.float32(8.0)
_MINUS_INF = np.float32(-np.inf)
# Pieces per thread when rows are few: bounds the idle share of the last piece to about 1/8.
_PIECES_PER_THREAD = 8


@njit(forceinline=True)
def _block_maximum(row: Any, start: int, stop: int) -> Any:
    a = simd.full(_MINUS_INF, np.float32)
    b, c, d = a, a, a
    full = start + (stop - start) // _STEP * _STEP
    for i in range(start, full, _STEP):
        a = simd.maximum(simd.load_f32(row, i), a)
        b = simd.maximum(simd.load_f32(row, i + _LANES), b)
        c = simd.maximum(simd.load_f32(row, i + 2 * _LANES), c)
        d = simd.maximum(simd.load_f32(row, i + 3 * _LANES), d)
    for i in range(full, stop, _LANES):
        a = simd.maximum(simd.load_f32_masked(row, i, simd.first_lanes(stop - i), _MINUS_INF), a)
    return simd.max_lanes(simd.maximum(simd.maximum(a, b), simd.maximum(c, d)))


@njit(forceinline=True)
def _accumulate(x: Any, base: Any, scale: Any, least: Any, s: Any, w: Any, entropy: Any) -> Any:
    """Add 2**((x - base) scale) to s and, for the entropy, that times x - base to w; NaN stays."""
    d = simd.maximum(least, x - base)
    e = simd.exp2_product(d, scale)
    return s + e, simd.fma(e, d, w) if entropy is not None else w


@njit(forceinline=True)
def _block_sums(row: Any, start: int, stop: int, base: Any, scale: Any, entropy: Any) -> Any:
    """Return both sums of a block relative to a base, and the block's maximum."""
    least = _LEAST_POWER / scale
    s0 = simd.full(0.0, np.float32)
    s1, s2, s3, w0, w1, w2, w3 = s0, s0, s0, s0, s0, s0, s0
    m0 = simd.full(_MINUS_INF, np.float32)
    m1, m2, m3 = m0, m0, m0
    full = start + (stop - start) // _STEP * _STEP
    for i in range(start, full, _STEP):
        for line in range(0, _STEP, _LINE):
            simd.prefetch(row, i + _AHEAD + line)
        x0, x1 = simd.load_f32(row, i), simd.load_f32(row, i + _LANES)
        x2, x3 = simd.load_f32(row, i + 2 * _LANES), simd.load_f32(row, i + 3 * _LANES)
        m0, m1 = simd.maximum(x0, m0), simd.maximum(x1, m1)
        m2, m3 = simd.maximum(x2, m2), simd.maximum(x3, m3)
        s0, w0 = _accumulate(x0, base, scale, least, s0, w0, entropy)
        s1, w1 = _accumulate(x1, base, scale, least, s1, w1, entropy)
        s2, w2 = _accumulate(x2, base, scale, least, s2, w2, entropy)
        s3, w3 = _accumulate(x3, base, scale, least, s3, w3, entropy)
    for i in range(full, stop, _LANES):
        x0 = simd.load_f32_masked(row, i, simd.first_lanes(stop - i), _MINUS_INF)
        m0 = simd.maximum(x0, m0)
        s0, w0 = _accumulate(x0, base, scale, least, s0, w0, entropy)
    top = simd.max_lanes(simd.maximum(simd.maximum(m0, m1), simd.maximum(m2, m3)))
    s, w = simd.sum_lanes((s0 + s1) + (s2 + s3)), simd.sum_lanes((w0 + w1) + (w2 + w3))
    return np.float64(s), np.float64(w), top


@njit(forceinline=True)
def _rescale(s: float, w: float, shift: float, scale: Any) -> Any:
    """Return sums relative to a base that lies ``-shift`` higher."""
    factor = 2.0 ** (shift * scale)
    return s * factor, (w + shift * s) * factor if s != 0.0 else 0.0


@njit
def _insert(values: Any, tokens: Any, value: Any, token: int) -> None:
    """Put a value into a descending list whose last value is smaller; equal values keep their order."""
    place = values.size - 1
    while place > 0 and values[place - 1] < value:
        values[place], tokens[place] = values[place - 1], tokens[place - 1]
        place -= 1
    values[place], tokens[place] = value, token


@njit
def _list_block(row: Any, start: int, stop: int, values: Any, tokens: Any) -> None:
    for i in range(start, stop, _LANES):
        x = simd.load_f32_masked(row, i, simd.first_lanes(stop - i), _MINUS_INF)
        bits = simd.mask_bits(x > values[-1])
        for lane in range(_LANES):
            if (bits >> lane) & 1 and simd.lane(x, lane) > values[-1]:
                _insert(values, tokens, simd.lane(x, lane), i + lane)


@njit
def _chunk(row: Any, start: int, stop: int, scale: Any, values: Any, tokens: Any, entropy: Any) -> Any:
    """Return the base of a chunk and its two sums relative to it, and list its largest logits."""
    base, s, w = _block_maximum(row, start, min(start + _BLOCK, stop)), 0.0, 0.0
    values[:] = _MINUS_INF
    tokens[:] = -1
    for at in range(start, stop, _BLOCK):
        end = min(at + _BLOCK, stop)
        block_s, block_w, top = _block_sums(row, at, end, base if base > _MINUS_INF else _ZERO, scale, entropy)
        if (top - base) * scale > _HEADROOM:
            s, w = _rescale(s, w, np.float64(base) - np.float64(top), scale)
            base = top
            block_s, block_w, top = _block_sums(row, at, end, base, scale, entropy)
        elif base == _MINUS_INF:
            # Nothing but -inf, or NaN, which stays.
            block_s, block_w = 0.0 * block_s, 0.0
        if values.size > 0 and top > values[-1]:
            _list_block(row, at, end, values, tokens)
        s += block_s
        w += block_w
    return base, s, w


@njit
def _finish_row(row: Any, token: int, scale: float, parts: Any, tops: Any) -> Any:
    """Merge the chunks of a row into the logprob of a token, the log of the sum, and the entropy."""
    top = _MINUS_INF
    for k in range(tops.size):
        top = max(top, tops[k])
    s, w = 0.0, 0.0
    for k in range(tops.size):
        if tops[k] == _MINUS_INF and parts[k, 0] == 0.0:
            continue
        part_s, part_w = _rescale(parts[k, 0], parts[k, 1], np.float64(tops[k]) - np.float64(top), scale)
        s += part_s
        w += part_w
    if not (s > 0.0 and top < np.inf):
        return math.nan, math.nan, math.nan, top
    log_sum = math.log2(s)
    x = simd.lane(simd.load_f32_masked(row, token, simd.first_lanes(1), 0.0), 0)
    logprob = _LN_2 * ((np.float64(x) - np.float64(top)) * scale - log_sum)
    return logprob, max(_LN_2 * (log_sum - w * scale / s), 0.0), log_sum, top


@cache
def _kernel() -> Any:
    @njit(parallel=True, error_model="numpy")
    def logprob(logits, token, scale, chunk, tops, parts, values, tokens, out, entropy, top_logprob, top_token):
        rows, vocab = logits.shape
        pieces = tops.shape[1]
        scale32 = np.float32(scale)
        for task in prange(rows * pieces):
            r, k = task // pieces, task % pieces
            start, stop = k * chunk, min((k + 1) * chunk, vocab)
            tops[r, k], parts[r, k, 0], parts[r, k, 1] = _chunk(
                logits[r], start, stop, scale32, values[task], tokens[task], entropy
            )
        for r in range(rows):
            out[r], row_entropy, log_sum, top = _finish_row(logits[r], token[r], scale, parts[r], tops[r])
            if entropy is not None:
                entropy[r] = row_entropy
            best_values, best_tokens = values[r * pieces], tokens[r * pieces]
            for k in range(1, pieces if best_values.size > 0 else 1):
                for j in range(best_values.size):
                    value = values[r * pieces + k, j]
                    if value > best_values[-1]:
                        _insert(best_values, best_tokens, value, tokens[r * pieces + k, j])
            for j in range(best_values.size):
                undefined = math.isnan(log_sum)
                top_token[r, j] = -1 if undefined else best_tokens[j]
                top_logprob[r, j] = _LN_2 * ((np.float64(best_values[j]) - np.float64(top)) * scale - log_sum)

    return logprob


def pieces_per_row(rows: int, vocab: int, threads: int) -> int:
    """Return how many chunks to cut a row into, so that threads have equal work and a chunk is not too small."""
    wanted = -(-_PIECES_PER_THREAD * threads // rows) if rows < _PIECES_PER_THREAD * threads else 1
    return max(1, min(wanted, vocab // _BLOCK))


@implementation("sampling.logprob", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """One pass over the logits; all buffers are made here."""
    w = inputs.workload
    assert isinstance(w, Logprob)
    check_tokens(inputs)
    pieces = pieces_per_row(w.rows, w.vocab, get_num_threads())
    # Whole vectors per chunk, so that only the last one has a remainder.
    chunk = -(-w.vocab // pieces // _STEP) * _STEP if pieces > 1 else w.vocab
    pieces = -(-w.vocab // chunk)
    result: Arrays = {"logprob": np.empty(w.rows, np.float32)}
    entropy = np.empty(w.rows, np.float32) if w.entropy else None
    top_logprob = np.empty((w.rows, w.top_n), np.float32)
    top_token = np.empty((w.rows, w.top_n), np.int64)
    if entropy is not None:
        result["entropy"] = entropy
    if w.top_n:
        result |= {"top_logprob": top_logprob, "top_token": top_token}
    arguments = (
        inputs.arrays["logits"],
        inputs.arrays["token"],
        _LOG2_E / w.temperature,
        chunk,
        np.empty((w.rows, pieces), np.float32),
        np.empty((w.rows, pieces, 2), np.float64),
        np.empty((w.rows * pieces, w.top_n), np.float32),
        np.empty((w.rows * pieces, w.top_n), np.int64),
        result["logprob"],
        entropy,
        top_logprob,
        top_token,
    )
    kernel = _kernel()

    def run() -> None:
        kernel(*arguments)
        if w.rows_per_sequence > 1:
            sums = result["logprob"].reshape(-1, w.rows_per_sequence).sum(1, dtype=np.float64)
            result["sequence_logprob"] = sums.astype(np.float32)

    return Prepared(run, lambda: dict(result))
