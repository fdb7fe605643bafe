"""Routing on all cores: two passes with the offsets between them.

The tokens are cut into chunks of whole tiles. The first pass chooses experts, weighs them and counts the choices of
each expert per chunk. The counts give every chunk its place within every expert's rows, so that the second pass writes
the permutation in token order without a lock.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from ... import simd
from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from .numba_gates import (
    SIGMOID,
    SOFTMAX_OF_ALL,
    SOFTMAX_OF_CHOSEN,
    exclude_groups,
    store_scores,
    store_weights,
    sum_exponentials,
)
from .numba_select import LANES, choices_bucket, list_rows, selector
from .operator import Routing

# Chunks per thread even out cores of unequal speed. Below so many tokens a second thread costs more than it saves.
_CHUNKS_PER_THREAD = 2
_SERIAL_TOKENS = 256


@cache
def _chunk_router(bucket: int) -> Any:
    """Return the function that routes the tokens of one chunk."""
    select = selector(bucket)
    slots = max(2 * bucket, LANES)
    width = max(bucket, LANES)

    @simd.leaf
    def route(
        logits, bias, experts, top_k, gate, groups, groups_kept, renormalize, scale, start, stop,
        weights, numbers, counts, maxima, list_values, list_numbers, keys, ids, rows, id_rows, scores, by_group, sums,
    ):  # fmt: skip
        stride = scores.size // LANES
        counts[:] = 0
        for token in range(start, stop, LANES):
            tokens = min(LANES, stop - token)
            first = np.int64(token * experts)
            if gate == SIGMOID:
                for t in range(tokens):
                    store_scores(logits, first + t * experts, experts, bias, scores, t * stride)
                if groups > 1:
                    exclude_groups(scores, stride, experts, groups, groups_kept, tokens, rows, id_rows, by_group)
                select(
                    scores,
                    np.int64(0),
                    np.int64(stride),
                    experts,
                    top_k,
                    tokens,
                    maxima,
                    list_values,
                    list_numbers,
                    keys,
                    ids,
                )
            else:
                select(logits, first, experts, experts, top_k, tokens, maxima, list_values, list_numbers, keys, ids)
            if gate == SOFTMAX_OF_ALL:
                for t in range(tokens):
                    sums[t] = sum_exponentials(logits, first + t * experts, experts, keys[0, t])
            store_weights(gate, renormalize, scale, top_k, tokens, keys, ids, sums, logits, first, experts)
            for column in range(0, width, LANES):
                simd.transpose_tile(keys, (column, 0), list_values, (0, column))
                simd.transpose_tile(ids, (column, 0), list_numbers, (0, column))
            for t in range(tokens):
                at = (token + t) * top_k
                for j in range(0, top_k, LANES):
                    valid = simd.first_lanes(top_k - j)
                    simd.store_masked(weights, at + j, simd.load(list_values, (t, j)), valid)
                    simd.store_masked(numbers, at + j, simd.load(list_numbers, (t, j)), valid)
            for slot in range(token * top_k, (token + tokens) * top_k):
                # Unsigned: a signed index is tested for a negative one, from the end.
                counts[np.uint64(numbers[slot])] += np.int32(1)

    assert slots >= width
    return route


@simd.leaf
def _place(counts, block, total, offsets, begins, source, block_expert) -> None:
    """Turn counts per chunk and expert into totals, offsets and each chunk's first row, and fill the padding."""
    chunks, experts = counts.shape
    slots = np.int32(offsets[0])
    at = 0
    for e in range(experts):
        offsets[e] = at
        row = at
        for c in range(chunks):
            begins[c, e] = row
            row += counts[c, e]
        total[e] = row - at
        end = at + (row - at + block - 1) // block * block
        source[row:end] = slots
        if block > 1:
            block_expert[at // block : end // block] = e
        at = end
    offsets[experts] = at
    source[at:] = slots
    if block > 1:
        block_expert[at // block :] = -1


@simd.leaf
def _scatter(numbers, begins, source, start, stop) -> None:
    for slot in range(start, stop):
        e = np.uint64(numbers[slot])
        row = begins[e]
        source[np.uint64(row)] = slot
        begins[e] = row + np.int32(1)


@cache
def _kernel(bucket: int, parallel: bool) -> Any:
    route = _chunk_router(bucket)

    @njit(parallel=parallel, error_model="numpy")
    def kernel(logits, bias, settings, chunk, weights, numbers, counts, permutation, scratch):
        experts, top_k, gate, groups, groups_kept, renormalize, scale, block = settings
        total, offsets, begins, source, block_expert = permutation
        maxima, values, lists, keys, ids, rows, id_rows, scores, by_group, sums = scratch
        tokens = weights.size // top_k
        for c in prange(counts.shape[0]):
            route(
                logits, bias, experts, top_k, gate, groups, groups_kept, renormalize, scale,
                c * chunk, min((c + 1) * chunk, tokens), weights, numbers, counts[c],
                maxima[c], values[c], lists[c], keys[c], ids[c], rows[c], id_rows[c], scores[c], by_group[c], sums[c],
            )  # fmt: skip
        offsets[0] = tokens * top_k
        _place(counts, block, total, offsets, begins, source, block_expert)
        for c in prange(counts.shape[0]):
            _scatter(numbers, begins[c], source, c * chunk * top_k, min((c + 1) * chunk, tokens) * top_k)

    return kernel


def _gate(w: Routing) -> int:
    if w.gate == "sigmoid":
        return SIGMOID
    return SOFTMAX_OF_ALL if w.gate == "softmax" and not w.renormalize else SOFTMAX_OF_CHOSEN


def _scratch(w: Routing, bucket: int, chunks: int) -> tuple[Any, ...]:
    slots = max(2 * bucket, LANES)
    lists = (chunks, list_rows(w.experts, bucket), slots)
    columns = (chunks, slots, LANES)
    stride = -(-w.experts // LANES) * LANES
    sigmoid = w.gate == "sigmoid"
    kinds = (
        ((chunks, LANES, slots), np.float32),
        (lists, np.float32),
        (lists, np.int32),
        (columns, np.float32),
        (columns, np.int32),
        ((chunks, LANES, LANES), np.float32),
        ((chunks, LANES, LANES), np.float32),
        ((chunks, LANES * stride if sigmoid else LANES), np.float32),
        ((chunks, w.groups, LANES), np.float32),
        ((chunks, LANES), np.float32),
    )
    arrays = tuple(simd.aligned_empty(shape, kind) for shape, kind in kinds)
    for array in arrays:
        array[:] = 0
    return arrays


def bind(w: Routing, logits: Any, bias: Any) -> tuple[Any, Arrays]:
    """Return what does the work on given arrays (``bias`` for sigmoid, or None), and the arrays that it fills.

    Two parallel passes, one thread for few tokens; all buffers are made here.
    """
    bucket = choices_bucket(w.top_k)
    parallel = w.tokens > _SERIAL_TOKENS and get_num_threads() > 1
    chunks = _CHUNKS_PER_THREAD * get_num_threads() if parallel else 1
    chunk = -(-w.tokens // (chunks * LANES)) * LANES
    chunks = -(-w.tokens // chunk)
    result: Arrays = {
        "weights": simd.aligned_empty((w.tokens, w.top_k), np.float32),
        "experts": simd.aligned_empty((w.tokens, w.top_k), np.int32),
        "counts": np.empty(w.experts, np.int32),
        "offsets": np.empty(w.experts + 1, np.int32),
        "source": simd.aligned_empty(w.capacity, np.int32),
    }
    block_expert = np.empty(w.capacity // w.block if w.block > 1 else 0, np.int32)
    if w.block > 1:
        result["block_expert"] = block_expert
    counts, begins = (np.zeros((chunks, w.experts), np.int32) for _ in range(2))
    arguments = (
        logits.reshape(-1),
        np.zeros(0, np.float32) if bias is None else bias,
        (w.experts, w.top_k, _gate(w), w.groups, w.groups_kept, w.renormalize, np.float32(w.scale), w.block),
        chunk,
        result["weights"].reshape(-1),
        result["experts"].reshape(-1),
        counts,
        (result["counts"], result["offsets"], begins, result["source"], block_expert),
        _scratch(w, bucket, chunks),
    )
    kernel = _kernel(bucket, parallel)
    return lambda: kernel(*arguments), result


@implementation("moe.routing", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """See `bind`."""
    w = inputs.workload
    assert isinstance(w, Routing)
    run, result = bind(w, inputs.arrays["logits"], inputs.arrays.get("bias"))
    return Prepared(run, lambda: dict(result))
