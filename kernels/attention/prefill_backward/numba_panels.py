"""The pieces of the backward pass: rows with the head's numbers as lanes, and the gradient of a panel of scores."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ... import simd
from ...matmul.operands import Operands
from ...matmul.panels import PANEL
from ...matmul.tiles import PITCH

_LANES = simd.LANES
_LEAST = np.float32(-127.0)
_ZERO = np.float32(0.0)


@simd.leaf
def lay_out_rows(x: Any, at: int, stride: int, rows: int, whole: int, dim: int, panels: Any) -> None:
    """Write rows to panels of `PANEL` numbers of the head, ``whole`` lines each; zeros where there is nothing."""
    for start in range(0, dim, PANEL):
        for r in range(whole):
            for v in range(0, PANEL, _LANES):
                mask = simd.first_lanes(dim - start - v if r < rows else 0)
                lanes = simd.load_f32_masked(x, at + r * stride + start + v, mask, _ZERO)
                simd.store(panels, start * whole + r * PANEL + v, lanes)


@cache
def write_rows(kind: Operands) -> Any:
    """Return ``write(panels, lines, count, dim, factor, out, at, stride)``, the way back, times a factor."""
    put = kind.write

    @simd.leaf
    def write(panels: Any, base: int, lines: int, count: int, dim: int, factor: Any, out: Any, at: int,
              stride: int) -> None:  # fmt: skip
        for start in range(0, dim, PANEL):
            for r in range(count):
                for v in range(0, PANEL, _LANES):
                    lanes = simd.load(panels, base + start * lines + r * PANEL + v) * factor
                    put(out, at + r * stride + start + v, lanes, simd.first_lanes(dim - start - v))

    return write


@simd.leaf
def row_products(x: Any, y: Any, at: int, stride: int, rows: int, dim: int, sums: Any) -> None:
    """Write the inner products of the rows of two arrays."""
    for r in range(rows):
        total = simd.full(0.0, np.float32)
        for d in range(0, dim, _LANES):
            mask = simd.first_lanes(dim - d)
            place = at + r * stride + d
            total = simd.fma(
                simd.load_f32_masked(x, place, mask, _ZERO), simd.load_f32_masked(y, place, mask, _ZERO), total
            )
        sums[r] = simd.sum_lanes(total)


@simd.leaf
def score_gradients(
    scores: Any, products: Any, lines: int, count: int, scale: Any, first: int, bases: Any, sums: Any, weight_rows: Any,
    gradient_rows: Any, column: int,
) -> None:  # fmt: skip
    """Turn scores into their gradients, in place and as rows; the weights as rows too. Lines from ``lines`` on are 0.

    ``products``: dout times values; ``bases``: log-sum-exp in powers of two; ``sums``: those of dout times out.
    """
    for v in range(0, PANEL, _LANES):
        base, total = simd.load(bases, first + v), simd.load(sums, first + v)
        for line in range(lines):
            at, to = line * PANEL + v, line * PITCH + column + v
            p = simd.exp2_in_range(simd.maximum(_LEAST, simd.fma(simd.load(scores, at), scale, -base)))
            ds = p * (simd.load(products, at) - total)
            simd.store(scores, at, ds)
            simd.store(weight_rows, to, p)
            simd.store(gradient_rows, to, ds)
        zeros = simd.full(0.0, np.float32)
        simd.store(scores, lines * PANEL + v, zeros)
        for line in range(lines, count):
            to = line * PITCH + column + v
            simd.store(weight_rows, to, zeros)
            simd.store(gradient_rows, to, zeros)
