"""The activation between the two products: in place in panels, and over a few rows."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ... import simd
from ...matmul.operands import Operands
from ...matmul.panels import PANEL, panel_width

_LANES = simd.LANES
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)


@simd.inlined
def swiglu(gate: Any, up: Any) -> Any:
    """Return ``silu(gate) * up``."""
    return gate * up / (simd.exp(-gate) + _ONE)


@simd.inlined
def relu_squared(x: Any) -> Any:
    """Return ``max(x, 0)**2``; NaN stays."""
    positive = simd.select(x < _ZERO, _ZERO, x)
    return positive * positive


@simd.inlined
def _hidden(product: Any, at: int, up: int) -> Any:
    """Activate the vector at ``at``, with its partner ``up`` elements on; 0 where there is no gate."""
    x = simd.load(product, at)
    return swiglu(x, simd.load(product, at + up)) if up > 0 else relu_squared(x)


@cache
def panel_activation(kind: Operands) -> Any:
    """Return ``activate(product, packed, lines, rows, inter, gated)``.

    Turns the panels of the first product, ``lines`` lines each, into those of the second one's input, which begin at
    the same places. ``packed`` is the memory of ``product`` as packed elements; a line is only written once it has been
    read.
    """
    if kind.pairs:

        @simd.leaf
        def activate(product: Any, packed: Any, lines: int, rows: int, inter: int, gated: bool) -> None:
            for panel in range((rows + PANEL - 1) // PANEL):
                width = panel_width(rows, panel)
                start = panel * PANEL * lines
                up = inter * width if gated else 0
                for i in range(0, inter, 2):
                    for v in range(0, width, _LANES):
                        at = start + i * width + v
                        low = simd.narrow_bf16(_hidden(product, at, up))
                        high = simd.narrow_bf16(_hidden(product, at + width, up))
                        pair = simd.convert(low, np.uint32) | (simd.convert(high, np.uint32) << np.uint32(16))
                        simd.store(packed, start + i // 2 * width + v, pair)

        return activate

    @simd.leaf
    def activate_f32(product: Any, packed: Any, lines: int, rows: int, inter: int, gated: bool) -> None:
        for panel in range((rows + PANEL - 1) // PANEL):
            width = panel_width(rows, panel)
            start = panel * PANEL * lines
            up = inter * width if gated else 0
            for at in range(start, start + inter * width, _LANES):
                simd.store(packed, at, _hidden(product, at, up))

    return activate_f32


@cache
def row_activation(kind: Operands) -> Any:
    """Return ``activate(product, stride, up, rows, count, h, first, column)``.

    Rows of the first product, one every ``stride`` elements with the partners of the gate ``up`` on, to
    ``h[first:, column : column + count]`` in the storage precision.
    """
    write = kind.write

    @simd.leaf
    def activate(product: Any, stride: int, up: int, rows: int, count: int, h: Any, first: int, column: int) -> None:
        for t in range(rows):
            for i in range(0, count, _LANES):
                lanes = _hidden(product, t * stride + i, up)
                write(h, (first + t, column + i), lanes, simd.first_lanes(count - i))

    return activate
