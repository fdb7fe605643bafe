"""sync.delta: every implementation gives exactly the changed weights, and they restore the new version."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofcast.kernels import WorkloadError, get_implementation, get_operator
from roofcast.kernels.contract import Inputs
from roofcast.kernels.sync.delta.operator import Delta, cost

OPERATOR = get_operator("sync.delta")
IMPLEMENTATIONS = ("numba", "torch", "triton")


def _run(implementation: str, inputs: Inputs) -> dict[str, Any]:
    prepared = get_implementation("sync.delta", implementation).prepare(inputs, "cpu")
    prepared.run()
    return prepared.output()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("weights", [1, 13, 200, 9001])
@pytest.mark.parametrize("changed", [0.0, 0.02, 1.0])
def test_awkward_sizes(implementation: str, weights: int, changed: float) -> None:
    for run in (1, min(weights, 7)):
        inputs = OPERATOR.make_inputs(Delta(weights, changed, run), weights)
        output = _run(implementation, inputs)
        result = OPERATOR.check(output, inputs)
        assert result.ok, result.message
        restored = inputs.arrays["old"].copy()
        restored[output["position"]] = output["value"]
        np.testing.assert_array_equal(restored, inputs.arrays["new"])


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5000), st.floats(0, 1), st.integers(0, 99))
def test_numba_on_any_share(weights: int, changed: float, seed: int) -> None:
    inputs = OPERATOR.make_inputs(Delta(weights, changed), seed)
    assert OPERATOR.check(_run("numba", inputs), inputs).ok


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_bits_are_compared(implementation: str) -> None:
    old = np.array([0x7FC0, 0x0000, 0x3F80, 0x7FC0], np.uint16)
    new = np.array([0x7FC0, 0x8000, 0x3F80, 0x7FC1], np.uint16)
    output = _run(implementation, Inputs(Delta(4), 0, {"old": old, "new": new}))
    assert output["position"].tolist() == [1, 3]
    assert output["value"].tolist() == [0x8000, 0x7FC1]


def test_wrong_outputs_are_refused_and_bytes_counted() -> None:
    workload = Delta(1000, 0.1)
    inputs = OPERATOR.make_inputs(workload, 0)
    right = _run("numba", inputs)
    for name in right:
        wrong = {key: value.copy() for key, value in right.items()}
        wrong[name][5] += 1
        assert not OPERATOR.check(wrong, inputs).ok
        assert not OPERATOR.check(right | {name: right[name][:-1]}, inputs).ok
    assert cost(workload).dram_bytes == 4000 + 600


@pytest.mark.parametrize(("field", "value"), [("weights", 0), ("changed", 1.5), ("run", 0)])
def test_impossible_workloads_name_the_field(field: str, value: Any) -> None:
    with pytest.raises(WorkloadError, match=field):
        dataclasses.replace(Delta(), **{field: value})
