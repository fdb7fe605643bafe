"""Products of weights with many rows, blocked for the caches.

Rows of activations are the columns of the product here: they are packed into panels of ``WIDTH * LANES`` rows, summed
index first, so that a vector holds one element of as many rows; rows that are left fill a panel of one vector if they
fit. Weights are read once, row after row as they are stored: a block of `HEIGHT` rows is copied to where its rows do
not compete for the same sets of the L1 cache, and serves all panels while the next block is asked for. The product
stands in panels too, one line per weight row, so that it can be the packed input of another product.

A panel of ``length`` lines begins every ``length * PANEL`` elements; only the last may be narrow.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .. import simd
from .operands import Operands
from .tiles import BLOCK, HEIGHT, PITCH, WIDTH, panel_tile

_LANES = simd.LANES
PANEL = WIDTH * _LANES
"""Activation rows of a full panel."""
CHUNK = 4 * PANEL
"""Activation rows that are multiplied at a time: they amortise the copy of a weight block and fit the L2 cache."""
SLACK = PANEL * _LANES
"""Elements that a buffer of panels needs beyond its panels: the last vectors of a panel are written whole."""


def panel_elements(rows: int, lines: int) -> int:
    """Return how many elements a buffer needs for the panels of so many activation rows."""
    return -(-rows // PANEL) * PANEL * lines + SLACK


def padded_lines(weight_rows: int) -> int:
    """Return the lines of the panels of a product: whole tiles."""
    return -(-weight_rows // HEIGHT) * HEIGHT


def weight_block(element: Any) -> Any:
    """Return a buffer for a block of weights."""
    block = simd.aligned_empty((HEIGHT, PITCH), element)
    block[:] = 0
    return block


def scratch_tile(element: Any) -> Any:
    """Return a buffer in which a tile is transposed."""
    return simd.aligned_empty((_LANES, _LANES), element)


@simd.inlined
def panel_width(rows: int, panel: int) -> int:
    """Return the rows that a panel of so many rows in all has room for."""
    left = rows - panel * PANEL
    return _LANES if left <= _LANES else PANEL


@cache
def pack_function(kind: Operands) -> Any:
    """Return ``pack(x, first, rows, panels, tile)``: rows of ``x [m, k]`` from ``first`` on into panels of k lines."""
    read = kind.read

    @simd.leaf
    def pack(x: Any, first: int, rows: int, panels: Any, tile: Any) -> None:
        length = x.shape[1]
        for panel in range((rows + PANEL - 1) // PANEL):
            width = panel_width(rows, panel)
            start = panel * PANEL * length
            lines = panels[start : start + length * width].reshape((length, width))
            for column in range(0, width, _LANES):
                row = panel * PANEL + column
                for k in range(0, length, _LANES):
                    inside = simd.first_lanes(length - k)
                    for r in range(_LANES):
                        # A row that is not there counts as zeros.
                        mask = inside & simd.first_lanes((rows - row - r) * _LANES)
                        simd.store(tile, (r, 0), read(x, (first + min(row + r, rows - 1), k), mask))
                    simd.transpose_tile(tile, (0, 0), lines, (k, column))

    return pack


@cache
def multiply_function(kind: Operands) -> Any:
    """Return ``multiply(panels, pitch, rows, w, first, count, block, out, out_lines)``.

    Panels of ``rows`` activation rows, one every ``pitch`` elements, times the weight rows ``w[first]`` to
    ``w[first + count]``; the product's panels have ``out_lines`` lines, at least `padded_lines` of ``count``.
    """
    read = kind.read
    wide, narrow = panel_tile(WIDTH, kind.pairs), panel_tile(1, kind.pairs)

    @simd.leaf
    def copy(w: Any, row: int, rows: int, start: int, length: int, block: Any) -> None:
        for r in range(rows):
            for k in range(0, length, _LANES):
                simd.store(block, (r, k), read(w, (row + r, start + k), simd.first_lanes(length - k)))

    @simd.leaf
    def multiply(
        panels: Any, pitch: int, rows: int, w: Any, first: int, count: int, block: Any, out: Any,
        out_lines: int,
    ) -> None:  # fmt: skip
        number = (rows + PANEL - 1) // PANEL
        length = w.shape[1]
        asked = (HEIGHT + number - 1) // number
        flat, flat_block = w.reshape(-1), block.reshape(-1)
        for start in range(0, length, BLOCK):
            part = min(BLOCK, length - start)
            for row in range(0, count, HEIGHT):
                copy(w, first + row, min(HEIGHT, count - row), start, part, block)
                for panel in range(number):
                    ahead = (first + row + HEIGHT + panel * asked) * length + start
                    at, to = panel * pitch, panel * PANEL * out_lines
                    if panel_width(rows, panel) == PANEL:
                        wide(panels, at + start * PANEL, flat_block, part, out, to + row * PANEL,
                             np.int64(start == 0), flat, ahead, length, asked)  # fmt: skip
                    else:
                        narrow(panels, at + start * _LANES, flat_block, part, out, to + row * _LANES,
                               np.int64(start == 0), flat, ahead, length, asked)  # fmt: skip

    return multiply


@cache
def unpack_function(kind: Operands) -> Any:
    """Return ``unpack(panels, lines, rows, count, y, first, column, tile)``: the first ``count`` lines of a product's
    panels to ``y[first : first + rows, column : column + count]``, in the storage precision.
    """
    write = kind.write

    @simd.leaf
    def unpack(panels: Any, lines: int, rows: int, count: int, y: Any, first: int, column: int, tile: Any) -> None:
        for panel in range((rows + PANEL - 1) // PANEL):
            width = panel_width(rows, panel)
            start = panel * PANEL * lines
            product = panels[start : start + lines * width].reshape((lines, width))
            for at in range(0, width, _LANES):
                row = panel * PANEL + at
                for n in range(0, count, _LANES):
                    simd.transpose_tile(product, (n, at), tile, (0, 0))
                    for r in range(min(_LANES, rows - row)):
                        lanes = simd.load(tile, (r, 0))
                        write(y, (first + row + r, column + n), lanes, simd.first_lanes(count - n))

    return unpack
