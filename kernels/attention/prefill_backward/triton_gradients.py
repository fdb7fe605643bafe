"""Triton: the gradients of prefill attention, one kernel for queries and one for keys and values, with no atomics."""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportIndexIssue=false, reportAttributeAccessIssue=false

import triton
import triton.language as tl

from ..prefill.triton_tile import load_rows, sees


@triton.jit
def row_products(out, dout, sums, ROWS_DIM: tl.constexpr, DIMS: tl.constexpr):
    """Write the inner product of a row of ``out`` with its gradient."""
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, DIMS)
    inside = d < ROWS_DIM
    a = tl.load(out + row * ROWS_DIM + d, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(dout + row * ROWS_DIM + d, mask=inside, other=0.0).to(tl.float32)
    tl.store(sums + row, tl.sum(a * b, axis=0))


@triton.jit
def _row_numbers(lse, sums, row, row_end, head, HEADS: tl.constexpr, BM: tl.constexpr):
    """Load log-sum-exp, in powers of two, and sums of rows; infinity where nothing is seen, so that weights are 0."""
    r = row + tl.arange(0, BM)
    inside = r < row_end
    place = r.to(tl.int64) * HEADS + head
    base = tl.load(lse + place, mask=inside, other=float("-inf")) * 1.4426950408889634
    return tl.where(base == float("-inf"), float("inf"), base), tl.load(sums + place, mask=inside, other=0.0)


@triton.jit
def _store(y, tile, row, row_end, head, HEADS: tl.constexpr, DIM: tl.constexpr, ROWS: tl.constexpr,
           DIMS: tl.constexpr):  # fmt: skip
    r = row + tl.arange(0, ROWS)
    d = tl.arange(0, DIMS)
    place = (r.to(tl.int64)[:, None] * HEADS + head) * DIM + d[None, :]
    tl.store(y + place, tile.to(y.dtype.element_ty), mask=(r[:, None] < row_end) & (d[None, :] < DIM))


@triton.jit
def query_gradients(
    q, k, v, dout, lse, sums, query_offsets, key_offsets, dq, window, scale,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, DIM: tl.constexpr, DIMS: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Make dq of a block of queries of one head; ``scale`` is that of the scores."""
    head = tl.program_id(1)
    b = tl.program_id(2)
    query_row = tl.load(query_offsets + b)
    queries = tl.load(query_offsets + b + 1) - query_row
    key_row = tl.load(key_offsets + b)
    keys = tl.load(key_offsets + b + 1) - key_row
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * BM
    if first >= queries:
        return
    kv_head = head // (HEADS // KV_HEADS)
    row, end = query_row + first, query_row + queries
    own = load_rows(q, row, end, head, HEADS, DIM, BM, DIMS, False)
    own_dout = load_rows(dout, row, end, head, HEADS, DIM, BM, DIMS, False)
    base, total = _row_numbers(lse, sums, row, end, head, HEADS, BM)
    position = keys - queries + first + tl.arange(0, BM)
    start, stop = 0, keys
    if CAUSAL:
        stop = tl.maximum(keys - queries + tl.minimum(first + BM, queries), 0)
    if WINDOW:
        start = tl.maximum(keys - queries + first + 1 - window, 0) // BN * BN
    acc = tl.zeros((BM, DIMS), tl.float32)
    for at in range(start, stop, BN):
        keys_tile = load_rows(k, key_row + at, key_row + keys, kv_head, KV_HEADS, DIM, BN, DIMS, False)
        s = tl.dot(own, keys_tile.T, input_precision=PRECISION) * (scale * 1.4426950408889634)
        s = tl.where(sees(position, at + tl.arange(0, BN), keys, window, CAUSAL, WINDOW), s, float("-inf"))
        p = tl.exp2(s - base[:, None])
        values_tile = load_rows(v, key_row + at, key_row + keys, kv_head, KV_HEADS, DIM, BN, DIMS, False)
        ds = p * (tl.dot(own_dout, values_tile.T, input_precision=PRECISION) - total[:, None])
        acc = tl.dot(ds.to(keys_tile.dtype), keys_tile, acc, input_precision=PRECISION)
    _store(dq, acc * scale, row, end, head, HEADS, DIM, BM, DIMS)


@triton.jit
def key_gradients(
    q, k, v, dout, lse, sums, query_offsets, key_offsets, dk, dv, window, scale,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, DIM: tl.constexpr, DIMS: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Make dk and dv of a block of keys of one KV head, over all query heads that share it."""
    kv_head = tl.program_id(1)
    b = tl.program_id(2)
    query_row = tl.load(query_offsets + b)
    queries = tl.load(query_offsets + b + 1) - query_row
    key_row = tl.load(key_offsets + b)
    keys = tl.load(key_offsets + b + 1) - key_row
    at = tl.program_id(0) * BN
    if at >= keys:
        return
    own_k = load_rows(k, key_row + at, key_row + keys, kv_head, KV_HEADS, DIM, BN, DIMS, False)
    own_v = load_rows(v, key_row + at, key_row + keys, kv_head, KV_HEADS, DIM, BN, DIMS, False)
    key = at + tl.arange(0, BN)
    start, stop = 0, queries
    if CAUSAL:
        start = tl.maximum(at - (keys - queries), 0) // BM * BM
    if WINDOW:
        stop = tl.maximum(tl.minimum(queries, at + BN - 1 + window - (keys - queries)), 0)
    dk_acc = tl.zeros((BN, DIMS), tl.float32)
    dv_acc = tl.zeros((BN, DIMS), tl.float32)
    end = query_row + queries
    for member in range(0, HEADS // KV_HEADS):
        head = kv_head * (HEADS // KV_HEADS) + member
        for first in range(start, stop, BM):
            row = query_row + first
            queries_tile = load_rows(q, row, end, head, HEADS, DIM, BM, DIMS, False)
            base, total = _row_numbers(lse, sums, row, end, head, HEADS, BM)
            s = tl.dot(own_k, queries_tile.T, input_precision=PRECISION) * (scale * 1.4426950408889634)
            position = keys - queries + first + tl.arange(0, BM)
            s = tl.where(sees(position, key, keys, window, CAUSAL, WINDOW).T, s, float("-inf"))
            p = tl.exp2(s - base[None, :])
            dout_tile = load_rows(dout, row, end, head, HEADS, DIM, BM, DIMS, False)
            dv_acc = tl.dot(p.to(dout_tile.dtype), dout_tile, dv_acc, input_precision=PRECISION)
            ds = p * (tl.dot(own_v, dout_tile.T, input_precision=PRECISION) - total[None, :])
            dk_acc = tl.dot(ds.to(queries_tile.dtype), queries_tile, dk_acc, input_precision=PRECISION)
    _store(dk, dk_acc * scale, key_row + at, key_row + keys, kv_head, KV_HEADS, DIM, BN, DIMS)
    _store(dv, dv_acc, key_row + at, key_row + keys, kv_head, KV_HEADS, DIM, BN, DIMS)
