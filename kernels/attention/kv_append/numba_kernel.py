"""New tokens in equal shares to all cores; both halves of a key are rotated in registers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from ... import simd
from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...simd.rounding import masked_store
from .operator import KvAppend, read_back

_LANES = simd.LANES


@cache
def _kernel(precision: str) -> Any:
    put = masked_store(precision)
    zero, nothing = np.float32(0.0), np.uint16(0) if precision == "bf16" else np.float32(0.0)

    @simd.leaf
    def share(k, v, k_pages, v_pages, table, starts, rotary, new_tokens, heads, page_size, dim, first, last):
        half = dim // 2
        for token in range(first, last):
            sequence = token // new_tokens
            position = np.int64(starts[sequence]) + token % new_tokens
            page = np.int64(table[sequence, position // page_size])
            for head in range(heads):
                source = (token * heads + head) * dim
                at = ((page * heads + head) * page_size + position % page_size) * dim
                for i in range(0, half, _LANES):
                    lanes = simd.first_lanes(half - i)
                    cos = simd.load_masked(rotary, (position, i), lanes, zero)
                    sin = simd.load_masked(rotary, (position, half + i), lanes, zero)
                    a = simd.load_f32_masked(k, source + i, lanes, zero)
                    b = simd.load_f32_masked(k, source + half + i, lanes, zero)
                    put(k_pages, at + i, simd.fma(a, cos, -(b * sin)), lanes)
                    put(k_pages, at + half + i, simd.fma(b, cos, a * sin), lanes)
                for i in range(0, dim, _LANES):
                    lanes = simd.first_lanes(dim - i)
                    simd.store_masked(v_pages, at + i, simd.load_masked(v, source + i, lanes, nothing), lanes)

    @njit(parallel=True, error_model="numpy")
    def append(k, v, k_pages, v_pages, table, starts, rotary, new_tokens, heads, page_size, dim):
        tokens, threads = starts.size * new_tokens, get_num_threads()
        for t in prange(threads):
            share(k, v, k_pages, v_pages, table, starts, rotary, new_tokens, heads, page_size, dim,
                  tokens * t // threads, tokens * (t + 1) // threads)  # fmt: skip

    return append


@implementation("attention.kv_append", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """The pages are copied here; a run writes the same slots again."""
    w, arrays = inputs.workload, inputs.arrays
    assert isinstance(w, KvAppend)
    pages = []
    for name in ("k_pages", "v_pages"):
        pages.append(simd.aligned_empty(arrays[name].shape, arrays[name].dtype))
        pages[-1][...] = arrays[name]
    flat = (a.reshape(-1) for a in (arrays["k"], arrays["v"], *pages))
    arguments = (
        *flat,
        *(arrays[name] for name in ("page_table", "starts", "rotary")),
        w.new_tokens,
        w.kv_heads,
        w.page_size,
        w.head_dim,
    )
    kernel = _kernel(w.precision)

    def output() -> Arrays:
        return read_back(pages[0], pages[1], inputs)

    return Prepared(lambda: kernel(*arguments), output)
