"""Prefill attention on all cores, block of keys by block of queries, with both products in register tiles.

A task is a block of queries of one head. Block after block of keys is copied to where its rows do not compete for cache
sets, its values transposed; then panel after panel of queries makes its scores, turns them into weights where they
stand in the L1 cache, and adds the weighted values. Threads take tasks one by one, longest first, so that none idles.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from ... import simd
from ...contract import Arrays, Inputs, Prepared
from ...matmul.operands import Operands, operands
from ...matmul.panels import PANEL, SLACK, scratch_tile
from ...matmul.tiles import HEIGHT, PITCH, WIDTH, panel_tile
from ...precision import widen
from ...registry import implementation
from .numba_pack import copy_keys, pack_queries, transpose_values, unpack_rows
from .numba_softmax import cap_scores, complete, hide, rescale, softmax_step
from .numba_tasks import list_tasks, task_rows
from .operator import AttentionPrefill

_LANES = simd.LANES
_TILES = 16
KEYS = _TILES * HEIGHT
"""Keys of a block: scores and one panel of queries stay in the L1 cache, keys and values of the block in L2."""
_LOG2_E, _LN_2 = math.log2(math.e), math.log(2.0)
_MINUS_INF = np.float32(-np.inf)


@cache
def product_tiles(kind: Operands) -> Any:
    """Return ``multiply(panel, at, rows, count, length, out, to, first, source, ahead, pitch, lines)``.

    ``count`` lines (completed to whole tiles) of ``length`` products of the rows, `PITCH` apart, with a panel.
    """
    tile = panel_tile(WIDTH, kind.pairs)

    @simd.leaf
    def multiply(panel: Any, at: int, rows: Any, count: int, length: int, out: Any, to: int, first: int, source: Any,
                 ahead: int, pitch: int, lines: int) -> None:  # fmt: skip
        for row in range(0, count, HEIGHT):
            tile(panel, at, rows[row * PITCH :], length, out, to + row * PANEL, first, source, ahead, pitch, lines)
            ahead += lines * pitch

    return multiply


@simd.leaf
def visible(first: int, rows: int, queries: int, keys: int, causal: bool, window: int, lows: Any, highs: Any) -> None:
    """Write the range of keys of every row, as `kernels.attention.masks` states it; the last one's to the end."""
    for r in range(lows.size):
        low, high = 0, keys
        if causal:
            high = max(keys - queries + first + min(r, rows - 1) + 1, 0)
            low = max(high - window, 0) if window > 0 else 0
        lows[r], highs[r] = low, high


@cache
def _kernel(kind: Operands) -> Any:
    pack, copy, transpose, unpack = pack_queries(kind), copy_keys(kind), transpose_values(kind), unpack_rows(kind)
    multiply, softmax = product_tiles(kind), softmax_step(kind.pairs)
    per_line = 2 if kind.pairs else 1

    @simd.leaf
    def panel_step(number, panels, length, dim, rows, columns, start, count, cap, raw_scale, scale, k, ahead, stride,
                   asked, scores, weights, out, out_lines, lows, highs, tops, sums, factors):  # fmt: skip
        first = number * PANEL
        last = first + PANEL - 1
        lines = min(count, np.int64(highs[last]) - start)
        if lines <= 0 or start + count <= lows[first]:
            return
        multiply(panels, first * length, rows, lines, length, scores, 0, 1, k, ahead, stride, asked)
        if cap > 0:
            cap_scores(scores, lines, raw_scale, cap)
        if lows[last] > start or highs[first] < start + lines:
            hide(scores, lines, start, lows, highs, first)
        lines = complete(scores, lines)
        if softmax(scores, weights, lines, scale, first, tops, sums, factors):
            rescale(out, first * out_lines, dim, factors, first)
        multiply(weights, 0, columns, dim, lines // per_line, out, first * out_lines, 0, k, ahead, stride, 0)

    @simd.leaf
    def task(b, head, first, rows, q, k, v, out, lse, query_offsets, key_offsets, q_heads, kv_heads, length, dim,
             causal, window, cap, raw_scale, sinks, panels, key_rows, columns, scores, weights, product, lows, highs,
             tops, sums, factors, tile, packed_tile):  # fmt: skip
        queries, keys = query_offsets[b + 1] - query_offsets[b], key_offsets[b + 1] - key_offsets[b]
        kv_head = head // (q_heads // kv_heads)
        row = query_offsets[b] + first
        number = (rows + PANEL - 1) // PANEL
        out_lines = (dim + HEIGHT - 1) // HEIGHT * HEIGHT
        scale = np.float32(_LOG2_E) if cap > 0 else raw_scale * np.float32(_LOG2_E)
        visible(first, rows, queries, keys, causal, window, lows, highs)
        pack(q, (row * q_heads + head) * length, q_heads * length, rows, length, panels, packed_tile)
        for i in range(number * PANEL):
            tops[i], sums[i] = _MINUS_INF, np.float32(0.0)
        for i in range(0, number * PANEL * out_lines, _LANES):
            simd.store(product, i, simd.full(0.0, np.float32))
        stride = kv_heads * length
        # Rows of the next block that each tile of scores asks for: together all of them.
        asked = (KEYS + _TILES * number - 1) // (_TILES * number)
        stop = np.int64(highs[rows - 1])
        for start in range(np.int64(lows[0]), stop, KEYS):
            count = min(KEYS, stop - start)
            at = (key_offsets[b] + start) * kv_heads + kv_head
            copy(k, at * length, stride, count, length, key_rows)
            transpose(v, at * dim, kv_heads * dim, count, dim, columns, packed_tile)
            for i in range(number):
                ahead = (at + KEYS * kv_heads) * length + i * _TILES * asked * stride
                panel_step(i, panels, length, dim, key_rows, columns.reshape(-1), start, count, cap, raw_scale, scale,
                           k, ahead, stride, asked, scores, weights, product, out_lines, lows, highs, tops, sums,
                           factors)  # fmt: skip
        unit = scale * np.float32(_LN_2)
        for r in range(rows):
            top, total = tops[r] * unit, sums[r]
            if sinks.size > 0:
                sink = sinks[head]
                if sink > top:
                    # Weights are relative to the largest score; beside a larger sink they shrink.
                    total = total * np.exp(top - sink) + np.float32(1.0)
                    factors[r] = np.exp(top - sink) / total
                    top = sink
                else:
                    total += np.exp(sink - top)
                    factors[r] = np.float32(1.0) / total
            else:
                factors[r] = np.float32(1.0) / total if total > 0 else np.float32(0.0)
            lse[row + r, head] = top + np.log(total) if total > 0 else _MINUS_INF
        unpack(product, out_lines, factors, rows, dim, out, (row * q_heads + head) * dim, q_heads * dim, tile)

    @simd.leaf
    def work(counter, tasks, q, k, v, out, lse, query_offsets, key_offsets, q_heads, kv_heads, length, dim, causal,
             window, cap, raw_scale, sinks, panels, key_rows, columns, scores, weights, product, lows, highs, tops,
             sums, factors, tile, packed_tile):  # fmt: skip
        i = simd.take_next(counter)
        while i < tasks.shape[0]:
            task(tasks[i, 0], tasks[i, 1], tasks[i, 2], tasks[i, 3], q, k, v, out, lse, query_offsets, key_offsets,
                 q_heads, kv_heads, length, dim, causal, window, cap, raw_scale, sinks, panels, key_rows, columns,
                 scores, weights, product, lows, highs, tops, sums, factors, tile, packed_tile)  # fmt: skip
            i = simd.take_next(counter)

    @njit(parallel=True, error_model="numpy")
    def prefill(counter, tasks, q, k, v, out, lse, query_offsets, key_offsets, q_heads, kv_heads, length, dim, causal,
                window, cap, raw_scale, sinks, panels, key_rows, columns, scores, weights, products, lows, highs, tops,
                sums, factors, tiles, packed_tiles):  # fmt: skip
        counter[0] = 0
        for t in prange(panels.shape[0]):
            work(counter, tasks, q, k, v, out, lse, query_offsets, key_offsets, q_heads, kv_heads, length, dim, causal,
                 window, cap, raw_scale, sinks, panels[t], key_rows[t], columns[t], scores[t], weights[t], products[t],
                 lows[t], highs[t], tops[t], sums[t], factors[t], tiles[t], packed_tiles[t])  # fmt: skip

    return prefill


def _prefers_pairs() -> bool:
    """Return whether products of bf16 pairs are faster than fp32 ones here.

    On a CPU with AMX they took 1.7 times as long; there bf16 is widened, which also keeps the weights in fp32.
    """
    return simd.has_bf16_dot() and "amx-bf16" not in simd.host_features()


def prepare_pairs(inputs: Inputs, pairs: bool | None = None) -> Prepared:
    """Prepare with or without products of pairs of bf16; None chooses the faster."""
    w, arrays = inputs.workload, inputs.arrays
    assert isinstance(w, AttentionPrefill)
    kind = operands(w.precision, _prefers_pairs() if pairs is None else pairs)
    threads = get_num_threads()
    rows = task_rows(w, threads)
    query_offsets, key_offsets = (arrays[name].astype(np.int64) for name in ("query_offsets", "key_offsets"))
    tasks = list_tasks(w, query_offsets, key_offsets, rows)
    q, k = (kind.view(arrays[name]).reshape(-1) for name in ("q", "k"))
    out = simd.aligned_empty(arrays["q"].shape, arrays["q"].dtype)
    lse = np.empty(out.shape[:2], np.float32)
    length = w.head_dim // 2 if kind.pairs else w.head_dim
    lines = -(-w.head_dim // HEIGHT) * HEIGHT
    scores = simd.aligned_empty((threads, (KEYS + HEIGHT) * PANEL), np.float32)

    def zeros(*shape: int) -> Any:
        array = simd.aligned_empty((threads, *shape), kind.element)
        array[...] = 0
        return array

    buffers = (
        simd.aligned_empty((threads, rows * length + SLACK), kind.element),
        zeros((KEYS + HEIGHT) * PITCH),
        zeros(lines + _LANES, PITCH),
        scores,
        scores.view(kind.element),
        simd.aligned_empty((threads, rows * lines + SLACK), np.float32),
        np.empty((threads, rows), np.int32),
        np.empty((threads, rows), np.int32),
        *(np.empty((threads, rows), np.float32) for _ in range(3)),
        np.stack([scratch_tile(np.float32)] * threads),
        np.stack([scratch_tile(kind.element)] * threads),
    )
    sinks = arrays["sinks"] if w.sinks else np.empty(0, np.float32)
    numbers = (
        w.q_heads,
        w.kv_heads,
        length,
        w.head_dim,
        w.causal,
        w.window,
        np.float32(w.softcap),
        np.float32(w.scale),
    )
    counter, kernel = np.zeros(1, np.int64), _kernel(kind)
    flat = (q, k, arrays["v"].reshape(-1), out.reshape(-1), lse)

    def run() -> None:
        kernel(counter, tasks, *flat, query_offsets, key_offsets, *numbers, sinks, *buffers)

    def output() -> Arrays:
        return {"out": widen(out), "lse": lse}

    return Prepared(run, output)


@implementation("attention.prefill", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """All buffers and the list of tasks, which depends on the lengths only, are made here."""
    return prepare_pairs(inputs)
