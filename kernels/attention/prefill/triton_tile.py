"""Triton: loads of one head's rows, and the online softmax of a block of queries over a range of keys."""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportIndexIssue=false, reportAttributeAccessIssue=false

import triton
import triton.language as tl

from ...triton_support import is_interpreting

# Triton's interpreter holds bf16 as integers and multiplies those.
_WIDEN = tl.constexpr(is_interpreting())


@triton.jit
def head_source(x, tokens, HEADS: tl.constexpr, DIM: tl.constexpr, ROWS: tl.constexpr, DIMS: tl.constexpr,
                TMA: tl.constexpr):  # fmt: skip
    """Return a descriptor of ``x [tokens, HEADS, DIM]`` in blocks of one head, or where it is not used the pointer."""
    if TMA:  # noqa: SIM108  both kinds of value cannot meet in one expression
        source = tl.make_tensor_descriptor(x, [tokens, HEADS, DIM], [HEADS * DIM, DIM, 1], [ROWS, 1, DIMS])
    else:
        source = x
    return source


@triton.jit
def load_rows(source, row, row_end, head, HEADS: tl.constexpr, DIM: tl.constexpr, ROWS: tl.constexpr,
              DIMS: tl.constexpr, TMA: tl.constexpr):  # fmt: skip
    """Load rows of a head, padded to DIMS columns with zeros; rows from ``row_end`` on may hold any finite number."""
    if TMA:
        tile = source.load([row, head, 0]).reshape([ROWS, DIMS])
    else:
        r = row + tl.arange(0, ROWS)
        d = tl.arange(0, DIMS)
        inside = (r[:, None] < row_end) & (d[None, :] < DIM)
        place = (r.to(tl.int64)[:, None] * HEADS + head) * DIM + d[None, :]
        tile = tl.load(source + place, mask=inside, other=0.0)
    if _WIDEN:
        tile = tile.to(tl.float32)
    return tile


@triton.jit
def scores_of(q, k, scale, cap, SOFTCAP: tl.constexpr, PRECISION: tl.constexpr):
    """Return scores times log2(e), which is in ``scale``; with a softcap in ``cap``, and ``scale`` is divided by it."""
    s = tl.dot(q, k.T, input_precision=PRECISION) * scale
    if SOFTCAP:
        # tanh(x) = 1 - 2 / (e**2x + 1)
        s = cap * (1.0 - 2.0 / (tl.exp2(2.0 * s) + 1.0))
    return s


@triton.jit
def attend_keys(q, top, total, acc, k_source, v_source, key_row, kv_head, position, keys, start, stop, window, scale,
                cap, KV_HEADS: tl.constexpr, DIM: tl.constexpr, BN: tl.constexpr, DIMS: tl.constexpr,
                MASKED: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr,
                TMA: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Go on with the keys from ``start`` up to ``stop``; with MASKED some queries do not see some of them."""
    for at in range(start, stop, BN):
        k = load_rows(k_source, key_row + at, key_row + keys, kv_head, KV_HEADS, DIM, BN, DIMS, TMA)
        s = scores_of(q, k, scale, cap, SOFTCAP, PRECISION)
        if MASKED:
            s = tl.where(sees(position, at + tl.arange(0, BN), keys, window, CAUSAL, WINDOW), s, float("-inf"))
        new = tl.maximum(top, tl.max(s, axis=1))
        # -inf - -inf would be NaN where 0 is meant.
        base = tl.where(new == float("-inf"), 0.0, new)
        factor = tl.exp2(top - base)
        p = tl.exp2(s - base[:, None])
        total = total * factor + tl.sum(p, axis=1)
        v = load_rows(v_source, key_row + at, key_row + keys, kv_head, KV_HEADS, DIM, BN, DIMS, TMA)
        acc = tl.dot(p.to(v.dtype), v, acc * factor[:, None], input_precision=PRECISION)
        top = new
    return top, total, acc


@triton.jit
def sees(position, key, keys, window, CAUSAL: tl.constexpr, WINDOW: tl.constexpr):
    """Return which queries (rows) see which keys (columns)."""
    seen = key[None, :] < keys
    if CAUSAL:
        seen = seen & (key[None, :] <= position[:, None])
    if WINDOW:
        seen = seen & (key[None, :] > position[:, None] - window)
    return seen
