"""train.adamw: every implementation against float64 and against torch's optimiser; clipping; repeated steps."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from roofcast.kernels import WorkloadError, get_implementation, get_operator
from roofcast.kernels.contract import Inputs, Prepared
from roofcast.kernels.train.adamw.operator import AdamW, cost, reference

OPERATOR = get_operator("train.adamw")
IMPLEMENTATIONS = ("numba", "torch", "torch_fused", "triton")


def _prepare(implementation: str, inputs: Inputs) -> Prepared:
    return get_implementation("train.adamw", implementation).prepare(inputs, "cpu")


def _run(implementation: str, inputs: Inputs) -> dict[str, Any]:
    prepared = _prepare(implementation, inputs)
    prepared.run()
    return prepared.output()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("parameters", [1, 13, 200, 9001])
def test_awkward_sizes(implementation: str, parameters: int) -> None:
    for fields in ({}, {"gradient": "fp32", "clip": 0.0}, {"learning_rate": 0.01, "step": 1, "clip": 100.0}):
        workload = AdamW(parameters, **fields)
        inputs = OPERATOR.make_inputs(workload, parameters)
        output = _run(implementation, inputs)
        assert set(output) == set(reference(inputs))
        result = OPERATOR.check(output, inputs)
        assert result.ok, f"{workload.label()}: {result.message}"


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 5000),
    st.sampled_from(["fp32", "bf16"]),
    st.sampled_from([0.0, 0.5, 50.0]),
    st.floats(1e-7, 0.1),
    st.integers(1, 2000),
    st.integers(0, 99),
)
def test_numba_on_any_step(n: int, gradient: str, clip: float, rate: float, step: int, seed: int) -> None:
    workload = AdamW(n, gradient, clip, rate, step=step)
    inputs = OPERATOR.make_inputs(workload, seed)
    result = OPERATOR.check(_run("numba", inputs), inputs)
    assert result.ok, result.message


@pytest.mark.parametrize("clip", [0.0, 0.5, 1e3])
def test_reference_is_torchs_optimiser_in_float64(clip: float) -> None:
    workload = AdamW(50, "fp32", clip, 0.01, weight_decay=0.1, step=7)
    inputs = OPERATOR.make_inputs(workload, 0)
    arrays = {name: torch.from_numpy(array).double() for name, array in inputs.arrays.items()}
    parameter = torch.nn.Parameter(arrays["master"].clone())
    optimiser = torch.optim.AdamW([parameter], lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1, foreach=False)
    optimiser.state[parameter] = {
        "step": torch.tensor(6.0, dtype=torch.float64), "exp_avg": arrays["m"], "exp_avg_sq": arrays["v"],
    }  # fmt: skip
    parameter.grad = arrays["gradient"].clone()
    if clip:
        torch.nn.utils.clip_grad_norm_([parameter], clip)
    optimiser.step()
    want = reference(inputs)
    np.testing.assert_allclose(want["master"], parameter.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(want["m"], arrays["m"].numpy(), rtol=1e-12)
    np.testing.assert_allclose(want["v"], arrays["v"].numpy(), rtol=1e-12)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_run_goes_on_and_output_is_the_first_step(implementation: str) -> None:
    inputs = OPERATOR.make_inputs(AdamW(3000, learning_rate=0.01), 5)
    before = {name: array.copy() for name, array in inputs.arrays.items()}
    prepared = _prepare(implementation, inputs)
    for _ in range(5):
        prepared.run()
    assert OPERATOR.check(prepared.output(), inputs).ok
    for name, array in inputs.arrays.items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_gradient_of_zero_and_a_tiny_one(implementation: str) -> None:
    inputs = OPERATOR.make_inputs(AdamW(100, "fp32"), 5)
    inputs.arrays["gradient"][:50] = 0.0
    inputs.arrays["gradient"][50:] *= np.float32(1e-15)
    inputs.arrays["v"][:] = 0.0
    result = OPERATOR.check(_run(implementation, inputs), inputs)
    assert result.ok, result.message


def test_wrong_outputs_are_refused() -> None:
    inputs = OPERATOR.make_inputs(AdamW(64), 0)
    right = _run("numba", inputs)
    for name in right:
        wrong = {key: value.copy() for key, value in right.items()}
        wrong[name].flat[0] = wrong[name].flat[0] * 1.01 + 1e-4
        assert not OPERATOR.check(wrong, inputs).ok
    # A step that was not taken, at the smallest learning rate in use.
    still = right | {"master": inputs.arrays["master"]}
    assert not OPERATOR.check(still, inputs).ok
    assert not OPERATOR.check(right | {"weight": right["master"]}, inputs).ok


def test_bytes_per_parameter() -> None:
    assert cost(AdamW(100)).dram_bytes == 100 * (2 + 12 + 12 + 2)
    assert cost(AdamW(100, "fp32", clip=0.0)).read_bytes["dram"] == 1600


@pytest.mark.parametrize(
    ("field", "value"),
    [("parameters", 0), ("gradient", "fp8"), ("clip", -1.0), ("learning_rate", 0.0), ("beta2", 1.0), ("step", 0),
     ("epsilon", 0.0), ("weight_decay", -0.1)],
)  # fmt: skip
def test_impossible_workloads_name_the_field(field: str, value: Any) -> None:
    with pytest.raises(WorkloadError, match=field):
        dataclasses.replace(AdamW(), **{field: value})
