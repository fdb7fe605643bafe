"""attention.prefill_backward: cost, reference against finite differences, and Numba and torch against the reference."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from roofcast.kernels import WorkloadError, get_implementation, get_operator
from roofcast.kernels.attention.prefill import operator as forward
from roofcast.kernels.attention.prefill_backward.operator import AttentionPrefillBackward, cost
from roofcast.kernels.contract import Inputs

OPERATOR = get_operator("attention.prefill_backward")
AWKWARD = [
    AttentionPrefillBackward(1, 1, 1, 1, 64),
    AttentionPrefillBackward(3, 13, 3, 1, 96),
    AttentionPrefillBackward(2, 127, 7, 7, 128, causal=False),
    AttentionPrefillBackward(3, 129, 3, 3, 192, lengths="uniform", prefix=71),
    AttentionPrefillBackward(3, 400, 6, 2, 48, lengths="lognormal", window=33),
    AttentionPrefillBackward(1, 200, 2, 1, 256),
    # The first queries see nothing.
    AttentionPrefillBackward(3, 129, 2, 1, 64, prefix=-60, lengths="uniform"),
]


def _run(inputs: Inputs, name: str = "numba") -> dict[str, Any]:
    prepared = get_implementation("attention.prefill_backward", name).prepare(inputs, "cpu")
    prepared.run()
    first = {key: value.copy() for key, value in prepared.output().items()}
    prepared.run()
    for key, value in prepared.output().items():
        np.testing.assert_array_equal(value, first[key])
    return first


@pytest.mark.parametrize("workload", AWKWARD, ids=AttentionPrefillBackward.label)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ["numba", "torch"])
def test_awkward_shapes(workload: AttentionPrefillBackward, precision: str, name: str) -> None:
    inputs = OPERATOR.make_inputs(dataclasses.replace(workload, precision=precision), 5)
    result = OPERATOR.check(_run(inputs, name), inputs)
    assert result.ok, result.message


def test_reference_against_finite_differences() -> None:
    inputs = OPERATOR.make_inputs(AttentionPrefillBackward(1, 5, 2, 1, 16, prefix=2), 0)
    gradients = OPERATOR.reference(inputs)
    for name in ("q", "k", "v"):
        for index in ((0, 0, 3), (4, 0, 7)):
            losses = []
            for sign in (1, -1):
                moved = {**inputs.arrays, name: inputs.arrays[name].copy()}
                moved[name][index] += sign * np.float32(2**-7)
                out = forward.reference(Inputs(inputs.workload, 0, moved))["out"]
                losses.append(float((out * inputs.arrays["dout"]).sum()))
            slope = (losses[0] - losses[1]) / 2**-6
            assert gradients[f"d{name}"][index] == pytest.approx(slope, rel=1e-3, abs=1e-4)


def test_cost_counts_the_scores_made_anew() -> None:
    w = AttentionPrefillBackward(2, 100, 4, 2, 64)
    assert cost(w).flops["matrix.fp32"] == 2.5 * forward.cost(w).flops["matrix.fp32"]
    assert cost(w).write_bytes["dram"] == 4 * 64 * 200 * (4 + 2 * 2)
    assert cost(w).read_bytes["dram"] == 4 * 64 * 200 * (3 * 4 + 2 * 2) + 4 * 200 * 4


def test_a_window_over_everything_is_none() -> None:
    plain = AttentionPrefillBackward(2, 250, 3, 1, 64, lengths="uniform", prefix=5)
    inputs = OPERATOR.make_inputs(plain, 2)
    base = _run(inputs)
    found = _run(Inputs(dataclasses.replace(plain, window=255), 2, inputs.arrays))
    for name, value in base.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize(("field", "value"), [("sinks", True), ("softcap", 5.0), ("head_dim", 40)])
def test_impossible_workloads_are_refused(field: str, value: Any) -> None:
    fields: dict[str, Any] = {field: value}
    with pytest.raises(WorkloadError, match=field):
        AttentionPrefillBackward(**fields)
