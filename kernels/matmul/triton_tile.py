"""Triton: one tile of activations times weights ``[out, in]``, by tensor descriptors or by pointers."""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportIndexIssue=false, reportAttributeAccessIssue=false

import triton
import triton.language as tl

from ..triton_support import is_interpreting

# Triton's interpreter holds bf16 as integers and multiplies those.
_WIDEN = tl.constexpr(is_interpreting())


@triton.jit
def descriptors(x, w, rows, w_rows, length, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TMA: tl.constexpr):
    """Return descriptors of both inputs, or where they are not used the pointers in their place."""
    if TMA:
        x_source = tl.make_tensor_descriptor(x, [rows, length], [length.to(tl.int64), 1], [BM, BK])
        w_source = tl.make_tensor_descriptor(w, [w_rows, length], [length.to(tl.int64), 1], [BN, BK])
    else:
        x_source, w_source = x, w
    return x_source, w_source


@triton.jit
def _load(source, row, row_end, k, length, ROWS: tl.constexpr, BK: tl.constexpr, TMA: tl.constexpr):
    if TMA:
        tile = source.load([row, k])
    else:
        r = row + tl.arange(0, ROWS)
        c = k + tl.arange(0, BK)
        inside = (r[:, None] < row_end) & (c[None, :] < length)
        tile = tl.load(source + r.to(tl.int64)[:, None] * length + c[None, :], mask=inside, other=0.0)
    return tile


@triton.jit
def _dot(a, b, total, PRECISION: tl.constexpr):
    if _WIDEN:
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b.T, total, input_precision=PRECISION)


@triton.jit
def tile_product(
    x,
    w,
    row,
    row_end,
    w_row,
    w_end,
    w_second,
    length,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    PAIR: tl.constexpr,
    TMA: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Return the products of rows ``row`` to ``row + BM`` of x with the weight rows from ``w_row`` on, in fp32.

    With PAIR also those with the weight rows ``w_second`` further on, from the same reads of x; else zeros. Rows from
    ``row_end`` and ``w_end`` on may count as anything: what they give is not stored.
    """
    first = tl.zeros([BM, BN], tl.float32)
    second = tl.zeros([BM, BN], tl.float32)
    for k in range(0, length, BK):
        a = _load(x, row, row_end, k, length, BM, BK, TMA)
        b = _load(w, w_row, w_end, k, length, BN, BK, TMA)
        first = _dot(a, b, first, PRECISION)
        if PAIR:
            b = _load(w, w_row + w_second, w_end + w_second, k, length, BN, BK, TMA)
            second = _dot(a, b, second, PRECISION)
    return first, second


@triton.jit
def grouped_tile(tile, row_blocks, column_blocks, GROUP: tl.constexpr):
    """Return the row and column block of a tile: GROUP row blocks by all columns at a time, so that L2 holds both."""
    span = GROUP * column_blocks
    start = tile // span * GROUP
    size = tl.minimum(row_blocks - start, GROUP)
    return start + tile % span % size, tile % span // size


@triton.jit
def store_tile(y, value, row, row_end, column, width, BM: tl.constexpr, BN: tl.constexpr):
    """Store a tile of ``y[:, width]`` in its element type, rows before ``row_end``."""
    r = row + tl.arange(0, BM)
    c = column + tl.arange(0, BN)
    inside = (r[:, None] < row_end) & (c[None, :] < width)
    tl.store(y + r.to(tl.int64)[:, None] * width + c[None, :], value.to(y.dtype.element_ty), mask=inside)
