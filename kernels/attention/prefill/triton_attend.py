"""Triton: prefill attention of one block of queries of one head."""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportIndexIssue=false

import triton
import triton.language as tl

from .triton_tile import attend_keys, head_source, load_rows


@triton.jit
def attend(
    q, k, v, query_offsets, key_offsets, sinks, out, lse, query_tokens, key_tokens, window, scale, cap,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, DIM: tl.constexpr, DIMS: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SINKS: tl.constexpr, SOFTCAP: tl.constexpr,
    TMA: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Attend; the last block of queries, which has most keys, comes first.

    ``query_tokens`` and ``key_tokens`` over all sequences; for ``scale`` and ``cap`` see `scores_of`.
    """
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
    q_source = head_source(q, query_tokens, HEADS, DIM, BM, DIMS, TMA)
    k_source = head_source(k, key_tokens, KV_HEADS, DIM, BN, DIMS, TMA)
    v_source = head_source(v, key_tokens, KV_HEADS, DIM, BN, DIMS, TMA)
    row = query_row + first
    own = load_rows(q_source, row, query_row + queries, head, HEADS, DIM, BM, DIMS, TMA)
    position = keys - queries + first + tl.arange(0, BM)
    last = keys - queries + tl.minimum(first + BM, queries) - 1
    start, stop = 0, keys
    # The keys that every query of the block sees, in whole steps, need no mask.
    plain_start, plain_stop = 0, keys
    if CAUSAL:
        stop = tl.maximum(last + 1, 0)
        plain_stop = tl.maximum(keys - queries + first + 1, 0)
    if WINDOW:
        start = tl.maximum(keys - queries + first + 1 - window, 0) // BN * BN
        plain_start = (tl.maximum(last + 1 - window, 0) + BN - 1) // BN * BN
    plain_stop = plain_stop // BN * BN
    plain_start = tl.minimum(plain_start, stop)
    plain_stop = tl.maximum(plain_stop, plain_start)
    top = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, DIMS), tl.float32)
    if WINDOW:
        top, total, acc = attend_keys(
            own, top, total, acc, k_source, v_source, key_row, kv_head, position, keys, start, plain_start, window,
            scale, cap, KV_HEADS, DIM, BN, DIMS, True, CAUSAL, WINDOW, SOFTCAP, TMA, PRECISION,
        )  # fmt: skip
    top, total, acc = attend_keys(
        own, top, total, acc, k_source, v_source, key_row, kv_head, position, keys, plain_start, plain_stop, window,
        scale, cap, KV_HEADS, DIM, BN, DIMS, False, CAUSAL, WINDOW, SOFTCAP, TMA, PRECISION,
    )  # fmt: skip
    top, total, acc = attend_keys(
        own, top, total, acc, k_source, v_source, key_row, kv_head, position, keys, plain_stop, stop, window, scale,
        cap, KV_HEADS, DIM, BN, DIMS, True, CAUSAL, WINDOW, SOFTCAP, TMA, PRECISION,
    )  # fmt: skip
    if SINKS:
        sink = tl.load(sinks + head) * 1.4426950408889634
        new = tl.maximum(top, sink)
        factor = tl.exp2(top - new)
        total = total * factor + tl.exp2(sink - new)
        acc = acc * factor[:, None]
        top = new
    some = total > 0.0
    whole = tl.where(some, total, 1.0)
    acc = acc / whole[:, None]
    rows = row + tl.arange(0, BM)
    inside = rows < query_row + queries
    wide = rows.to(tl.int64) * HEADS + head
    tl.store(lse + wide, tl.where(some, (top + tl.log2(whole)) * 0.6931471805599453, float("-inf")), mask=inside)
    d = tl.arange(0, DIMS)
    place = wide[:, None] * DIM + d[None, :]
    tl.store(out + place, acc.to(out.dtype.element_ty), mask=inside[:, None] & (d[None, :] < DIM))
