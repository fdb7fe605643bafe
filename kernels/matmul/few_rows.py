"""Products of weights with so few rows that reading the weights is all the work: dot products along their rows."""

from __future__ import annotations

from functools import cache
from typing import Any

from .. import simd
from .operands import Operands
from .tiles import dot_tile

FEW = 8
"""Activation rows up to which this beats panels, whose vectors would be half empty."""
ROWS = 1
"""Weight rows of a tile: one stream from memory is faster than several whose rows lie a page apart."""


@cache
def dot_function(kind: Operands) -> Any:
    """Return ``multiply(w, row, count, x, first, rows, length, out, to, stride)``.

    Weight rows ``row`` to ``row + count``, at least `ROWS`, times activation rows ``first`` to ``first + rows``: the
    product of rows t and r goes to ``out[to + t * stride + r]``. ``w``, ``x`` and ``out`` are flat; ``w`` and ``x`` as
    stored, ``length`` elements per row.
    """
    four, one = dot_tile(ROWS, 4, kind.pairs), dot_tile(ROWS, 1, kind.pairs)

    @simd.leaf
    def multiply(
        w: Any, row: int, count: int, x: Any, first: int, rows: int, length: int, out: Any, to: int, stride: int
    ) -> None:
        for start in range(0, count, ROWS):
            # The last tile may do again what the one before it did.
            r = min(start, count - ROWS)
            at, t = (row + r) * length, 0
            while t < rows:
                if t + 4 <= rows:
                    four(w, at, x, (first + t) * length, length, out, to + t * stride + r, stride)
                    t += 4
                else:
                    one(w, at, x, (first + t) * length, length, out, to + t * stride + r, stride)
                    t += 1

    return multiply
