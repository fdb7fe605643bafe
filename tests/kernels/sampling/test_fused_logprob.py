"""sampling.fused_logprob: values and gradients against float64, finite differences, and what it holds in memory."""

from typing import Any

import numpy as np
import pytest
from roofcast.kernels import WorkloadError, get_implementation, get_operator
from roofcast.kernels.contract import Inputs
from roofcast.kernels.sampling.fused_logprob.operator import FusedLogprob, cost, reference

# Numpy, under Triton's interpreter, reports the NaN that a test is about.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.runtime.interpreter")

OPERATOR = get_operator("sampling.fused_logprob")


def _run(implementation: str, inputs: Inputs) -> dict[str, Any]:
    prepared = get_implementation("sampling.fused_logprob", implementation).prepare(inputs, "cpu")
    prepared.run()
    prepared.run()  # nothing may be left over from the run before
    return {name: value.copy() for name, value in prepared.output().items()}


@pytest.mark.parametrize("implementation", ["numba", "torch", "triton"])
@pytest.mark.parametrize(
    "workload",
    [
        FusedLogprob(13, 64, 501),
        FusedLogprob(70, 72, 1001, "bf16", 0.7, backward=True),
        FusedLogprob(20, 24, 300, temperature=3.0, backward=True),
        FusedLogprob(1, 8, 1, backward=True),
        FusedLogprob(3, 16, 2050, backward=True),
    ],
    ids=FusedLogprob.label,
)
def test_against_the_reference(implementation: str, workload: FusedLogprob) -> None:
    inputs = OPERATOR.make_inputs(workload, 5)
    output = _run(implementation, inputs)
    assert set(output) == set(inputs.expected(reference))
    result = OPERATOR.check(output, inputs)
    assert result.ok, result.message


def test_several_tiles_of_rows_and_chunks_of_tokens() -> None:
    inputs = OPERATOR.make_inputs(FusedLogprob(2050, 16, 4100, backward=True), 2)
    result = OPERATOR.check(_run("numba", inputs), inputs)
    assert result.ok, result.message


def test_gradients_are_those_of_finite_differences() -> None:
    inputs = OPERATOR.make_inputs(FusedLogprob(4, 8, 30, temperature=1.3, backward=True), 0)
    output, step = _run("numba", inputs), 1e-3

    def loss(name: str, index: tuple[int, int], by: float) -> float:
        moved = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in inputs.arrays.items()}
        moved[name][index] += by
        x = moved["hidden"] @ moved["weight"].T / 1.3
        x -= np.log(np.exp(x).sum(1, keepdims=True))
        return float((x[np.arange(4), moved["token"]] * moved["grad"]).sum())

    for name in ("hidden", "weight"):
        for index in ((0, 0), (3, 5), (int(inputs.arrays["token"][1]) % 4, 2)):
            slope = (loss(name, index, step) - loss(name, index, -step)) / (2 * step)
            assert abs(output[f"grad_{name}"][index] - slope) < 1e-4 * max(1.0, abs(slope))


def test_very_unlikely_tokens_keep_their_digits() -> None:
    inputs = OPERATOR.make_inputs(FusedLogprob(3, 8, 50, backward=True), 1)
    inputs.arrays["hidden"][:] = 0.0
    inputs.arrays["hidden"][:, 0] = 1.0
    inputs.arrays["weight"][:, 0] = np.linspace(-120.0, 0.0, 50)
    inputs.arrays["token"][:] = [0, 25, 49]
    output = _run("numba", inputs)
    assert output["logprob"][0] < -115
    np.testing.assert_allclose(output["logprob"], reference(inputs)["logprob"], rtol=1e-6, atol=1e-6)
    assert OPERATOR.check(output, inputs).ok


@pytest.mark.parametrize("implementation", ["numba", "triton"])
def test_nan_stays_in_its_row(implementation: str) -> None:
    inputs = OPERATOR.make_inputs(FusedLogprob(5, 16, 300), 0)
    inputs.arrays["hidden"][2, 3] = np.nan
    logprob = _run(implementation, inputs)["logprob"]
    assert np.isnan(logprob).tolist() == [False, False, True, False, False]


def test_it_holds_a_small_part_of_the_logits() -> None:
    """Beyond inputs and outputs, less than 5 % of the bytes that the logits would take."""
    import tracemalloc

    inputs = OPERATOR.make_inputs(FusedLogprob(1024, 8, 60_000), 0)
    tracemalloc.start()
    try:
        prepared = get_implementation("sampling.fused_logprob", "numba").prepare(inputs, "cpu")
        prepared.run()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.05 * 4 * 1024 * 60_000


def test_check_refuses_wrong_outputs() -> None:
    inputs = OPERATOR.make_inputs(FusedLogprob(6, 16, 100, backward=True), 0)
    good = _run("numba", inputs)
    assert OPERATOR.check(good, inputs).ok
    for name, value in good.items():
        assert not OPERATOR.check({**good, name: value * 1.01}, inputs).ok, name
        assert not OPERATOR.check({**good, name: value[:3]}, inputs).ok, name
        assert not OPERATOR.check({k: v for k, v in good.items() if k != name}, inputs).ok, name


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"rows": 0}, "rows"),
        ({"width": 12}, "width"),
        ({"vocab": 0}, "vocab"),
        ({"precision": "fp8"}, "precision"),
        ({"temperature": 0.0}, "temperature"),
    ],
)
def test_impossible_workloads_are_refused(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(WorkloadError, match=name):
        FusedLogprob(**fields)


def test_tokens_outside_the_vocabulary_are_refused() -> None:
    inputs = OPERATOR.make_inputs(FusedLogprob(2, 8, 30), 0)
    inputs.arrays["token"][1] = 30
    with pytest.raises(WorkloadError, match=r"token = \[30\]"):
        _run("numba", inputs)


def test_cost_counts_one_product_or_four() -> None:
    assert cost(FusedLogprob(2, 8, 100)).flops["matrix.fp32"] == 2 * 2 * 8 * 100
    assert cost(FusedLogprob(2, 8, 100, backward=True)).flops["matrix.fp32"] == 8 * 2 * 8 * 100
    assert cost(FusedLogprob(2, 8, 100, "bf16")).read_bytes["dram"] == 2 * 102 * 8 + 16
