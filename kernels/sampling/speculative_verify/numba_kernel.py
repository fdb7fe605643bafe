"""Each sequence on one thread: single probabilities on the way, one pass over two rows per rejected child."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange
from numba.np.ufunc.parallel import get_thread_id

from ... import simd
from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ..numba_draw import scaled_draw
from ..philox_numba import random_words, to_uniform
from .operator import SpeculativeVerify, check_tokens
from .reference import UNIT

_LANES = simd.LANES
_BLOCK = 1024
_AHEAD = 2048
_LINE = 16
_UNIT, _ZERO = np.float32(UNIT), np.float32(0.0)


@njit(forceinline=True)
def _weights(p: Any, q: Any, c: Any) -> Any:
    """Return the weights of ``max(p - c q, 0)``; NaN weighs nothing."""
    return simd.convert(simd.maximum(simd.fma(q, -c, p), _ZERO) * _UNIT, np.int64)


@njit
def _weigh(target: Any, draft: Any, c: Any, masses: Any) -> Any:
    """Return the weight of ``max(target - c draft, 0)``, per block in ``masses`` too, and whether there is a NaN."""
    total, n = np.int64(0), target.size
    missing = simd.full(0.0, np.float32) != _ZERO
    for block in range((n + _BLOCK - 1) // _BLOCK):
        start, stop = block * _BLOCK, min((block + 1) * _BLOCK, n)
        a, full = simd.full(0, np.int64), start + (stop - start) // _LANES * _LANES
        for i in range(start, full, _LANES):
            for line in range(0, _LANES, _LINE):
                simd.prefetch(target, i + _AHEAD + line)
                simd.prefetch(draft, i + _AHEAD + line)
            p, q = simd.load(target, i), simd.load(draft, i)
            missing = missing | (p != p) | (q != q)
            a = a + _weights(p, q, c)
        if full < stop:
            inside = simd.first_lanes(stop - full)
            p, q = simd.load_masked(target, full, inside, _ZERO), simd.load_masked(draft, full, inside, _ZERO)
            missing = missing | (p != p) | (q != q)
            a = a + _weights(p, q, c)
        masses[block] = simd.sum_lanes(a)
        total += masses[block]
    return total, simd.any_lane(missing)


@njit
def _draw(target: Any, draft: Any, c: Any, masses: Any, total: Any, seed: Any, offset: Any) -> Any:
    """Return the token on which the uniform number falls."""
    rest, block = scaled_draw(seed, offset, total), 0
    while rest >= masses[block]:
        rest -= masses[block]
        block += 1
    for i in range(block * _BLOCK, target.size, _LANES):
        inside = simd.first_lanes(target.size - i)
        p, q = simd.load_masked(target, i, inside, _ZERO), simd.load_masked(draft, i, inside, _ZERO)
        w = _weights(p, q, c)
        mass = simd.sum_lanes(w)
        if rest < mass:
            for lane in range(_LANES):
                one = simd.lane(w, lane)
                if rest < one:
                    return i + lane
                rest -= one
        rest -= mass
    return -1


@njit
def _verify(target: Any, draft: Any, token: Any, branches: int, seed: Any, offset: Any, masses: Any, out: Any) -> Any:
    """Write the accepted tokens and the drawn one; return how many were accepted and the last position."""
    node, accepted, c, total, missing = 0, 0, _ZERO, np.int64(0), False
    out[:] = -1
    while node < draft.shape[0]:
        share, chosen = 1.0, 0
        for child in range(branches * node + 1, branches * (node + 1) + 1):
            x = token[child - 1]
            p, q = target[node, x], draft[node, x]
            w0, _, _, _ = random_words(np.uint64(seed), np.uint64(offset + child))
            left = simd.lane(simd.fma(simd.full(q, np.float32), -c, simd.full(p, np.float32)), 0)
            if to_uniform(w0) * np.float64(q) * share < np.float64(left):
                chosen = child
                break
            c = np.float32(np.float64(c) + share)
            total, missing = _weigh(target[node], draft[node], c, masses)
            share = np.float64(total) / UNIT
        if chosen == 0:
            break
        node, c, total = chosen, _ZERO, np.int64(0)
        out[accepted] = token[chosen - 1]
        accepted += 1
    other = draft[node] if node < draft.shape[0] else target[node]
    if total == 0:
        # After a leaf; or a rejection that rounding alone allowed, since p = c q.
        c = _ZERO
        total, missing = _weigh(target[node], other, c, masses)
    if total > 0 and not missing:
        out[accepted] = _draw(target[node], other, c, masses, total, seed, offset)
    return accepted, node


@cache
def _kernel() -> Any:
    @njit(parallel=True, error_model="numpy")
    def verify(target, draft, token, branches, seed, offset, masses, accepted, node, out):
        for i in prange(out.shape[0]):
            accepted[i], node[i] = _verify(
                target[i], draft[i], token[i], branches, seed[i], offset[i], masses[get_thread_id()], out[i]
            )

    return verify


@implementation("sampling.speculative_verify", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Bind the arrays; all buffers are made here."""
    w = inputs.workload
    assert isinstance(w, SpeculativeVerify)
    check_tokens(inputs)
    result: Arrays = {
        "accepted": np.empty(w.batch, np.int32),
        "node": np.empty(w.batch, np.int32),
        "token": np.empty((w.batch, w.draft_length + 1), np.int32),
    }
    arguments = (
        *(inputs.arrays[name] for name in ("target", "draft", "token")),
        w.branches,
        inputs.arrays["seed"],
        inputs.arrays["offset"],
        np.empty((get_num_threads(), -(-w.vocab // _BLOCK)), np.int64),
        *result.values(),
    )
    kernel = _kernel()
    return Prepared(lambda: kernel(*arguments), lambda: dict(result))
