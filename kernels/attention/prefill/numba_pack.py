"""Bring queries, keys and values into the order in which register tiles read them.

Queries are the columns of every product: a panel holds `PANEL` of them, one line per number of the head, so that a
vector holds the same number of `LANES` queries. Keys and values are the broadcast side, one row per key, or per number
of the head: values are transposed. With pairs of bf16 an element is a pair along the summed axis.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ... import simd
from ...matmul.operands import Operands
from ...matmul.panels import PANEL
from ...matmul.tiles import PITCH

_LANES = simd.LANES


@cache
def pack_queries(kind: Operands) -> Any:
    """Return ``pack(q, at, stride, rows, length, panels, tile)``: rows every ``stride`` elements to panels."""
    read = kind.read

    @simd.leaf
    def pack(q: Any, at: int, stride: int, rows: int, length: int, panels: Any, tile: Any) -> None:
        for panel in range((rows + PANEL - 1) // PANEL):
            start = panel * PANEL * length
            lines = panels[start : start + length * PANEL].reshape((length, PANEL))
            for column in range(0, PANEL, _LANES):
                row = panel * PANEL + column
                for k in range(0, length, _LANES):
                    inside = simd.first_lanes(length - k)
                    for r in range(_LANES):
                        # A row that is not there counts as zeros.
                        mask = inside & simd.first_lanes((rows - row - r) * _LANES)
                        simd.store(tile, (r, 0), read(q, at + min(row + r, rows - 1) * stride + k, mask))
                    simd.transpose_tile(tile, (0, 0), lines, (k, column))

    return pack


@cache
def copy_keys(kind: Operands) -> Any:
    """Return ``copy(k, at, stride, count, length, rows)``: keys to the rows of a block, `PITCH` apart."""
    read = kind.read

    @simd.leaf
    def copy(k: Any, at: int, stride: int, count: int, length: int, rows: Any) -> None:
        for key in range(count):
            for d in range(0, length, _LANES):
                simd.store(rows, key * PITCH + d, read(k, at + key * stride + d, simd.first_lanes(length - d)))

    return copy


@cache
def transpose_values(kind: Operands) -> Any:
    """Return ``transpose(v, at, stride, count, dim, columns, tile)``.

    ``v`` holds values as stored. ``columns[d, j]`` is number d of value j, or with pairs of the values 2j and 2j + 1;
    values from ``count`` on count as zeros up to a whole tile.
    """
    if kind.pairs:

        @simd.inlined
        def read(v: Any, at: int, stride: int, row: int, count: int, d: int) -> Any:
            zero = np.uint16(0)
            low = simd.load_masked(v, at + 2 * row * stride + d, simd.first_lanes((count - 2 * row) * _LANES), zero)
            high_mask = simd.first_lanes((count - 2 * row - 1) * _LANES)
            high = simd.load_masked(v, at + (2 * row + 1) * stride + d, high_mask, zero)
            return simd.convert(low, np.uint32) | (simd.convert(high, np.uint32) << np.uint32(16))
    else:

        @simd.inlined
        def read(v: Any, at: int, stride: int, row: int, count: int, d: int) -> Any:
            mask = simd.first_lanes((count - row) * _LANES)
            return simd.load_f32_masked(v, at + row * stride + d, mask, np.float32(0.0))

    per_row = 2 if kind.pairs else 1

    @simd.leaf
    def transpose(v: Any, at: int, stride: int, count: int, dim: int, columns: Any, tile: Any) -> None:
        for row in range(0, (count + per_row - 1) // per_row, _LANES):
            for d in range(0, dim, _LANES):
                for r in range(_LANES):
                    simd.store(tile, (r, 0), read(v, at, stride, row + r, count, d))
                simd.transpose_tile(tile, (0, 0), columns, (d, row))

    return transpose


@cache
def unpack_rows(kind: Operands) -> Any:
    """Return ``unpack(panels, lines, factors, rows, dim, out, at, stride, tile)``.

    Stores the first ``dim`` lines of panels of ``lines`` lines, times a factor per query, as rows every ``stride``
    elements, in the storage precision.
    """
    write = kind.write

    @simd.leaf
    def unpack(
        panels: Any, lines: int, factors: Any, rows: int, dim: int, out: Any, at: int, stride: int, tile: Any
    ) -> None:
        for panel in range((rows + PANEL - 1) // PANEL):
            start = panel * PANEL * lines
            product = panels[start : start + lines * PANEL].reshape((lines, PANEL))
            for column in range(0, PANEL, _LANES):
                row = panel * PANEL + column
                factor = simd.load(factors, row)
                for d in range(0, dim, _LANES):
                    for r in range(_LANES):
                        simd.store(product, (d + r, column), simd.load(product, (d + r, column)) * factor)
                    simd.transpose_tile(product, (d, column), tile, (0, 0))
                    for r in range(min(_LANES, rows - row)):
                        mask = simd.first_lanes(dim - d)
                        write(out, at + (row + r) * stride + d, simd.load(tile, (r, 0)), mask)

    return unpack
