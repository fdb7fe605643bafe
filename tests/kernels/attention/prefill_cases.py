"""Workloads and helpers that the tests of attention.prefill share."""

from typing import Any

from roofcast.kernels import get_implementation, get_operator
from roofcast.kernels.attention.prefill.operator import AttentionPrefill
from roofcast.kernels.contract import Inputs

OPERATOR = get_operator("attention.prefill")
AWKWARD = [
    AttentionPrefill(1, 1, 1, 1, 64),
    AttentionPrefill(3, 13, 3, 1, 96),
    AttentionPrefill(2, 127, 7, 7, 128, causal=False),
    AttentionPrefill(3, 129, 3, 3, 192, lengths="uniform", prefix=71),
    AttentionPrefill(3, 200, 6, 2, 64, lengths="lognormal", window=33, sinks=True),
    AttentionPrefill(2, 40, 2, 1, 256, prefix=160, softcap=3.0),
    AttentionPrefill(2, 200, 3, 1, 48, window=1),
    # The first queries see nothing.
    AttentionPrefill(2, 129, 2, 2, 64, prefix=-60),
    AttentionPrefill(3, 129, 2, 1, 64, prefix=-60, lengths="uniform", window=20, sinks=True),
]


def run_prefill(inputs: Inputs, name: str = "numba") -> dict[str, Any]:
    """Return a copy of what an implementation computes on the CPU."""
    prepared = get_implementation("attention.prefill", name).prepare(inputs, "cpu")
    prepared.run()
    return {key: value.copy() for key, value in prepared.output().items()}
