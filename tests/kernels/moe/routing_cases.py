"""Workloads and inputs shared by the tests of moe.routing's implementations."""

from typing import Any

import numpy as np
from roofcast.kernels import get_implementation, get_operator
from roofcast.kernels.contract import Inputs
from roofcast.kernels.moe.routing.operator import Routing
from roofcast.kernels.precision import store

OPERATOR = get_operator("moe.routing")
EXACT = ("experts", "counts", "offsets", "source", "block_expert")


def run(implementation: str, inputs: Inputs) -> dict[str, Any]:
    prepared = get_implementation("moe.routing", implementation).prepare(inputs, "cpu")
    prepared.run()
    return prepared.output()


def given(logits: Any, bias: Any = None, **fields: Any) -> Inputs:
    """Return inputs with the logits (and bias) given."""
    logits = np.asarray(logits, np.float32)
    workload = Routing(logits.shape[0], logits.shape[1], **fields)
    arrays: dict[str, Any] = {"logits": store(logits, workload.precision)}
    if workload.gate == "sigmoid":
        zeros = np.zeros(logits.shape[1], np.float32)
        arrays["bias"] = zeros if bias is None else np.asarray(bias, np.float32)
    return Inputs(workload, 0, arrays)


def assert_exact(implementation: str, inputs: Inputs) -> dict[str, Any]:
    """Hold an implementation to the reference's very choices, and so to the lowest expert among equals."""
    output = run(implementation, inputs)
    expected = inputs.expected(OPERATOR.reference)
    for name in EXACT:
        if name in expected:
            np.testing.assert_array_equal(output[name], expected[name], f"{name} of {inputs.workload.label()}")
    result = OPERATOR.check(output, inputs)
    assert result.ok, f"{inputs.workload.label()}: {result.message}"
    return output


def edge_rows(experts: int) -> Any:
    """Return logits of the defined edge cases, one row each."""
    rng = np.random.default_rng(experts)
    rows = rng.normal(0, 2, (9, experts)).astype(np.float32)
    rows[0] = 0.0
    rows[1] = -np.inf
    rows[2] = np.nan
    rows[3, ::2] = np.nan
    rows[4, experts // 2] = np.inf
    rows[5, 1:] = -np.inf
    rows[6] = np.where(rng.random(experts) < 0.5, 0.0, -0.0)
    rows[7] = np.round(rows[7])
    rows[8] = rows[8] * 1e37
    return rows
