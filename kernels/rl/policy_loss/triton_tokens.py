"""The Triton kernels of rl.policy_loss: count a row, weigh the rows, loss and gradient of a block, add up."""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false

import triton
import triton.language as tl

_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _k3(e):
    """exp(e) - e - 1 without cancellation: its series where |e| < 1/2."""
    s = e * (1.0 / 3628800) + 1.0 / 362880
    s = s * e + 1.0 / 40320
    s = s * e + 1.0 / 5040
    s = s * e + 1.0 / 720
    s = s * e + 1.0 / 120
    s = s * e + 1.0 / 24
    s = s * e + 1.0 / 6
    s = s * e + 0.5
    return tl.where(tl.abs(e) < 0.5, s * e * e, tl.exp2(e * _LOG2_E) - e - 1.0)


@triton.jit
def policy_rows(logprob, old, mask, counts, means, length, BLOCK: tl.constexpr, GSPO: tl.constexpr):
    """Count the unmasked tokens of a row and, for GSPO, take the mean of its log ratios."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    count = tl.zeros([BLOCK], tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, length, BLOCK):
        at = first + i
        on = tl.load(mask + row * length + at, mask=at < length, other=0) != 0
        count += tl.where(on, 1.0, 0.0)
        if GSPO:
            d = tl.load(logprob + row * length + at, mask=on, other=0.0)
            d -= tl.load(old + row * length + at, mask=on, other=0.0)
            total += tl.where(on, d, 0.0)
    number = tl.sum(count, axis=0)
    tl.store(counts + row, number)
    tl.store(means + row, tl.sum(total, axis=0) / tl.maximum(number, 1.0))


@triton.jit
def policy_weights(counts, weight, rows, length, BLOCK: tl.constexpr, NORMALIZATION: tl.constexpr):
    """Write each row's weight; one program. NORMALIZATION: 0 token, 1 sequence, 2 constant."""
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, rows, BLOCK):
        total += tl.load(counts + first + i, mask=first + i < rows, other=0.0)
    tokens = tl.maximum(tl.sum(total, axis=0), 1.0)
    for first in range(0, rows, BLOCK):
        inside = first + i < rows
        if NORMALIZATION == 0:
            value = tl.zeros([BLOCK], tl.float32) + 1.0 / tokens
        elif NORMALIZATION == 1:
            value = 1.0 / (rows * tl.maximum(tl.load(counts + first + i, mask=inside, other=0.0), 1.0))
        else:
            value = tl.zeros([BLOCK], tl.float32) + 1.0 / (rows * (length * 1.0))
        tl.store(weight + first + i, value, mask=inside)


@triton.jit
def policy_tokens(
    logprob,
    old,
    ref,
    mask,
    advantage,
    means,
    weight,
    partial,
    grad,
    length,
    low,
    high,
    lowest,
    highest,
    kl,
    BLOCK: tl.constexpr,
    GSPO: tl.constexpr,
    KL: tl.constexpr,
):
    """Write the gradient of a block of a row, and its part of the loss."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    place = row * length + at
    on = tl.load(mask + place, mask=at < length, other=0) != 0
    a = tl.load(advantage + row)
    x = tl.load(logprob + place, mask=on, other=0.0)
    d = tl.zeros([BLOCK], tl.float32) + tl.load(means + row)
    if not GSPO:
        d = x - tl.load(old + place, mask=on, other=0.0)
    # A positive advantage is clipped above, a negative one below.
    d_high = tl.where(a > 0.0, high, float("inf"))
    d_low = tl.where(a < 0.0, low, float("-inf"))
    clipped = (d > d_high) | (d < d_low)
    slope = -a * tl.exp2(d * _LOG2_E)
    loss = tl.where(clipped, -a * tl.where(a > 0.0, highest, lowest), slope)
    gradient = tl.where(clipped, 0.0, slope)
    if KL:
        e = tl.load(ref + place, mask=on, other=0.0) - x
        k3 = _k3(e)
        loss += kl * k3
        gradient -= kl * (k3 + e)
    scale = tl.load(weight + row)
    tl.store(grad + place, tl.where(on, gradient * scale, 0.0), mask=at < length)
    total = tl.sum(tl.where(on, loss, 0.0), axis=0) * scale
    tl.store(partial + row * tl.num_programs(1) + tl.program_id(1), total)


@triton.jit
def policy_total(partial, loss, number, BLOCK: tl.constexpr):
    """Add the parts of the loss; one program."""
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, number, BLOCK):
        total += tl.load(partial + first + i, mask=first + i < number, other=0.0)
    tl.store(loss, tl.sum(total, axis=0))
