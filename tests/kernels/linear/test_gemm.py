"""linear.gemm: every implementation against float64, edge cases, and what compilation shows."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofcast.kernels import WorkloadError, get_implementation, get_operator
from roofcast.kernels.contract import Inputs
from roofcast.kernels.linear.gemm.operator import Gemm, cost
from roofcast.kernels.matmul import triton_configs

OPERATOR = get_operator("linear.gemm")
# Few rows and panels; outputs that are not whole tiles; fewer outputs than a tile of few rows has.
SHAPES = [(1, 3, 8), (1, 101, 72), (8, 101, 136), (9, 11, 16), (150, 77, 40)]


def _run(implementation: str, inputs: Inputs) -> dict[str, Any]:
    prepared = get_implementation("linear.gemm", implementation).prepare(inputs, "cpu")
    prepared.run()
    return prepared.output()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("implementation", ["numba", "torch"])
def test_against_the_reference(implementation: str, precision: str) -> None:
    for shape in SHAPES:
        inputs = OPERATOR.make_inputs(Gemm(*shape, precision), sum(shape))
        result = OPERATOR.check(_run(implementation, inputs), inputs)
        assert result.ok, f"{inputs.workload.label()}: {result.message}"


@pytest.mark.parametrize("target", ["sm_80", "sm_100"])  # by pointers, by tensor descriptors
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_triton_in_the_interpreter(monkeypatch: pytest.MonkeyPatch, target: str, precision: str) -> None:
    from roofcast.kernels.linear.gemm import triton_kernel

    monkeypatch.setattr(triton_kernel, "device_target", lambda device: target)
    for shape in [(1, 3, 8), (13, 200, 40), (131, 264, 136)]:
        inputs = OPERATOR.make_inputs(Gemm(*shape, precision), 5)
        result = OPERATOR.check(_run("triton", inputs), inputs)
        assert result.ok, f"{inputs.workload.label()}: {result.message}"


@settings(max_examples=20, deadline=None)
@given(tokens=st.integers(1, 40), outputs=st.integers(1, 60), eighths=st.integers(1, 12), seed=st.integers(0, 99))
def test_scaling_by_two_and_permuting_rows_change_nothing(tokens: int, outputs: int, eighths: int, seed: int) -> None:
    inputs = OPERATOR.make_inputs(Gemm(tokens, outputs, 8 * eighths), seed)
    x, weight = inputs.arrays["x"], inputs.arrays["weight"]
    order = np.random.default_rng(seed).permutation(outputs)
    base = _run("numba", inputs)["y"]
    moved = _run("numba", Inputs(inputs.workload, seed, {"x": 2 * x, "weight": np.ascontiguousarray(weight[order])}))
    np.testing.assert_array_equal(moved["y"], 2 * base[:, order])


def test_infinities_and_nan_stay_where_they_belong() -> None:
    inputs = OPERATOR.make_inputs(Gemm(30, 50, 64), 0)
    inputs.arrays["x"][3, 5] = np.inf
    inputs.arrays["x"][20, 1] = np.nan
    inputs.arrays["weight"][7, 0] = -np.inf
    result = OPERATOR.check(_run("numba", inputs), inputs)
    assert result.ok, result.message


def test_check_refuses_wrong_outputs() -> None:
    inputs = OPERATOR.make_inputs(Gemm(20, 30, 64), 0)
    y = _run("torch", inputs)["y"]
    assert OPERATOR.check({"y": y}, inputs).ok
    off = y.copy()
    off[4, 5] += 1e-3
    for wrong in ({"y": off}, {"y": y[:-1]}, {}, {"y": y.T}):
        assert not OPERATOR.check(wrong, inputs).ok


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"tokens": 0}, "tokens"),
        ({"out_features": 0}, "out_features"),
        ({"in_features": 12}, "in_features"),
        ({"in_features": 0}, "in_features"),
        ({"precision": "fp16"}, "precision"),
    ],
)
def test_impossible_workloads_are_refused(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(WorkloadError, match=name):
        Gemm(**fields)


def test_cost_by_hand() -> None:
    counted = cost(Gemm(2, 3, 8, "bf16"))
    assert counted.flops == {"matrix.bf16": 96}
    assert counted.read_bytes["dram"] == 2 * (16 + 24)
    assert counted.write_bytes["dram"] == 12


def test_configurations_of_unknown_targets_are_those_of_an_ancestor() -> None:
    for unknown, known in (("sm_86", "sm_80"), ("sm_121", "sm_120"), ("gfx90a", "gfx942")):
        for few in (False, True):
            found = triton_configs.tile_config(unknown, "bf16", few=few, pair=False)
            assert found == triton_configs.tile_config(known, "bf16", few=few, pair=False)
    assert not triton_configs.tile_config("sm_86", "bf16", few=False, pair=False).tma
