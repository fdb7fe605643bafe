"""Decode attention in float64, and how far an output may be from it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...contract import Arrays, Check, Inputs
from ...precision import UNIT_ROUNDOFF, compare_floats, tolerance, widen

_SAFETY = 8.0  # as in `kernels.precision.tolerance`


def gather_pages(pages: Any, table: Any, length: int) -> Any:
    """Return the keys or values of one sequence, ``[kv_heads, length, head_dim]``, from the pages that hold them."""
    page_size = pages.shape[2]
    own = pages[table[: -(-length // page_size)]].swapaxes(0, 1)
    return own.reshape(own.shape[0], -1, own.shape[-1])[:, :length]


def visible_keys(length: int, query_tokens: int, window: int) -> Any:
    """Return which keys each query token sees, ``[query_tokens, length]``."""
    position = np.arange(length - query_tokens, length)[:, None]
    key = np.arange(length)
    return (key <= position) & ((key > position - window) if window else True)


def reference(inputs: Inputs) -> Arrays:
    """Compute ``out[batch, query_tokens, q_heads, head_dim]`` and ``lse[batch, query_tokens, q_heads]``."""
    w: Any = inputs.workload
    arrays = inputs.arrays
    out = np.empty((w.batch, w.query_tokens, w.q_heads, w.head_dim))
    lse = np.empty((w.batch, w.query_tokens, w.q_heads))
    for b, length in enumerate(arrays["lengths"].tolist()):
        q = widen(arrays["q"][b]).astype(np.float64)
        hidden = ~visible_keys(length, w.query_tokens, w.window)
        table = arrays["page_table"][b]
        keys = gather_pages(arrays["k_pages"], table, length)
        values = gather_pages(arrays["v_pages"], table, length)
        for head in range(w.kv_heads):
            own = slice(head * w.group, (head + 1) * w.group)
            k, v = widen(keys[head]).astype(np.float64), widen(values[head]).astype(np.float64)
            s = (q[:, own] @ k.T) * w.scale
            s[np.broadcast_to(hidden[:, None], s.shape)] = -np.inf
            top = s.max(-1, keepdims=True)
            sink = np.full((w.group, 1), -np.inf)
            if w.sinks:
                sink = arrays["sinks"][own, None].astype(np.float64)
                top = np.maximum(top, sink)
            p = np.exp(s - top)
            total = p.sum(-1, keepdims=True) + np.exp(sink - top)
            # A slot that no query sees may hold anything, NaN too.
            seen = ~hidden.all(0)
            out[b, :, own] = p[..., seen] @ v[seen] / total
            lse[b, :, own] = (np.log(total) + top)[..., 0]
    return {"out": out, "lse": lse}


def _score_error(inputs: Inputs) -> float:
    """Return ``(8 u_fp32 + u) scale max|q| max|k|`` over whole rows, with ``u`` of bf16 or 0 for fp32.

    The first part is the rounding of a sum in fp32, the second that of a score stored in bf16, as a matrix product of
    torch does.
    """
    w: Any = inputs.workload
    longest = []
    for name in ("q", "k_pages"):
        most = 0.0
        for block in inputs.arrays[name]:
            squares = np.square(widen(block)).sum(-1, dtype=np.float64)
            most = max(most, float(np.max(squares, where=np.isfinite(squares), initial=0.0)))
        longest.append(most**0.5)
    stored = UNIT_ROUNDOFF["bf16"] if w.precision == "bf16" else 0.0
    return (_SAFETY * UNIT_ROUNDOFF["fp32"] + stored) * w.scale * longest[0] * longest[1]


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Allow ``e = tolerance(fp32, longest sequence, precision) + (8 u_fp32 + u) scale max|q| max|k|``.

    The first term is the sum over keys, and the weights rounded to the precision of the values before they meet; the
    second (see `_score_error`) the scores, whose absolute error is the relative one of a weight. ``out`` may err by
    ``e`` times the larger of the number and the root mean square of its sequence, so that a long sequence is not
    judged by a short one; ``lse`` by ``e`` times the larger of the number and 1.
    """
    w: Any = inputs.workload
    allowed = tolerance("fp32", w.context, output=w.precision) + _score_error(inputs)
    if "out" not in output or np.shape(output["out"]) != expected["out"].shape:
        return compare_floats(output, {"out": expected["out"]}, allowed)
    level = np.sqrt(np.mean(np.square(expected["out"]), axis=(1, 2, 3), keepdims=True))
    level = np.maximum(level, np.finfo(np.float32).tiny)
    got = {**output, "out": np.asarray(output["out"], np.float64) / level}
    want = {"out": expected["out"] / level}
    if "lse" in output:
        want["lse"] = expected["lse"]
    return compare_floats(got, want, allowed, dict.fromkeys(want, 1.0))
