"""Triton: the permutation of choices by expert, from the counts that `triton_select` left per block of tokens."""

from __future__ import annotations

# Triton's library is typed for its compiler.
# pyright: reportAttributeAccessIssue=false
import triton
import triton.language as tl


@triton.jit
def routing_scan(partial, counts, programs, experts, ROWS: tl.constexpr, EXPERTS: tl.constexpr):
    """Replace each expert's counts per block by the sum over the blocks before; write the totals."""
    expert = tl.program_id(0) * EXPERTS + tl.arange(0, EXPERTS)
    before = tl.zeros((EXPERTS,), tl.int32)
    for first in range(0, programs, ROWS):
        row = first + tl.arange(0, ROWS)
        at = row.to(tl.int64)[:, None] * experts + expert[None, :]
        mask = (row < programs)[:, None] & (expert < experts)[None, :]
        block = tl.load(partial + at, mask=mask, other=0)
        tl.store(partial + at, tl.cumsum(block, axis=0) - block + before[None, :], mask=mask)
        before += tl.sum(block, axis=0)
    tl.store(counts + expert, before, mask=expert < experts)


@triton.jit
def _offsets(counts, experts, block, BINS: tl.constexpr):
    """Return each expert's first row and the row after its last, padding included."""
    expert = tl.arange(0, BINS)
    count = tl.load(counts + expert, mask=expert < experts, other=0)
    padded = (count + block - 1) // block * block
    end = tl.cumsum(padded, axis=0)
    return end - padded, end


@triton.jit
def routing_place(chosen, partial, counts, offsets, source, slots, experts, block, per_program, SLOTS: tl.constexpr,
                  BINS: tl.constexpr):  # fmt: skip
    """Write each choice of the program's tokens to its row, in token order within an expert."""
    program = tl.program_id(0)
    begin, end = _offsets(counts, experts, block, BINS)
    if program == 0:
        expert = tl.arange(0, BINS)
        tl.store(offsets, 0)
        tl.store(offsets + 1 + expert, end, mask=expert < experts)
    order = tl.arange(0, SLOTS)
    slot = program * per_program + order
    valid = (order < per_program) & (slot < slots)
    mine = tl.load(chosen + slot, mask=valid, other=0)
    # The same choices along the other axis, -1 where there is none, so that nothing equals it.
    theirs = tl.load(chosen + slot, mask=valid, other=-1)
    earlier = (mine[:, None] == theirs[None, :]) & (order[None, :] < order[:, None])
    rank = tl.sum(earlier.to(tl.int32), axis=1)
    before = tl.load(partial + program.to(tl.int64) * experts + mine, mask=valid, other=0)
    row = tl.gather(begin, mine, axis=0) + before + rank
    tl.store(source + row, slot, mask=valid)


@triton.jit
def routing_pad(counts, source, block_expert, slots, experts, block, capacity, BINS: tl.constexpr, ROWS: tl.constexpr):
    """Fill the padding of one expert, and name it in its blocks; the last program fills what is left."""
    program = tl.program_id(0)
    begin, end = _offsets(counts, experts, block, BINS)
    expert = tl.arange(0, BINS)
    own = expert == program
    count = tl.load(counts + program, mask=program < experts, other=0)
    used = tl.sum(tl.where(expert == experts - 1, end, 0))
    is_last = program == experts
    first_row = tl.where(is_last, used, tl.sum(tl.where(own, begin, 0)))
    last_row = tl.where(is_last, capacity, tl.sum(tl.where(own, end, 0)))
    lanes = tl.arange(0, ROWS)
    for at in range(first_row + count, last_row, ROWS):
        tl.store(source + at + lanes, slots + tl.zeros((ROWS,), tl.int32), mask=at + lanes < last_row)
    name = tl.where(is_last, -1, program)
    for at in range(first_row // block, last_row // block, ROWS):
        tl.store(block_expert + at + lanes, name + tl.zeros((ROWS,), tl.int32), mask=at + lanes < last_row // block)
