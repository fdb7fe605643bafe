"""Products of hidden states with the weights, reduced to maxima and sums while a tile of them is in the cache.

Rows of hidden states are the lanes of the product's panels (`kernels/matmul/panels.py`), so that the running maximum
and sum of a row need nothing across lanes. Threads share the vocabulary; each keeps maxima and sums of its own.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import get_num_threads, njit, prange

from ... import simd
from ...matmul.operands import Operands, operands
from ...matmul.panels import (
    CHUNK,
    PANEL,
    multiply_function,
    pack_function,
    padded_lines,
    panel_elements,
    panel_width,
    scratch_tile,
    weight_block,
)
from ...matmul.tiles import HEIGHT

_LANES = simd.LANES
# Tokens of the vocabulary whose logits are held at a time, for CHUNK rows: they stay in the L2 cache.
_LINES = 16 * HEIGHT
_MINUS_INF = np.float32(-np.inf)


@simd.leaf
def _reduce(product: Any, lines: int, rows: int, count: int, scale: Any, tops: Any, totals: Any, at: int) -> None:
    """Take ``count`` lines of panels into the maxima and the sums of ``2**((x - maximum) scale)`` from ``at`` on."""
    for panel in range((rows + PANEL - 1) // PANEL):
        width = panel_width(rows, panel)
        start = panel * PANEL * lines
        for column in range(0, width, _LANES):
            row = at + panel * PANEL + column
            before = simd.load(tops, row)
            top = before
            for line in range(count):
                top = simd.maximum(simd.load(product, start + line * width + column), top)
            total = simd.load(totals, row) * simd.exp2((before - top) * scale)
            for line in range(count):
                total = total + simd.exp2((simd.load(product, start + line * width + column) - top) * scale)
            simd.store(tops, row, top)
            simd.store(totals, row, total)


@simd.leaf
def _choose(product: Any, lines: int, rows: int, first: int, count: int, token: Any, chosen: Any, at: int) -> None:
    """Take the logits of the wanted tokens that stand in the panels."""
    for r in range(rows):
        line = token[at + r] - first
        if 0 <= line < count:
            panel = r // PANEL
            width = panel_width(rows, panel)
            chosen[at + r] = product[panel * PANEL * lines + line * width + r % PANEL]


@cache
def _kernel(kind: Operands) -> Any:
    pack, multiply = pack_function(kind), multiply_function(kind)

    @simd.leaf
    def share(start, stop, hidden, weight, token, scale, tops, totals, chosen, panels, block, product, packed_tile):
        tokens, length = hidden.shape
        for first in range(0, tokens, CHUNK):
            rows = min(CHUNK, tokens - first)
            pack(hidden, first, rows, panels, packed_tile)
            for line in range(start, stop, _LINES):
                count = min(_LINES, stop - line)
                multiply(panels, length * PANEL, rows, weight, line, count, block, product, _LINES)
                _reduce(product, _LINES, rows, count, scale, tops, totals, first)
                _choose(product, _LINES, rows, line, count, token, chosen, first)

    @njit(parallel=True, error_model="numpy")
    def forward(hidden, weight, token, scale, tops, totals, chosen, panels, blocks, products, packed_tiles):
        threads = panels.shape[0]
        tall = (weight.shape[0] + HEIGHT - 1) // HEIGHT
        for t in prange(threads):
            tops[t, :] = _MINUS_INF
            totals[t, :] = np.float32(0.0)
            stop = min(tall * (t + 1) // threads * HEIGHT, weight.shape[0])
            share(tall * t // threads * HEIGHT, stop, hidden, weight, token, scale, tops[t], totals[t], chosen,
                  panels[t], blocks[t], products[t], packed_tiles[t])  # fmt: skip

    return forward


class Forward:
    """The maxima, sums and wanted logits of rows; ``weight[vocab, width]`` and ``hidden[rows, width]`` as stored.

    ``run`` fills ``top`` (fp32), ``total`` (float64: the sum of ``2**((x - top) scale)``) and ``chosen`` (fp32), all
    ``[rows]``. All buffers are made here.
    """

    def __init__(self, hidden: Any, weight: Any, token: Any, scale: np.float32, precision: str) -> None:
        kind, threads, rows = operands(precision), get_num_threads(), len(hidden)
        # The last vector of rows is worked on whole.
        lanes = -(-rows // PANEL) * PANEL
        chunk = min(CHUNK, lanes)
        self._scale = scale
        self._tops, self._totals = (simd.aligned_empty((threads, lanes), np.float32) for _ in range(2))
        self.top, self.chosen = np.empty(rows, np.float32), np.empty(rows, np.float32)
        self.total: npt.NDArray[np.float64] = np.empty(rows)
        views = kind.view(hidden), kind.view(weight)
        self._arguments = (
            *views,
            token,
            scale,
            self._tops,
            self._totals,
            self.chosen,
            simd.aligned_empty((threads, panel_elements(chunk, views[0].shape[1])), kind.element),
            np.stack([weight_block(kind.element)] * threads),
            simd.aligned_empty((threads, panel_elements(chunk, padded_lines(_LINES))), np.float32),
            np.stack([scratch_tile(kind.element)] * threads),
        )
        self._kernel = _kernel(kind)

    def run(self) -> None:
        """Work through the vocabulary once, and put the threads' parts together."""
        self._kernel(*self._arguments)
        rows = self.top.size
        tops, totals = self._tops[:, :rows], self._totals[:, :rows].astype(np.float64)
        tops.max(axis=0, out=self.top)
        with np.errstate(invalid="ignore"):
            np.sum(totals * 2.0 ** ((tops.astype(np.float64) - self.top) * self._scale), axis=0, out=self.total)
