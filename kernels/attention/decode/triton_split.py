"""Triton kernels of decode attention: one chunk of keys per program, and the merge of the chunks of a sequence.

A program holds all query rows that share a KV head, padded to the least tile of a matrix instruction, so that keys and
values are read once. The state of a chunk is the largest score in powers of two, the sum of weights relative to it and
the sum of weights times values.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _finish(row, inside, top, total, products, sinks, out, lse, dims, head, DIM: tl.constexpr, SINKS: tl.constexpr):
    """Write finished rows; ``row`` numbers them in the outputs, ``head`` their query heads."""
    if SINKS:
        sink = tl.load(sinks + head, mask=inside, other=0.0) * 1.4426950408889634
        new = tl.maximum(top, sink)
        factor = tl.exp2(top - new)
        total = total * factor + tl.exp2(sink - new)
        products = products * factor[:, None]
        top = new
    tl.store(lse + row, 0.6931471805599453 * (top + tl.log2(total)), mask=inside)
    place = out + row[:, None] * DIM + dims[None, :]
    tl.store(place, products / total[:, None], mask=inside[:, None] & (dims < DIM)[None, :])


@triton.jit
def decode_chunk(
    q, k_pages, v_pages, page_table, lengths, sinks, tops, sums, products, out, lse,
    table_width, window, splits, chunk, scale,
    KV_HEADS: tl.constexpr, GROUP: tl.constexpr, TOKENS: tl.constexpr, DIM: tl.constexpr, PAGE: tl.constexpr,
    ROWS: tl.constexpr, DIMS: tl.constexpr, KEYS: tl.constexpr, WINDOW: tl.constexpr, SINKS: tl.constexpr,
    SPLIT: tl.constexpr, PRECISION: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    """Attend to the keys of one chunk of one sequence for the query rows of one KV head.

    ``chunk`` keys per program, counted from the first that any query of the sequence sees; ``scale`` includes log2(e).
    ROWS and DIMS are the padded rows and head dimension, KEYS the keys of a step, WIDEN multiplies as fp32.
    """
    b = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    length = tl.load(lengths + b)
    first = 0
    if WINDOW:
        first = tl.maximum(length - TOKENS + 1 - window, 0)
    start = first + split * chunk
    stop = tl.minimum(start + chunk, length)
    if start >= stop:
        return
    r = tl.arange(0, ROWS)
    dims = tl.arange(0, DIMS)
    inside = r < TOKENS * GROUP
    token = r // GROUP
    head = kv_head * GROUP + r % GROUP
    row = (b * TOKENS + token) * (KV_HEADS * GROUP) + head
    whole = dims < DIM
    own_q = tl.load(q + row[:, None] * DIM + dims[None, :], mask=inside[:, None] & whole[None, :], other=0.0)
    if WIDEN:
        own_q = own_q.to(tl.float32)
    position = length - TOKENS + token
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, DIMS), tl.float32)
    for at in range(start, stop, KEYS):
        key = at + tl.arange(0, KEYS)
        present = key < stop
        page = tl.load(page_table + b * table_width + key // PAGE, mask=present, other=0).to(tl.int64)
        place = ((page * KV_HEADS + kv_head) * PAGE + key % PAGE) * DIM
        mask = present[:, None] & whole[None, :]
        k = tl.load(k_pages + place[:, None] + dims[None, :], mask=mask, other=0.0)
        if WIDEN:
            k = k.to(tl.float32)
        s = tl.dot(own_q, tl.trans(k), input_precision=PRECISION) * scale
        seen = present[None, :] & (key[None, :] <= position[:, None])
        if WINDOW:
            seen = seen & (key[None, :] > position[:, None] - window)
        s = tl.where(seen, s, float("-inf"))
        new = tl.maximum(top, tl.max(s, axis=1))
        # -inf - -inf would be NaN where 0 is meant.
        base = tl.where(new == float("-inf"), 0.0, new)
        factor = tl.exp2(top - base)
        p = tl.exp2(s - base[:, None])
        v = tl.load(v_pages + place[:, None] + dims[None, :], mask=mask, other=0.0)
        if WIDEN:
            v = v.to(tl.float32)
        total = total * factor + tl.sum(p, axis=1)
        acc = acc * factor[:, None] + tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
        top = new
    if SPLIT:
        part = row * splits + split
        tl.store(tops + part, top, mask=inside)
        tl.store(sums + part, total, mask=inside)
        tl.store(products + part[:, None] * DIM + dims[None, :], acc, mask=inside[:, None] & whole[None, :])
    else:
        _finish(row, inside, top, total, acc, sinks, out, lse, dims, head, DIM, SINKS)


@triton.jit
def decode_merge(
    lengths, sinks, tops, sums, products, out, lse, window, splits, chunk,
    HEADS: tl.constexpr, TOKENS: tl.constexpr, DIM: tl.constexpr, DIMS: tl.constexpr, WINDOW: tl.constexpr,
    SINKS: tl.constexpr,
):  # fmt: skip
    """Merge the chunks of one query row."""
    program = tl.program_id(0).to(tl.int64)
    row = program + tl.arange(0, 1)
    dims = tl.arange(0, DIMS)
    whole = dims < DIM
    length = tl.load(lengths + program // (TOKENS * HEADS))
    first = 0
    if WINDOW:
        first = tl.maximum(length - TOKENS + 1 - window, 0)
    used = (length - first + chunk - 1) // chunk
    top = tl.full((1,), float("-inf"), tl.float32)
    total = tl.zeros((1,), tl.float32)
    acc = tl.zeros((1, DIMS), tl.float32)
    for split in range(0, used):
        part = row * splits + split
        part_top = tl.load(tops + part)
        new = tl.maximum(top, part_top)
        base = tl.where(new == float("-inf"), 0.0, new)
        factor = tl.exp2(top - base)
        part_factor = tl.exp2(part_top - base)
        total = total * factor + tl.load(sums + part) * part_factor
        values = tl.load(products + part[:, None] * DIM + dims[None, :], mask=whole[None, :], other=0.0)
        acc = acc * factor[:, None] + values * part_factor[:, None]
        top = new
    _finish(row, row >= 0, top, total, acc, sinks, out, lse, dims, row % HEADS, DIM, SINKS)
