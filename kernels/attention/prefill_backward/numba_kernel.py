"""Gradients of prefill attention on all cores: five products in register tiles.

A task is a KV head of a sequence, so that nothing is shared between threads. For a block of keys and a panel of queries
the scores and the gradients of the weights stand one line per key with queries as lanes, as in `attention.prefill`, and
are the packed input of ``dq``; written as rows too they are the broadcast side of ``dk`` and ``dv``, whose other side
is queries and dout with the head's numbers as lanes. bf16 is widened.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from ... import simd
from ...contract import Arrays, Inputs, Prepared
from ...matmul.operands import operands
from ...matmul.panels import PANEL, scratch_tile
from ...matmul.tiles import HEIGHT, PITCH
from ...precision import widen
from ...registry import implementation
from ..prefill.numba_kernel import KEYS, product_tiles, visible
from ..prefill.numba_pack import copy_keys, pack_queries, transpose_values, unpack_rows
from ..prefill.numba_softmax import hide
from ..prefill.numba_tasks import list_tasks
from .numba_panels import lay_out_rows, row_products, score_gradients, write_rows
from .operator import AttentionPrefillBackward

_LANES = simd.LANES
_QUERIES = 8 * PANEL
"""Queries whose weights are kept as rows at a time."""
_LOG2_E = math.log2(math.e)
# Weights of rows that are not there, or see nothing, are 2**-127, which counts as 0.
_NOTHING = np.float32(1e30)


@cache
def _kernel(precision: str) -> Any:
    kind = operands(precision, False)
    pack, copy, transpose, unpack = pack_queries(kind), copy_keys(kind), transpose_values(kind), unpack_rows(kind)
    multiply, write = product_tiles(kind), write_rows(kind)

    @simd.leaf
    def block(start, count, rows, whole, dim, scale, q_panels, d_panels, q_rows, d_rows, key_rows, value_rows, columns,
              scores, products, weight_rows, gradient_rows, dq, dk, dv, lows, highs, bases, sums):  # fmt: skip
        lines_out = (dim + HEIGHT - 1) // HEIGHT * HEIGHT
        for begin in range(0, whole, _QUERIES):
            first_column, column = -1, 0
            for first in range(begin, min(begin + _QUERIES, whole), PANEL):
                last = first + PANEL - 1
                lines = min(count, np.int64(highs[last]) - start)
                if lines <= 0 or start + count <= lows[first]:
                    continue
                if first_column < 0:
                    first_column = first
                column = first - first_column
                multiply(q_panels, first * dim, key_rows, lines, dim, scores, 0, 1, q_rows, 0, 0, 0)
                multiply(d_panels, first * dim, value_rows, lines, dim, products, 0, 1, q_rows, 0, 0, 0)
                if lows[last] > start or highs[first] < start + lines:
                    hide(scores, lines, start, lows, highs, first)
                score_gradients(scores, products, lines, count, scale, first, bases, sums, weight_rows, gradient_rows,
                                column)  # fmt: skip
                multiply(scores, 0, columns, dim, (lines + 1) // 2 * 2, dq, first * lines_out, 0, q_rows, 0, 0, 0)
            if first_column >= 0:
                for d in range(0, dim, PANEL):
                    at = d * whole + first_column * PANEL
                    multiply(d_rows, at, weight_rows, count, column + PANEL, dv, d * KEYS, 0, q_rows, 0, 0, 0)
                    multiply(q_rows, at, gradient_rows, count, column + PANEL, dk, d * KEYS, 0, q_rows, 0, 0, 0)

    @simd.leaf
    def task(b, kv_head, q, k, v, out, dout, lse, dq, dk, dv, query_offsets, key_offsets, q_heads, kv_heads, dim,
             causal, window, scale, q_panels, d_panels, q_rows, d_rows, key_rows, value_rows, columns, scores, products,
             weight_rows, gradient_rows, dq_sum, dk_sum, dv_sum, lows, highs, bases, sums, factors, tile):  # fmt: skip
        row, rows = query_offsets[b], query_offsets[b + 1] - query_offsets[b]
        keys = key_offsets[b + 1] - key_offsets[b]
        whole = (rows + PANEL - 1) // PANEL * PANEL
        wide = (dim + PANEL - 1) // PANEL * PANEL
        lines_out = (dim + HEIGHT - 1) // HEIGHT * HEIGHT
        zeros = simd.full(0.0, np.float32)
        group, blocks = q_heads // kv_heads, (keys + KEYS - 1) // KEYS
        for i in range(0, blocks * KEYS * wide, _LANES):
            simd.store(dk_sum, i, zeros)
            simd.store(dv_sum, i, zeros)
        visible(0, rows, rows, keys, causal, window, lows, highs)
        for r in range(whole):
            factors[r], sums[r] = scale, np.float32(0.0)
        for head in range(kv_head * group, (kv_head + 1) * group):
            at, stride = (row * q_heads + head) * dim, q_heads * dim
            pack(q, at, stride, rows, dim, q_panels, tile)
            pack(dout, at, stride, rows, dim, d_panels, tile)
            lay_out_rows(q, at, stride, rows, whole, dim, q_rows)
            lay_out_rows(dout, at, stride, rows, whole, dim, d_rows)
            row_products(out, dout, at, stride, rows, dim, sums)
            for r in range(whole):
                seen = r < rows and highs[r] > lows[r]
                bases[r] = lse[row + r, head] * np.float32(_LOG2_E) if seen else _NOTHING
            for i in range(0, whole * lines_out, _LANES):
                simd.store(dq_sum, i, zeros)
            for start in range(0, keys, KEYS):
                count = min(KEYS, keys - start)
                place = ((key_offsets[b] + start) * kv_heads + kv_head) * dim
                copy(k, place, kv_heads * dim, count, dim, key_rows)
                copy(v, place, kv_heads * dim, count, dim, value_rows)
                transpose(k, place, kv_heads * dim, count, dim, columns, tile)
                part = slice(start * wide, (start + KEYS) * wide)
                block(start, count, rows, whole, dim, scale * np.float32(_LOG2_E), q_panels, d_panels, q_rows, d_rows,
                      key_rows, value_rows, columns.reshape(-1), scores, products, weight_rows, gradient_rows, dq_sum,
                      dk_sum[part], dv_sum[part], lows, highs, bases, sums)  # fmt: skip
            unpack(dq_sum, lines_out, factors, rows, dim, dq, at, stride, tile)
        for start in range(0, keys, KEYS):
            count = min(KEYS, keys - start)
            place = ((key_offsets[b] + start) * kv_heads + kv_head) * dim
            write(dk_sum, start * wide, KEYS, count, dim, scale, dk, place, kv_heads * dim)
            write(dv_sum, start * wide, KEYS, count, dim, np.float32(1.0), dv, place, kv_heads * dim)

    @njit(parallel=True, error_model="numpy")
    def backward(counter, tasks, q, k, v, out, dout, lse, dq, dk, dv, query_offsets, key_offsets, q_heads, kv_heads,
                 dim, causal, window, scale, panels, blocks, columns, dq_sum, sums, bounds, numbers,
                 tiles):  # fmt: skip
        counter[0] = 0
        for t in prange(panels.shape[0]):
            i = simd.take_next(counter)
            while i < tasks.shape[0]:
                task(tasks[i, 0], tasks[i, 1], q, k, v, out, dout, lse, dq, dk, dv, query_offsets, key_offsets, q_heads,
                     kv_heads, dim, causal, window, scale, panels[t, 0], panels[t, 1], panels[t, 2], panels[t, 3],
                     blocks[t, 0], blocks[t, 1], columns[t], blocks[t, 2], blocks[t, 3], blocks[t, 4], blocks[t, 5],
                     dq_sum[t], sums[t, 0], sums[t, 1], bounds[t, 0], bounds[t, 1], numbers[t, 0], numbers[t, 1],
                     numbers[t, 2], tiles[t])  # fmt: skip
                i = simd.take_next(counter)

    return backward


@implementation("attention.prefill_backward", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """All buffers are made here, for the longest sequence."""
    w, arrays = inputs.workload, inputs.arrays
    assert isinstance(w, AttentionPrefillBackward)
    threads = get_num_threads()
    query_offsets, key_offsets = (arrays[name].astype(np.int64) for name in ("query_offsets", "key_offsets"))
    tasks = np.unique(list_tasks(w, query_offsets, key_offsets, w.length)[:, :2] // (1, w.group), axis=0)
    order = np.argsort(-np.diff(query_offsets)[tasks[:, 0]], kind="stable")
    whole, wide = -(-w.length // PANEL) * PANEL, -(-w.head_dim // PANEL) * PANEL
    lines = -(-w.head_dim // HEIGHT) * HEIGHT
    padded_keys = -(-(w.length + w.prefix) // KEYS) * KEYS

    def zeros(*shape: int) -> Any:
        array = simd.aligned_empty((threads, *shape), np.float32)
        array[...] = 0
        return array

    found = {f"d{name}": simd.aligned_empty(arrays[name].shape, arrays[name].dtype) for name in ("q", "k", "v")}
    buffers = (
        zeros(4, whole * wide + PANEL * _LANES),
        zeros(6, (KEYS + HEIGHT) * PITCH),
        zeros(lines + _LANES, PITCH),
        zeros(whole * lines + PANEL * _LANES),
        zeros(2, padded_keys * wide),
        np.zeros((threads, 2, whole), np.int32),
        zeros(3, whole),
        np.stack([scratch_tile(np.float32)] * threads),
    )
    flat = [arrays[name].reshape(-1) for name in ("q", "k", "v", "out", "dout")]
    gradients = [found[name].reshape(-1) for name in ("dq", "dk", "dv")]
    numbers = (w.q_heads, w.kv_heads, w.head_dim, w.causal, w.window, np.float32(w.scale))
    counter, kernel = np.zeros(1, np.int64), _kernel(w.precision)

    def run() -> None:
        kernel(counter, tasks[order], *flat, arrays["lse"], *gradients, query_offsets, key_offsets, *numbers, *buffers)

    def output() -> Arrays:
        return {name: widen(array) for name, array in found.items()}

    return Prepared(run, output)
