"""The gradients of prefill attention with respect to queries, keys and values, from what the forward pass kept.

With ``s``, ``out`` and ``lse`` of `attention.prefill` and the gradient ``dout`` of ``out``::

    p = exp(s - lse)                       made anew: it is not kept
    dv = p.T @ dout
    ds = p * (dout @ v.T - sum(dout * out, last axis))
    dq = scale * ds @ k                    dk = scale * ds.T @ q

``dk`` and ``dv`` are summed over the query heads that share a KV head. Layouts are those of `attention.prefill`;
gradients have the storage precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...contract import Arrays, Check, Cost, Inputs, Operator, require
from ...precision import BYTES, UNIT_ROUNDOFF, compare_floats, store, tolerance, widen
from ..prefill import operator as forward
from ..prefill.operator import AttentionPrefill

# Products: scores again, the gradient of the weights, and dq, dk and dv.
_PRODUCTS = 5
# Of one score: scaling, two subtractions, a multiplication.
_VECTOR_FLOPS = 4


@dataclass(frozen=True)
class AttentionPrefillBackward(AttentionPrefill):
    """As `AttentionPrefill`, without sinks and softcap."""

    operator: ClassVar[str] = "attention.prefill_backward"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not self.sinks, "sinks", self.sinks, "their gradient is not computed; give False")
        require(not self.softcap, "softcap", self.softcap, "its gradient is not computed; give 0")


def cost(workload: AttentionPrefillBackward) -> Cost:
    """Count five products over visible pairs, scores made anew among them; inputs read and gradients written once."""
    w = workload
    pairs, keys = w.mask.totals(w.sequences())
    rows = float(sum(queries for queries, _ in w.sequences())) * w.q_heads
    scores = float(pairs) * w.q_heads
    size, kept = BYTES[w.precision] * w.head_dim, 2.0 * keys * w.kv_heads
    return Cost(
        flops={f"matrix.{w.precision}": 2.0 * _PRODUCTS * w.head_dim * scores, "vector.fp32": _VECTOR_FLOPS * scores},
        read_bytes={"dram": size * (3 * rows + kept) + 4 * rows},
        write_bytes={"dram": size * (rows + kept)},
        exponentials=scores,
    )


def make_inputs(workload: Any, seed: int) -> Inputs:
    """Draw the inputs of `attention.prefill` and ``dout``, standard normal; add its ``out`` and ``lse`` (fp32)."""
    inputs = forward.make_inputs(workload, seed)
    arrays = inputs.arrays
    found = forward.reference(inputs)
    arrays["out"] = store(found["out"].astype(np.float32), workload.precision)
    arrays["lse"] = found["lse"].astype(np.float32)
    rng = np.random.default_rng([seed, 1])
    arrays["dout"] = store(rng.standard_normal(arrays["q"].shape, dtype=np.float32), workload.precision)
    return Inputs(workload, seed, arrays)


def reference(inputs: Inputs) -> Arrays:
    """Compute ``dq``, ``dk`` and ``dv`` in float64, from scores and results made anew."""
    w: Any = inputs.workload
    q, k, v, dout = (widen(inputs.arrays[name]).astype(np.float64) for name in ("q", "k", "v", "dout"))
    found = {"dq": np.zeros(q.shape), "dk": np.zeros(k.shape), "dv": np.zeros(v.shape)}
    starts, key_starts = inputs.arrays["query_offsets"].tolist(), inputs.arrays["key_offsets"].tolist()
    for b in range(w.batch):
        rows, keys = slice(starts[b], starts[b + 1]), slice(key_starts[b], key_starts[b + 1])
        hidden = ~w.mask.dense(rows.stop - rows.start, keys.stop - keys.start)
        for head in range(w.q_heads):
            own = head // w.group
            s = np.where(hidden, -np.inf, (q[rows, head] @ k[keys, own].T) * w.scale)
            top = s.max(-1, initial=-np.inf, keepdims=True)
            p = np.exp(s - np.where(np.isfinite(top), top, 0.0))
            p /= np.maximum(p.sum(-1, keepdims=True), np.finfo(float).tiny)
            dp = dout[rows, head] @ v[keys, own].T
            ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * w.scale
            found["dq"][rows, head] = ds @ k[keys, own]
            found["dk"][keys, own] += ds.T @ q[rows, head]
            found["dv"][keys, own] += p.T @ dout[rows, head]
    return found


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Allow ``tolerance(fp32, longest sum, precision) + (8 u_fp32 + u) scale max|q| max|k|``, ``u`` of bf16 or 0.

    The second term is the error of a score, which is the relative one of a weight. Relative to the largest of a number,
    the root mean square of its array, and the size of a mean over all keys of ``scale (dout @ v) k``: where a query
    sees one key, ``dq`` is a difference of equal numbers.
    """
    w: Any = inputs.workload
    q, k = (float(np.sqrt(np.max(np.square(widen(inputs.arrays[n])).sum(-1), initial=0.0))) for n in ("q", "k"))
    stored = UNIT_ROUNDOFF["bf16"] if w.precision == "bf16" else 0.0
    longest = max(w.length + w.prefix, w.length * w.group)
    allowed = tolerance("fp32", longest, output=w.precision) + (8 * UNIT_ROUNDOFF["fp32"] + stored) * w.scale * q * k
    level = {name: float(np.sqrt(np.mean(np.square(x)))) if x.size else 1.0 for name, x in expected.items()}
    sizes = {n: float(np.sqrt(np.mean(np.square(widen(inputs.arrays[n]))))) for n in ("q", "k", "v", "dout")}
    mean = w.scale * sizes["dout"] * sizes["v"] * (w.head_dim / (w.length + w.prefix)) ** 0.5
    level["dq"] = max(level["dq"], mean * sizes["k"])
    level["dk"] = max(level["dk"], mean * sizes["q"])
    return compare_floats(output, expected, allowed, level)


OPERATOR = Operator(
    name="attention.prefill_backward",
    summary="gradients of the attention of prompts, with scores made anew",
    phases=("train",),
    workload_type=AttentionPrefillBackward,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
