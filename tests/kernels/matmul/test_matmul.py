"""The shared matrix products: panels and few rows, in every way to multiply that this CPU has, against float64."""

from typing import Any

import numpy as np
import pytest
from roofcast.kernels import precision, simd
from roofcast.kernels.matmul.few_rows import ROWS, dot_function
from roofcast.kernels.matmul.operands import Operands, operands
from roofcast.kernels.matmul.panels import (
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
from roofcast.kernels.matmul.tiles import BLOCK, HEIGHT

KINDS = {"fp32": operands("fp32"), "bf16_widened": operands("bf16", pairs=False)}
if simd.has_bf16_dot():
    KINDS["bf16_pairs"] = operands("bf16", pairs=True)


def _draw(name: str, shape: tuple[int, int], seed: int) -> Any:
    values = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return precision.store(values, "bf16" if name.startswith("bf16") else "fp32")


def _product(x: Any, w: Any) -> Any:
    return precision.widen(x).astype(np.float64) @ precision.widen(w).astype(np.float64).T


def _by_panels(kind: Operands, x: Any, w: Any, rows: slice, weight_rows: slice) -> Any:
    """Multiply a range of rows of both into a larger output, of which nothing else may change."""
    view = kind.view(x)
    count, first = weight_rows.stop - weight_rows.start, rows.start
    number, lines = rows.stop - first, padded_lines(count)
    panels = simd.aligned_empty(panel_elements(number, view.shape[1]), kind.element)
    panels[:] = 0
    product = simd.aligned_empty(panel_elements(number, lines), np.float32)
    product[:] = np.nan  # never to be read
    y = np.full((x.shape[0], w.shape[0]), 7, np.float32 if x.dtype == np.float32 else np.uint16)
    pack_function(kind)(view, first, number, panels, scratch_tile(kind.element))
    block, pitch = weight_block(kind.element), view.shape[1] * PANEL
    multiply_function(kind)(panels, pitch, number, kind.view(w), weight_rows.start, count, block, product, lines)
    unpack_function(kind)(product, lines, number, count, y, first, weight_rows.start, scratch_tile(np.float32))
    changed = np.zeros(y.shape, bool)
    changed[rows, weight_rows] = True
    assert (y[~changed] == 7).all()
    return precision.widen(y)[rows, weight_rows]


# Rows: one, a narrow panel, a full and a narrow one, two full ones, a whole chunk. Sums: below a vector, not a multiple
# of it, just over one weight block, and over two.
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    ("rows", "outputs", "length"),
    [(1, 1, 8), (9, HEIGHT + 1, 24), (PANEL + 3, 40, 136), (2 * PANEL, 3, BLOCK + 8), (CHUNK, 50, 2 * BLOCK + 16)],
)
def test_panels(name: str, rows: int, outputs: int, length: int) -> None:
    kind = KINDS[name]
    x, w = _draw(name, (rows + 3, length), 1), _draw(name, (outputs + 2, length), 2)
    inside, weight_rows = slice(2, 2 + rows), slice(1, 1 + outputs)
    got = _by_panels(kind, x, w, inside, weight_rows)
    want = _product(x, w)[inside, weight_rows]
    relative = precision.tolerance("fp32", length, output="bf16" if name != "fp32" else "fp32")
    check = precision.compare_floats({"y": got}, {"y": want}, relative, {"y": length**0.5})
    assert check.ok, check.message


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("rows", "outputs", "length"), [(1, ROWS, 8), (3, 9, 72), (4, 8, 40), (7, 13, 264)])
def test_few_rows(name: str, rows: int, outputs: int, length: int) -> None:
    kind = KINDS[name]
    x, w = _draw(name, (rows + 2, length), 3), _draw(name, (outputs + 3, length), 4)
    out = np.full((rows, outputs + 5), 7, np.float32)
    dot_function(kind)(w.reshape(-1), 2, outputs, x.reshape(-1), 1, rows, length, out.reshape(-1), 3, outputs + 5)
    want = np.full(out.shape, 7.0)
    want[:, 3 : 3 + outputs] = _product(x, w)[1 : 1 + rows, 2 : 2 + outputs]
    check = precision.compare_floats({"y": out}, {"y": want}, precision.tolerance("fp32", length))
    assert check.ok, check.message


@pytest.mark.skipif("avx512f" not in simd.host_features(), reason="reads the code for 512-bit vectors")
def test_accumulators_stay_in_registers() -> None:
    function = multiply_function(KINDS["fp32"])
    code = function.inspect_asm(function.signatures[0])
    lines = [line.strip() for line in code.splitlines()]
    products = [line for line in lines if line.startswith("vfmadd") and "zmm" in line]
    spilled = [line for line in lines if line.startswith("vmov") and "zmm" in line and "rsp" in line]
    # Two steps of a full and of a narrow tile.
    assert len(products) >= 2 * HEIGHT * 3
    assert len(spilled) < len(products) // 8
