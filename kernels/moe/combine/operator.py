"""Add up the experts' results of each token by the router's weights, back in the order of the tokens.

With ``row(t, k)`` the row whose ``source`` is ``t * top_k + k``::

    out[t] = sum over k of weights[t, k] * y[row(t, k)]

summed in fp32 in the order of ``k``, whatever the number of threads, so that two runs agree to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...contract import Arrays, Check, Cost, Inputs, Operator
from ...precision import BYTES, compare_floats, store, tolerance, widen
from ..expert_rows import ExpertRows, draw_source


@dataclass(frozen=True)
class Combine(ExpertRows):
    """One MoE layer's combine; see `ExpertRows` for the fields. The result is stored in ``precision`` too."""

    operator: ClassVar[str] = "moe.combine"


def cost(workload: Combine) -> Cost:
    """Count every row, weight and index read once, the result written once, one multiply-add per element of a row."""
    w = workload
    size = BYTES[w.precision]
    return Cost(
        flops={"vector.fp32": 2.0 * w.slots * w.hidden},
        read_bytes={"dram": float(w.slots) * (w.hidden * size + 8)},
        write_bytes={"dram": float(w.tokens) * w.hidden * size},
    )


def make_inputs(workload: Combine, seed: int) -> Inputs:
    """Draw ``y[slots, hidden]``, ``weights[tokens, top_k]`` (fp32, of sum 1) and ``source[slots]`` (int32)."""
    w, rng = workload, np.random.default_rng(seed)
    weights = rng.standard_exponential((w.tokens, w.top_k), dtype=np.float32)
    weights /= weights.sum(axis=1, keepdims=True)
    y = store(rng.standard_normal((w.slots, w.hidden), dtype=np.float32), w.precision)
    return Inputs(w, seed, {"y": y, "weights": weights, "source": draw_source(w, rng)})


def reference(inputs: Inputs) -> Arrays:
    """Return ``out[tokens, hidden]`` in float64."""
    w, arrays = inputs.workload, inputs.arrays
    assert isinstance(w, Combine)
    row_of = np.argsort(arrays["source"]).reshape(w.tokens, w.top_k)
    out = np.zeros((w.tokens, w.hidden))
    for k in range(w.top_k):
        out += arrays["weights"][:, k, None] * widen(arrays["y"][row_of[:, k]]).astype(np.float64)
    return {"out": out}


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Allow the rounding of an fp32 sum over ``top_k`` terms, and that of the stored result."""
    w = inputs.workload
    assert isinstance(w, Combine)
    return compare_floats(output, expected, tolerance("fp32", w.top_k, output=w.precision))


OPERATOR = Operator(
    name="moe.combine",
    summary="weighted sum of the experts' rows of each token, in fp32 and in a fixed order",
    phases=("rollout", "logprob", "train"),
    workload_type=Combine,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
