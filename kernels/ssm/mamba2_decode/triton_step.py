"""The Triton kernel of ssm.mamba2_decode."""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false

import triton
import triton.language as tl


@triton.jit
def mamba2_step(h, new_h, x, b, c, dt, dt_bias, a, d, y, heads, head_dim, size, groups, ROWS: tl.constexpr,
                SIZE: tl.constexpr):  # fmt: skip
    """Move ROWS rows of one head's state on, and sum their outputs."""
    task = tl.program_id(0)
    head = task % heads
    group = (task // heads) * groups + head // (heads // groups)
    row, n = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.arange(0, SIZE)
    valid, used = row < head_dim, n < size
    raw = tl.load(dt + task) + tl.load(dt_bias + head)
    step = tl.maximum(raw, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(raw)))
    decay = tl.exp(step * tl.load(a + head))
    values = tl.load(x + task.to(tl.int64) * head_dim + row, mask=valid, other=0.0).to(tl.float32)
    group_at = group.to(tl.int64) * size + n
    added = tl.load(b + group_at, mask=used, other=0.0).to(tl.float32)
    weights = tl.load(c + group_at, mask=used, other=0.0).to(tl.float32)
    at = (task.to(tl.int64) * head_dim + row)[:, None] * size + n[None, :]
    inside = valid[:, None] & used[None, :]
    moved = tl.load(h + at, mask=inside, other=0.0) * decay + (step * values)[:, None] * added[None, :]
    tl.store(new_h + at, moved, mask=inside)
    total = tl.sum(moved * weights[None, :], axis=1) + tl.load(d + head) * values
    tl.store(y + task.to(tl.int64) * head_dim + row, total, mask=valid)
