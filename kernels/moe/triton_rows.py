"""Triton: rows of tokens to the places of their choices, and back."""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false

import triton
import triton.language as tl

from ..triton_rounding import e4m3_code, inverse_or_zero


@triton.jit
def invert_source(source, row_of, slots, ROWS: tl.constexpr):
    """Write where each choice's row stands."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    valid = row < slots
    tl.store(row_of + tl.load(source + row, mask=valid, other=0), row, mask=valid)


@triton.jit
def dispatch_copy(x, row_of, y, hidden, top_k, COLUMNS: tl.constexpr):
    """Read a piece of a token's row once and write it to the places of its choices."""
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    valid = column < hidden
    piece = tl.load(x + token * hidden + column, mask=valid)
    for k in range(top_k):
        row = tl.load(row_of + token * top_k + k).to(tl.int64)
        tl.store(y + row * hidden + column, piece, mask=valid)


@triton.jit
def dispatch_fp8(x, row_of, code, scale, hidden, scales, top_k, BLOCKS: tl.constexpr, BLOCK: tl.constexpr):
    """Quantise BLOCKS blocks of a token's row once and write them to the places of its choices."""
    token = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1) * BLOCKS + tl.arange(0, BLOCKS)
    column = block[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    valid = column < hidden
    values = tl.load(x + token * hidden + column, mask=valid, other=0.0).to(tl.float32)
    s = tl.div_rn(tl.max(tl.abs(values), axis=1), 448.0)
    codes = e4m3_code(values * inverse_or_zero(s)[:, None]).to(tl.uint8)
    for k in range(top_k):
        row = tl.load(row_of + token * top_k + k).to(tl.int64)
        tl.store(code + row * hidden + column, codes, mask=valid)
        tl.store(scale + row * scales + block, s, mask=block < scales)


@triton.jit
def combine_rows(y, weights, row_of, out, hidden, top_k, COLUMNS: tl.constexpr):
    """Sum a piece of a token's rows by their weights, in the order of its choices."""
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    valid = column < hidden
    total = tl.zeros((COLUMNS,), tl.float32)
    for k in range(top_k):
        row = tl.load(row_of + token * top_k + k).to(tl.int64)
        weight = tl.load(weights + token * top_k + k)
        total += weight * tl.load(y + row * hidden + column, mask=valid, other=0.0).to(tl.float32)
    tl.store(out + token * hidden + column, total.to(out.dtype.element_ty), mask=valid)
