"""train.rmsnorm: every implementation against float64, and the gradients against autograd and finite differences."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from roofcast.kernels import WorkloadError, get_implementation, get_operator
from roofcast.kernels.contract import Inputs
from roofcast.kernels.train.rmsnorm.operator import RmsNorm, cost, reference

OPERATOR = get_operator("train.rmsnorm")
IMPLEMENTATIONS = ("numba", "torch", "torch_rms_norm", "triton")


def _run(implementation: str, inputs: Inputs) -> dict[str, Any]:
    prepared = get_implementation("train.rmsnorm", implementation).prepare(inputs, "cpu")
    prepared.run()
    return prepared.output()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize(("tokens", "hidden"), [(1, 1), (13, 200), (5, 2049), (37, 64)])
def test_awkward_shapes(implementation: str, direction: str, tokens: int, hidden: int) -> None:
    for stored, residual in (("bf16", True), ("fp32", False)):
        workload = RmsNorm(tokens, hidden, stored, direction, residual)
        inputs = OPERATOR.make_inputs(workload, tokens)
        output = _run(implementation, inputs)
        assert set(output) == set(reference(inputs))
        result = OPERATOR.check(output, inputs)
        assert result.ok, f"{workload.label()}: {result.message}"


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 300),
    st.sampled_from(["fp32", "bf16"]),
    st.sampled_from(["forward", "backward"]),
    st.booleans(),
    st.integers(0, 99),
)
def test_numba_on_any_shape(tokens: int, hidden: int, stored: str, direction: str, residual: bool, seed: int) -> None:
    inputs = OPERATOR.make_inputs(RmsNorm(tokens, hidden, stored, direction, residual), seed)
    result = OPERATOR.check(_run("numba", inputs), inputs)
    assert result.ok, result.message


def test_reference_gradients_are_those_of_autograd_and_of_finite_differences() -> None:
    workload = RmsNorm(4, 7, "fp32", "backward", epsilon=1e-3)
    inputs = OPERATOR.make_inputs(workload, 3)
    want = reference(inputs)
    arrays = {name: torch.from_numpy(array).double() for name, array in inputs.arrays.items()}
    h, weight = arrays["h"].requires_grad_(), arrays["weight"].requires_grad_()

    def loss(h: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y = h / torch.sqrt((h * h).mean(-1, keepdim=True) + workload.epsilon) * weight
        return (y * arrays["grad_y"]).sum() + (h * arrays["grad_residual"]).sum()

    loss(h, weight).backward()
    assert h.grad is not None
    assert weight.grad is not None
    np.testing.assert_allclose(want["grad_h"], h.grad.numpy(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(want["grad_weight"], weight.grad.numpy(), rtol=1e-12, atol=1e-12)
    step = 1e-6
    for r, i in ((0, 0), (3, 6)):
        moved = torch.zeros_like(h)
        moved[r, i] = step
        slope = (loss(h + moved, weight) - loss(h - moved, weight)).item() / (2 * step)
        assert want["grad_h"][r, i] == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_rows_of_zeros_and_of_large_values(implementation: str) -> None:
    inputs = OPERATOR.make_inputs(RmsNorm(3, 33, "fp32"), 0)
    x, residual = inputs.arrays["x"], inputs.arrays["residual"]
    x[0], residual[0] = 0.0, 0.0
    x[1] *= 1e15
    result = OPERATOR.check(_run(implementation, inputs), inputs)
    assert result.ok, result.message


def test_a_wrong_output_is_refused() -> None:
    inputs = OPERATOR.make_inputs(RmsNorm(5, 32, "bf16", "backward"), 0)
    right = _run("numba", inputs)
    for name in right:
        wrong = {key: value.copy() for key, value in right.items()}
        wrong[name].flat[3] += 1.0
        assert not OPERATOR.check(wrong, inputs).ok
        assert not OPERATOR.check({key: value for key, value in right.items() if key != name}, inputs).ok


def test_bytes_are_counted_once() -> None:
    forward = RmsNorm(8, 32)
    assert cost(forward).read_bytes["dram"] == 2 * (2 * 8 * 32 + 32)
    assert cost(forward).write_bytes["dram"] == 2 * 2 * 8 * 32 + 4 * 8
    backward = dataclasses.replace(forward, direction="backward", precision="fp32", residual=False)
    assert cost(backward).read_bytes["dram"] == 4 * (2 * 8 * 32 + 32) + 4 * 8
    assert cost(backward).write_bytes["dram"] == 4 * 8 * 32 + 4 * 32


@pytest.mark.parametrize(
    ("field", "value"),
    [("tokens", 0), ("hidden", 0), ("precision", "fp8"), ("direction", "up"), ("epsilon", 0.0)],
)
def test_impossible_workloads_name_the_field(field: str, value: Any) -> None:
    with pytest.raises(WorkloadError, match=field):
        dataclasses.replace(RmsNorm(), **{field: value})
