"""Prefill attention in float64, and how far an output may be from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...contract import Arrays, Check, Inputs
from ...precision import UNIT_ROUNDOFF, compare_floats, tolerance, widen

_SAFETY = 8.0  # as in `kernels.precision.tolerance`
_ROWS = 1024  # of scores held at a time


class _Piece(NamedTuple):
    """Some queries of one head: their rows, the head, and in float64 the values that its keys have and the scores."""

    rows: slice
    head: int
    v: Any
    s: Any


def _pieces(inputs: Inputs) -> Iterator[_Piece]:
    """Yield all heads of all sequences, some queries at a time, with their scores (-inf where a key is hidden)."""
    w: Any = inputs.workload
    q, k, v = (widen(inputs.arrays[name]).astype(np.float64) for name in ("q", "k", "v"))
    starts, key_starts = inputs.arrays["query_offsets"].tolist(), inputs.arrays["key_offsets"].tolist()
    for b in range(w.batch):
        queries, count = starts[b + 1] - starts[b], key_starts[b + 1] - key_starts[b]
        hidden = ~w.mask.dense(queries, count)
        keys = slice(key_starts[b], key_starts[b + 1])
        for head in range(w.q_heads):
            own = head // w.group
            for first in range(0, queries, _ROWS):
                part = slice(first, min(first + _ROWS, queries))
                rows = slice(starts[b] + part.start, starts[b] + part.stop)
                s = (q[rows, head] @ k[keys, own].T) * w.scale
                if w.softcap:
                    s = w.softcap * np.tanh(s / w.softcap)
                s[hidden[part]] = -np.inf
                yield _Piece(rows, head, v[keys, own], s)


def _softmax(s: Any, sink: float) -> tuple[Any, Any]:
    """Return the weights of rows of scores beside a sink, and the log of their sums; zeros and -inf for no key."""
    top = np.maximum(s.max(-1, initial=-np.inf, keepdims=True), sink)
    base = np.where(np.isfinite(top), top, 0.0)
    p = np.exp(s - base)
    total = p.sum(-1, keepdims=True) + np.exp(sink - base)
    lse = np.where(total > 0, np.log(np.where(total > 0, total, 1.0)) + base, -np.inf)
    return p / np.where(total > 0, total, 1.0), lse[:, 0]


def _sink_of(inputs: Inputs, head: int) -> float:
    """Return the sink of a head, -inf if it has none."""
    return float(inputs.arrays["sinks"][head]) if "sinks" in inputs.arrays else -np.inf


def reference(inputs: Inputs) -> Arrays:
    """Compute ``out [query tokens, q_heads, head_dim]`` and ``lse [query tokens, q_heads]``."""
    shape = inputs.arrays["q"].shape
    out, lse = np.zeros(shape), np.empty(shape[:2])
    for piece in _pieces(inputs):
        p, lse[piece.rows, piece.head] = _softmax(piece.s, _sink_of(inputs, piece.head))
        out[piece.rows, piece.head] = p @ piece.v
    return {"out": out, "lse": lse}


def _score_error(inputs: Inputs) -> float:
    """Return ``(8 u_fp32 + u)(scale max|q| max|k| + softcap)`` over whole rows, with ``u`` of bf16 or 0 for fp32.

    The first part is the rounding of a sum in fp32 and of a tanh, the second that of a score stored in bf16, as a
    matrix product of torch does.
    """
    w: Any = inputs.workload
    longest = [
        float(np.sqrt(np.max(np.square(widen(inputs.arrays[name])).sum(-1, dtype=np.float64), initial=0.0)))
        for name in ("q", "k")
    ]
    stored = UNIT_ROUNDOFF["bf16"] if w.precision == "bf16" else 0.0
    return (_SAFETY * UNIT_ROUNDOFF["fp32"] + stored) * (w.scale * longest[0] * longest[1] + w.softcap)


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Allow ``e = tolerance(fp32, most keys, precision) + (8 u_fp32 + u)(scale max|q| max|k| + softcap)``.

    The first term is the sum over keys, and weights and results rounded to the storage precision; the second (see
    `_score_error`) the scores, whose absolute error is the relative one of a weight. ``out`` may err by ``e`` times the
    larger of the number and the root mean square of its row and head, so that a late query, whose result is a mean of
    many values, is not judged by an early one; ``lse`` by ``e`` times the larger of the number and 1.
    """
    w: Any = inputs.workload
    allowed = tolerance("fp32", w.length + w.prefix, output=w.precision) + _score_error(inputs)
    if "out" not in output or np.shape(output["out"]) != expected["out"].shape:
        return compare_floats(output, {"out": expected["out"]}, allowed)
    level = np.sqrt(np.mean(np.square(expected["out"]), axis=-1, keepdims=True))
    level = np.maximum(level, np.finfo(np.float32).tiny)
    got = {**output, "out": np.asarray(output["out"], np.float64) / level}
    want = {"out": expected["out"] / level}
    if "lse" in output:
        want["lse"] = expected["lse"]
    return compare_floats(got, want, allowed, dict.fromkeys(want, 1.0))
