"""The Triton kernel of linear.gemm."""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false

import triton
import triton.language as tl

from ...matmul.triton_tile import descriptors, grouped_tile, store_tile, tile_product


@triton.jit
def gemm(
    x,
    w,
    y,
    rows,
    width,
    length,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    TMA: tl.constexpr,
    PRECISION: tl.constexpr,
    GROUP: tl.constexpr,
):
    """``y[rows, width] = x[rows, length] @ w[width, length].T``, persistent over all tiles."""
    row_blocks = (rows + BM - 1) // BM
    column_blocks = (width + BN - 1) // BN
    a, b = descriptors(x, w, rows, width, length, BM, BN, BK, TMA)
    for tile in range(tl.program_id(0), row_blocks * column_blocks, tl.num_programs(0)):
        row_block, column_block = grouped_tile(tile, row_blocks, column_blocks, GROUP)
        row, column = row_block * BM, column_block * BN
        value, _ = tile_product(a, b, row, rows, column, width, 0, length, BM, BN, BK, False, TMA, PRECISION)
        store_tile(y, value, row, rows, column, width, BM, BN)
