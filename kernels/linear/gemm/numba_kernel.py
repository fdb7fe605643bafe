"""Equal shares of the product on all cores: register tiles over packed panels, or dot products where rows are few."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from ... import simd
from ...contract import Inputs, Prepared
from ...matmul.few_rows import FEW, ROWS, dot_function
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
from .operator import Gemm

_LANES = simd.LANES
# Weight rows that few activation rows are multiplied with at a time.
_FEW_UNIT = 32
# Weight rows of a task: a product of so many lines by CHUNK rows stays in the L2 cache beside the panels.
_ROWS = 32 * HEIGHT


@cache
def _panel_kernel(kind: Operands) -> Any:
    pack, multiply, unpack = pack_function(kind), multiply_function(kind), unpack_function(kind)

    @simd.leaf
    def share(unit, stop, x, w, y, chunk, tall, panels, block, product, tile, packed_tile):
        tokens, length = x.shape
        packed = -1
        while unit < stop:
            c, line = unit // tall, unit % tall
            number = min(stop - unit, tall - line, _ROWS // HEIGHT)
            first, row = c * chunk, line * HEIGHT
            rows, count = min(chunk, tokens - first), min(number * HEIGHT, w.shape[0] - row)
            if packed != c:
                pack(x, first, rows, panels, packed_tile)
                packed = c
            multiply(panels, length * PANEL, rows, w, row, count, block, product, number * HEIGHT)
            unpack(product, number * HEIGHT, rows, count, y, first, row, tile)
            unit += number

    @njit(parallel=True)
    def gemm(x, w, y, chunk, panels, blocks, products, tiles, packed_tiles):
        # Units of one chunk by one tile's weight rows, the chunk outermost, in equal ranges per thread.
        tall = (w.shape[0] + HEIGHT - 1) // HEIGHT
        units, threads = (x.shape[0] + chunk - 1) // chunk * tall, panels.shape[0]
        for t in prange(threads):
            share(units * t // threads, units * (t + 1) // threads, x, w, y, chunk, tall, panels[t], blocks[t],
                  products[t], tiles[t], packed_tiles[t])  # fmt: skip

    return gemm


@cache
def _few_rows_kernel(kind: Operands) -> Any:
    multiply, write = dot_function(kind), kind.write

    @simd.leaf
    def share(start, stop, x, w, y, product):
        flat_x, flat_w, length = x.reshape(-1), w.reshape(-1), w.shape[1]
        for row in range(start, stop, _FEW_UNIT):
            count = min(_FEW_UNIT, stop - row)
            # A tile of few weight rows begins earlier and does some again; only this share's are written.
            back = max(0, ROWS - count)
            multiply(flat_w, row - back, count + back, flat_x, 0, x.shape[0], length, product, 0, 2 * _FEW_UNIT)
            for t in range(x.shape[0]):
                for n in range(0, count, _LANES):
                    lanes = simd.load(product, t * 2 * _FEW_UNIT + back + n)
                    write(y, (t, row + n), lanes, simd.first_lanes(count - n))

    @njit(parallel=True)
    def few_rows(x, w, y, products):
        threads, outputs = products.shape[0], w.shape[0]
        for t in prange(threads):
            share(outputs * t // threads, outputs * (t + 1) // threads, x, w, y, products[t])

    return few_rows


def even_chunk(rows: int) -> int:
    """Return into how large chunks to cut rows so that all are nearly equal and made of whole vectors."""
    chunks = -(-rows // CHUNK)
    return -(-rows // (chunks * _LANES)) * _LANES


@implementation("linear.gemm", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """All buffers are made here; packing is part of the run."""
    w = inputs.workload
    assert isinstance(w, Gemm)
    kind, threads = operands(w.precision), get_num_threads()
    x, weight = inputs.arrays["x"], inputs.arrays["weight"]
    y = simd.aligned_empty((w.tokens, w.out_features), np.uint16 if w.precision == "bf16" else np.float32)
    # The first share has to hold a whole tile.
    if w.tokens <= FEW and w.out_features >= ROWS * threads:
        products = np.zeros((threads, 2 * FEW * _FEW_UNIT + _LANES), np.float32)
        few_rows = _few_rows_kernel(kind)
        return Prepared(lambda: few_rows(x, weight, y, products), lambda: {"y": widen(y)})
    x, weight = kind.view(x), kind.view(weight)
    chunk = even_chunk(w.tokens)
    arguments = (
        x,
        weight,
        y,
        chunk,
        simd.aligned_empty((threads, panel_elements(chunk, x.shape[1])), kind.element),
        np.stack([weight_block(kind.element)] * threads),
        simd.aligned_empty((threads, panel_elements(chunk, padded_lines(_ROWS))), np.float32),
        np.stack([scratch_tile(np.float32)] * threads),
        np.stack([scratch_tile(kind.element)] * threads),
    )
    kernel = _panel_kernel(kind)
    return Prepared(lambda: kernel(*arguments), lambda: {"y": widen(y)})
