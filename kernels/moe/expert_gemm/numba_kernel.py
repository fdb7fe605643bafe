"""Experts on all cores: packed panels where an expert has many rows, dot products where reading it is all the work.

A piece of an expert with many rows is done from its rows to its results by one thread: the first product stays in the
thread's panels, the activation turns them into the input of the second. Experts with few rows are done together, in
equal shares of their weights per thread, first all first products and then all second ones.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from ... import simd
from ...contract import Arrays, Inputs, Prepared
from ...matmul.few_rows import FEW, dot_function
from ...matmul.operands import Operands, operands
from ...matmul.panels import (
    CHUNK,
    PANEL,
    multiply_function,
    pack_function,
    padded_lines,
    panel_elements,
    scratch_tile,
    unpack_function,
    weight_block,
)
from ...matmul.tiles import HEIGHT
from ...precision import widen
from ...registry import implementation
from .numba_activation import panel_activation, row_activation
from .numba_plan import most_tasks, plan
from .operator import ExpertGemm, check_counts

# Rows of the second matrix that are multiplied at a time: their product stays in the L2 cache.
_OUT_ROWS = 32 * HEIGHT
# Weight rows of a unit of an expert with few rows; a multiple of the lanes.
_UNIT = 32


@cache
def _many_rows_kernel(kind: Operands) -> Any:
    pack, multiply, unpack = pack_function(kind), multiply_function(kind), unpack_function(kind)
    activate = panel_activation(kind)

    @simd.leaf
    def piece(e, first, rows, x, w_in, w_out, y, gated, panels, block, hidden, packed, product, tile, packed_tile):
        out_rows = y.shape[1]
        in_rows = w_in.shape[0] // (w_out.shape[0] // out_rows)
        in_lines = (in_rows + HEIGHT - 1) // HEIGHT * HEIGHT
        pack(x, first, rows, panels, packed_tile)
        # The first product, then parts of the second: one loop, so that `multiply` is compiled once.
        for stage in range(1 + (out_rows + _OUT_ROWS - 1) // _OUT_ROWS):
            column = (stage - 1) * _OUT_ROWS
            if stage == 0:
                source, source_lines, target, lines = panels, x.shape[1], hidden, in_lines
                w, row, count = w_in, e * in_rows, in_rows
            else:
                source, source_lines, target, lines = packed, in_lines, product, _OUT_ROWS
                w, row, count = w_out, e * out_rows + column, min(_OUT_ROWS, out_rows - column)
            multiply(source, source_lines * PANEL, rows, w, row, count, block, target, lines)
            if stage == 0:
                activate(hidden, packed, lines, rows, in_rows // 2 if gated else in_rows, gated)
            else:
                unpack(product, lines, rows, count, y, first, column, tile)

    @simd.leaf
    def share(start, stop, tasks, number, weight, x, w_in, w_out, y, gated, panels, block, hidden, packed, product,
              tile, packed_tile):  # fmt: skip
        for i in range(number):
            # The thread in whose share of the weight the piece has its middle.
            after = tasks[i + 1, 3] if i + 1 < number else weight
            if start <= (tasks[i, 3] + after) // 2 < stop:
                piece(tasks[i, 0], tasks[i, 1], tasks[i, 2], x, w_in, w_out, y, gated, panels, block, hidden, packed,
                      product, tile, packed_tile)  # fmt: skip

    @njit(parallel=True)
    def many_rows(tasks, number, weight, x, w_in, w_out, y, gated, panels, blocks, hidden, packed, products, tiles,
                  packed_tiles):  # fmt: skip
        threads = panels.shape[0]
        for t in prange(threads):
            share(weight * t // threads, weight * (t + 1) // threads, tasks, number, weight, x, w_in, w_out, y, gated,
                  panels[t], blocks[t], hidden[t], packed[t], products[t], tiles[t], packed_tiles[t])  # fmt: skip

    return many_rows


@cache
def _few_rows_kernel(kind: Operands) -> Any:
    multiply, activate, write = dot_function(kind), row_activation(kind), kind.write

    @simd.leaf
    def first_product(start, stop, units, few, x, w_in, in_rows, h, gated, product):
        width, inter, up = x.shape[1], h.shape[1], _UNIT if gated else 0
        flat_w, flat_x = w_in.reshape(-1), x.reshape(-1)
        for unit in range(start, stop):
            i, column = unit // units, unit % units * _UNIT
            first, rows = few[i, 1], few[i, 2]
            count = min(_UNIT, inter - column)
            for half in range(2 if gated else 1):
                row = few[i, 0] * in_rows + half * inter + column
                multiply(flat_w, row, count, flat_x, first, rows, width, product, half * _UNIT, 2 * _UNIT)
            activate(product, 2 * _UNIT, up, rows, count, h, few[i, 3], column)

    @simd.leaf
    def second_product(start, stop, units, few, h, w_out, y, product):
        inter, out_rows = h.shape[1], y.shape[1]
        flat_w, flat_h = w_out.reshape(-1), h.reshape(-1)
        for unit in range(start, stop):
            i, column = unit // units, unit % units * _UNIT
            first, rows, at = few[i, 1], few[i, 2], few[i, 3]
            count = min(_UNIT, out_rows - column)
            multiply(flat_w, few[i, 0] * out_rows + column, count, flat_h, at, rows, inter, product, 0, 2 * _UNIT)
            for t in range(rows):
                for n in range(0, count, simd.LANES):
                    lanes = simd.load(product, t * 2 * _UNIT + n)
                    write(y, (first + t, column + n), lanes, simd.first_lanes(count - n))

    @njit(parallel=True)
    def few_rows(few, number, x, w_in, w_out, h, y, in_rows, gated, products):
        threads = products.shape[0]
        units = (h.shape[1] + _UNIT - 1) // _UNIT
        for t in prange(threads):
            start, stop = units * number * t // threads, units * number * (t + 1) // threads
            first_product(start, stop, units, few, x, w_in, in_rows, h, gated, products[t])
        out_units = (y.shape[1] + _UNIT - 1) // _UNIT
        for t in prange(threads):
            start, stop = out_units * number * t // threads, out_units * number * (t + 1) // threads
            second_product(start, stop, out_units, few, h, w_out, y, products[t])

    return few_rows


def bind(w: ExpertGemm, counts: Any, x: Any, w_in: Any, w_out: Any) -> tuple[Any, Any]:
    """Return what does the work on given arrays, and the ``y`` that it fills; all buffers are made here.

    The plan, from the counts, is part of the run.
    """
    kind, threads = operands(w.precision), get_num_threads()
    w_in, w_out = w_in.reshape(-1, w.hidden), w_out.reshape(-1, w.inter)
    y = simd.aligned_empty((w.slots, w.hidden), x.dtype)
    views = [kind.view(array) for array in (x, w_in, w_out)]

    tasks = np.zeros((most_tasks(w.slots, w.experts), 4), np.int64)
    few = np.zeros((w.experts, 4), np.int64)
    rows = -(-min(CHUNK, w.slots) // simd.LANES) * simd.LANES
    hidden = simd.aligned_empty((threads, panel_elements(rows, padded_lines(w.in_rows))), np.float32)
    many_buffers = (
        simd.aligned_empty((threads, panel_elements(rows, views[0].shape[1])), kind.element),
        np.stack([weight_block(kind.element)] * threads),
        hidden,
        hidden.view(kind.element),
        simd.aligned_empty((threads, panel_elements(rows, _OUT_ROWS)), np.float32),
        np.stack([scratch_tile(np.float32)] * threads),
        np.stack([scratch_tile(kind.element)] * threads),
    )
    h = simd.aligned_empty((min(w.slots, FEW * w.experts), w.inter), x.dtype)
    products = np.zeros((threads, FEW * 2 * _UNIT), np.float32)
    many_rows, few_rows = _many_rows_kernel(kind), _few_rows_kernel(kind)

    def run() -> None:
        number, few_number, weight = plan(counts, threads, tasks, few)
        if number:
            many_rows(tasks, number, weight, *views, y, w.gated, *many_buffers)
        if few_number:
            few_rows(few, few_number, x, w_in, w_out, h, y, w.in_rows, w.gated, products)

    return run, y


@implementation("moe.expert_gemm", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """See `bind`."""
    w, arrays = inputs.workload, inputs.arrays
    assert isinstance(w, ExpertGemm)
    check_counts(inputs)
    run, y = bind(w, *(arrays[name] for name in ("counts", "x", "w_in", "w_out")))

    def output() -> Arrays:
        return {"y": widen(y)}

    return Prepared(run, output)
