"""Decode attention on all cores: every key and value is read once, by whoever holds all query heads that share it.

The visible keys of all sequences, laid end to end, are cut into pieces of equal length, several per thread, so that
threads move equal bytes whatever the lengths. A piece goes over its keys block by block and in a block over the KV
heads, which stand next to each other in a page, with a softmax relative to the running maximum. What a cut divides is
merged by the maxima and sums of its parts.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from ... import simd
from ...contract import Inputs, Prepared, UnsupportedError
from ...registry import implementation
from .numba_block import BLOCK, block_step, fill_offsets
from .numba_state import absorb, clear, finish, first_after, plan, save
from .operator import AttentionDecode

_LANES = simd.LANES
# Pieces per thread: more bound the idle share of the last piece, fewer keep what a cut costs small.
_PIECES_PER_THREAD = 4
_FEWEST_ROWS = 4 * BLOCK
# How far ahead memory is asked for, into the L2 cache: best of 4 to 16 KB for pages in random order on Zen 4.
_BYTES_AHEAD = 12288
_LOG2_E = math.log2(math.e)


@njit
def _copy_row(q: Any, at: int, own_q: Any, to: int, dim: int) -> None:
    for d in range(dim):
        own_q[to + d] = q[at + d]


@njit
def _widen_row(q: Any, at: int, own_q: Any, to: int, dim: int) -> None:
    for d in range(0, dim, _LANES):
        simd.store(own_q, to + d, simd.load_f32(q, at + d))


def _make_piece(dot: bool) -> Any:
    step, fetch_row = block_step(dot), _copy_row if dot else _widen_row

    @njit
    def piece(
        begin: int, end: int, q: Any, tokens: int, kv: Any, shape: Any, table: Any, lengths: Any, sinks: Any,
        window: int, scale: Any, firsts: Any, ends: Any, own_q: Any, bounds: Any, scores: Any, weights: Any,
        tops: Any, sums: Any, factors: Any, products: Any, offsets: Any, rows_at: Any, value_step: int, skip: int,
        part: Any, part_tops: Any, part_sums: Any, part_products: Any, out: Any, lse: Any,
    ) -> None:  # fmt: skip
        """Go over the keys ``begin`` to ``end`` of the line; leave what is cut at either end in the two parts."""
        _, kv_heads, page_size, dim = shape
        rows = tops.shape[1]
        group = rows // tokens
        part[0], part[1] = -1, -1
        b = first_after(ends, begin)
        key = lengths[b] - (ends[b] - begin)
        left = end - begin
        now = 0
        count = min(BLOCK, lengths[b] - key, left)
        fill_offsets(offsets[now], table[b], key, key + count, shape)
        opening, whole = True, key == firsts[b]
        while left > 0:
            if opening:
                clear(tokens, lengths[b], window, bounds, tops, sums, products)
                for head in range(kv_heads):
                    for row in range(rows):
                        at = ((b * tokens + row // group) * kv_heads + head) * group + row % group
                        fetch_row(q, at * dim, own_q[head], row * dim, dim)
            left -= count
            closing = key + count == lengths[b]
            next_b, next_key = b, key + count
            if left > 0:
                if closing:
                    next_b, next_key = b + 1, firsts[b + 1]
                next_count = min(BLOCK, lengths[next_b] - next_key, left)
                fill_offsets(offsets[1 - now], table[next_b], next_key, next_key + next_count, shape)
            else:
                next_count = 0
            step(
                own_q, kv, offsets[now], count, offsets[1 - now], next_count, rows_at, key, bounds, scale,
                page_size * dim, value_step, skip, scores, weights, tops, sums, factors, products,
            )  # fmt: skip
            if closing and whole:
                finish(b, group, tops, sums, products, sinks, out, lse)
            elif closing or left == 0:
                side = 1 if whole else 0
                part[side] = b
                save(tops, sums, products, part_tops[side], part_sums[side], part_products[side])
            opening = closing
            whole = whole or closing
            b, key, count, now = next_b, next_key, next_count, 1 - now

    return piece


@cache
def _kernel(dot: bool) -> Any:
    piece = _make_piece(dot)

    @njit(parallel=True, error_model="numpy")
    def decode(
        pieces, q, tokens, kv, shape, table, lengths, sinks, window, scale, firsts, ends, own_q, bounds, scores,
        weights, tops, sums, factors, products, offsets, rows_at, value_step, skip, part, part_tops,
        part_sums, part_products, out, lse,
    ):  # fmt: skip
        group = tops.shape[2] // tokens
        plan(lengths, tokens, window, firsts, ends)
        total = ends[-1]
        for n in prange(pieces):
            piece(
                total * n // pieces, total * (n + 1) // pieces, q, tokens, kv, shape, table, lengths, sinks, window,
                scale, firsts, ends, own_q[n], bounds[n], scores[n], weights[n], tops[n], sums[n], factors[n],
                products[n], offsets[n], rows_at[n], value_step, skip, part[n], part_tops[n], part_sums[n],
                part_products[n], out, lse,
            )  # fmt: skip
        for n in range(pieces):
            cut = part[n, 1]
            other = n + 1
            while cut >= 0 and other < pieces and part[other, 0] == cut:
                absorb(
                    part_tops[n, 1], part_sums[n, 1], part_products[n, 1],
                    part_tops[other, 0], part_sums[other, 0], part_products[other, 0],
                )  # fmt: skip
                other += 1
            if cut >= 0:
                finish(cut, group, part_tops[n, 1], part_sums[n, 1], part_products[n, 1], sinks, out, lse)

    return decode


def _aligned(array: Any) -> Any:
    """Return the array, or a copy of it that starts on a cache line, as a cache of keys does."""
    if array.ctypes.data % 64 == 0:
        return array
    copy = simd.aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def piece_count(keys: int, kv_heads: int, threads: int) -> int:
    """Return into how many pieces the line of all keys is cut."""
    return max(1, min(threads * _PIECES_PER_THREAD, keys * kv_heads // _FEWEST_ROWS, keys))


def prepare_pieces(inputs: Inputs, pieces: int | None = None, *, dot: bool | None = None) -> Prepared:
    """Prepare with a number of pieces, and with or without the dot product of bf16; None chooses.

    Raises
    ------
    UnsupportedError
        If a head is not a whole number of this CPU's vectors.
    """
    w, arrays = inputs.workload, inputs.arrays
    assert isinstance(w, AttentionDecode)
    if w.head_dim % _LANES:
        raise UnsupportedError(f"head_dim = {w.head_dim} is not a multiple of the {_LANES} lanes of this CPU's vectors")
    possible = w.precision == "bf16" and simd.has_bf16_dot() and w.head_dim % (2 * _LANES) == 0
    dot = possible if dot is None else dot and possible
    lengths = arrays["lengths"].astype(np.int64)
    seen = int(np.minimum(lengths, w.window + w.query_tokens - 1).sum() if w.window else lengths.sum())
    pieces = min(pieces, seen) if pieces else piece_count(seen, w.kv_heads, get_num_threads())
    rows, heads, dim = w.query_tokens * w.group, w.kv_heads, w.head_dim
    out = simd.aligned_empty((w.batch, w.query_tokens, w.q_heads, dim), np.float32)
    lse = np.empty((w.batch, w.query_tokens, w.q_heads), np.float32)
    k, v = _aligned(arrays["k_pages"]), _aligned(arrays["v_pages"])
    scores = simd.aligned_empty((pieces, rows * BLOCK), np.float32)
    arguments = (
        pieces,
        arrays["q"].reshape(-1),
        w.query_tokens,
        k.reshape(-1),
        k.shape,
        arrays["page_table"],
        lengths,
        arrays["sinks"] if w.sinks else np.empty(0, np.float32),
        w.window,
        np.float32(w.scale * _LOG2_E),
        np.empty(w.batch, np.int64),
        np.empty(w.batch, np.int64),
    )
    workspace = (
        simd.aligned_empty((pieces, heads, rows * dim), np.uint16 if dot else np.float32),
        np.empty((pieces, rows, 2), np.int64),
        scores,
        simd.aligned_empty((pieces, rows * BLOCK), np.uint16) if dot else scores,
        np.empty((pieces, heads, rows), np.float32),
        np.empty((pieces, heads, rows), np.float32),
        np.empty((pieces, rows), np.float32),
        simd.aligned_empty((pieces, heads, rows * dim), np.float32),
        np.empty((pieces, 2, BLOCK), np.int64),
        np.empty((pieces, 2 * BLOCK + _LANES), np.int64),
        (v.ctypes.data - k.ctypes.data) // k.itemsize,
        max(1, min(_BYTES_AHEAD // (dim * k.itemsize), BLOCK)),
        np.empty((pieces, 2), np.int64),
        np.empty((pieces, 2, heads, rows), np.float32),
        np.empty((pieces, 2, heads, rows), np.float32),
        np.empty((pieces, 2, heads, rows * dim), np.float32),
    )
    kernel = _kernel(dot)

    def run(values: object = v) -> None:
        # The values are read through their distance from the keys, and have to live as long.
        kernel(*arguments, *workspace, out, lse)

    return Prepared(run, lambda: {"out": out, "lse": lse})


@implementation("attention.decode", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Every key and value read once; all buffers are made here, work is divided in every call."""
    return prepare_pieces(inputs)
