"""The Triton kernels of train.rmsnorm: a row is one block."""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false

import triton
import triton.language as tl


@triton.jit
def rmsnorm_forward(x, residual, weight, h, y, rstd_out, hidden, epsilon, BLOCK: tl.constexpr, RESIDUAL: tl.constexpr):
    """Normalise one row; with RESIDUAL the sum is stored, and what is stored is normalised."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    inside = i < hidden
    value = tl.load(x + row * hidden + i, mask=inside, other=0.0).to(tl.float32)
    if RESIDUAL:
        value += tl.load(residual + row * hidden + i, mask=inside, other=0.0).to(tl.float32)
        stored = value.to(h.dtype.element_ty)
        tl.store(h + row * hidden + i, stored, mask=inside)
        value = stored.to(tl.float32)
    mean = tl.sum(value * value, axis=0) / hidden
    rstd = 1.0 / tl.sqrt(mean + epsilon)
    tl.store(rstd_out + row, rstd)
    scaled = value * rstd * tl.load(weight + i, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * hidden + i, scaled.to(y.dtype.element_ty), mask=inside)


@triton.jit
def rmsnorm_backward(
    grad_y,
    h,
    grad_residual,
    weight,
    rstd_in,
    grad_h,
    partial,
    rows,
    hidden,
    BLOCK: tl.constexpr,
    RESIDUAL: tl.constexpr,
):
    """Go over every n-th row, n being the number of programs, and leave the sum for the weight's gradient."""
    program = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < hidden
    scale = tl.load(weight + i, mask=inside, other=0.0).to(tl.float32)
    summed = tl.zeros([BLOCK], tl.float32)
    for first in range(0, rows, tl.num_programs(0)):
        r = first + program
        live = i < tl.where(r < rows, hidden, 0)
        base = r.to(tl.int64) * hidden
        rstd = tl.load(rstd_in + tl.minimum(r, rows - 1))
        n = tl.load(h + base + i, mask=live, other=0.0).to(tl.float32) * rstd
        g = tl.load(grad_y + base + i, mask=live, other=0.0).to(tl.float32)
        summed += g * n
        d = g * scale
        value = rstd * (d - n * (tl.sum(d * n, axis=0) / hidden))
        if RESIDUAL:
            value += tl.load(grad_residual + base + i, mask=live, other=0.0).to(tl.float32)
        tl.store(grad_h + base + i, value.to(grad_h.dtype.element_ty), mask=live)
    tl.store(partial + program.to(tl.int64) * hidden + i, summed, mask=inside)


@triton.jit
def rmsnorm_weight_sum(partial, grad_weight, programs, hidden, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Add the programs' sums, a block of columns each."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([COLUMNS], tl.float32)
    for first in range(0, programs, ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row < programs)[:, None] & (column < hidden)[None, :]
        block = tl.load(partial + row[:, None].to(tl.int64) * hidden + column[None, :], mask=inside, other=0.0)
        total += tl.sum(block, axis=0)
    tl.store(grad_weight + column, total, mask=column < hidden)
