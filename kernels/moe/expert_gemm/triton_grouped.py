"""The Triton kernels of moe.expert_gemm: list the row blocks of all experts, and the grouped product."""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportIndexIssue=false

import triton
import triton.language as tl

from ...matmul.triton_tile import descriptors, grouped_tile, store_tile, tile_product

_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def expert_schedule(counts, block_expert, block_row, block_end, total, experts, BM: tl.constexpr, PADDED: tl.constexpr):
    """List every expert's blocks of at most BM rows: the expert, their first row, the row after the expert's last."""
    e = tl.arange(0, PADDED)
    count = tl.load(counts + e, mask=e < experts, other=0)
    blocks = (count + BM - 1) // BM
    end = tl.cumsum(count, axis=0)
    place = tl.cumsum(blocks, axis=0) - blocks
    tl.store(total, tl.sum(blocks, axis=0))
    for i in range(0, tl.max(blocks, axis=0)):
        mine = i < blocks
        tl.store(block_expert + place + i, e, mask=mine)
        tl.store(block_row + place + i, end - count + i * BM, mask=mine)
        tl.store(block_end + place + i, end, mask=mine)


@triton.jit
def expert_product(
    x,
    w,
    y,
    block_expert,
    block_row,
    block_end,
    total,
    slots,
    experts,
    width,
    length,
    ACTIVATION: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    TMA: tl.constexpr,
    PRECISION: tl.constexpr,
    GROUP: tl.constexpr,
):
    """``y[rows, width]`` = rows of x times their expert's weights, persistent over all tiles.

    ACTIVATION 1 is SwiGLU, for which an expert has ``2 * width`` weight rows, 2 is relu squared, 0 none.
    """
    row_blocks = tl.load(total)
    column_blocks = (width + BN - 1) // BN
    PAIR: tl.constexpr = ACTIVATION == 1
    w_rows = 2 * width if PAIR else width
    a, b = descriptors(x, w, slots, experts * w_rows, length, BM, BN, BK, TMA)
    for tile in range(tl.program_id(0), row_blocks * column_blocks, tl.num_programs(0)):
        block, column_block = grouped_tile(tile, row_blocks, column_blocks, GROUP)
        expert = tl.load(block_expert + block)
        row = tl.load(block_row + block)
        end = tl.load(block_end + block)
        column = column_block * BN
        start = expert * w_rows
        value, up = tile_product(
            a, b, row, end, start + column, start + width, width, length, BM, BN, BK, PAIR, TMA, PRECISION
        )
        if ACTIVATION == 1:
            value = value * up / (1.0 + tl.exp2(-value * _LOG2_E))
        elif ACTIVATION == 2:
            positive = tl.where(value < 0.0, 0.0, value)
            value = positive * positive
        store_tile(y, value, row, end, column, width, BM, BN)
