"""The Triton kernel of attention.kv_append."""

# Triton's library is typed for its compiler.
# pyright: reportOperatorIssue=false, reportArgumentType=false

import triton
import triton.language as tl


@triton.jit
def append_token(k, v, k_pages, v_pages, page_table, starts, rotary, new_tokens, most_pages, heads, page_size, dim,
                 HEADS: tl.constexpr, HALF: tl.constexpr):  # fmt: skip
    """Rotate HEADS heads of one token's key and write them and their values to its slot."""
    token = tl.program_id(0)
    sequence = token // new_tokens
    position = tl.load(starts + sequence) + token % new_tokens
    page = tl.load(page_table + sequence.to(tl.int64) * most_pages + position // page_size).to(tl.int64)
    head, i = tl.program_id(1) * HEADS + tl.arange(0, HEADS), tl.arange(0, HALF)
    half = dim // 2
    angle = rotary + position.to(tl.int64) * dim + i
    cos = tl.load(angle, mask=i < half, other=0.0)[None, :]
    sin = tl.load(angle + half, mask=i < half, other=0.0)[None, :]
    valid = (head < heads)[:, None] & (i < half)[None, :]
    source = (token.to(tl.int64) * heads + head)[:, None] * dim + i[None, :]
    at = ((page * heads + head) * page_size + position % page_size)[:, None] * dim + i[None, :]
    a = tl.load(k + source, mask=valid, other=0.0).to(tl.float32)
    b = tl.load(k + source + half, mask=valid, other=0.0).to(tl.float32)
    tl.store(k_pages + at, (a * cos - b * sin).to(k_pages.dtype.element_ty), mask=valid)
    tl.store(k_pages + at + half, (b * cos + a * sin).to(k_pages.dtype.element_ty), mask=valid)
    tl.store(v_pages + at, tl.load(v + source, mask=valid), mask=valid)
    tl.store(v_pages + at + half, tl.load(v + source + half, mask=valid), mask=valid)
