"""moe.dispatch and moe.combine: every implementation against the definition, round trips, fp8 blocks, bad sources."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofcast.kernels import WorkloadError, get_implementation, get_operator, precision
from roofcast.kernels.contract import Inputs
from roofcast.kernels.moe.combine.operator import Combine
from roofcast.kernels.moe.combine.operator import cost as combine_cost
from roofcast.kernels.moe.dispatch import numba_kernel
from roofcast.kernels.moe.dispatch.operator import BLOCK, Dispatch
from roofcast.kernels.moe.dispatch.operator import cost as dispatch_cost
from roofcast.kernels.narrow_formats import decode_e4m3

IMPLEMENTATIONS = ("numba", "torch", "triton")
# Tokens, experts, chosen experts, width: one of each; rows shorter than a vector and not whole vectors; gpt-oss' width.
SHAPES = [(1, 1, 1, 8), (13, 7, 3, 136), (127, 129, 8, 200), (5, 4, 4, 2880)]


def _run(operator: str, implementation: str, inputs: Inputs) -> dict[str, Any]:
    prepared = get_implementation(operator, implementation).prepare(inputs, "cpu")
    prepared.run()
    return prepared.output()


def _assert_right(implementation: str, inputs: Inputs) -> dict[str, Any]:
    name = inputs.workload.operator
    output = _run(name, implementation, inputs)
    result = get_operator(name).check(output, inputs)
    assert result.ok, f"{implementation} {inputs.workload.label()}: {result.message}"
    return output


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("stored", ["fp32", "bf16"])
def test_on_awkward_shapes(implementation: str, stored: str) -> None:
    for shape in SHAPES:
        for workload in (
            Dispatch(*shape, precision=stored),
            Dispatch(*shape, precision=stored, quantize="fp8"),
            Combine(*shape, precision=stored, skew="zipf"),
        ):
            _assert_right(implementation, get_operator(workload.operator).make_inputs(workload, shape[0]))


@pytest.mark.parametrize("quantize", ["none", "fp8"])
def test_large_results_are_written_past_the_caches(monkeypatch: pytest.MonkeyPatch, quantize: str) -> None:
    monkeypatch.setattr(numba_kernel, "_STREAMED_BYTES", 0)
    for hidden in (512, 520):
        workload = Dispatch(9, 5, 2, hidden, quantize=quantize)
        _assert_right("numba", get_operator("moe.dispatch").make_inputs(workload, 0))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 30), st.booleans(), st.integers(0, 99))
def test_rows_come_back(tokens: int, experts: int, eighths: int, bf16: bool, seed: int) -> None:
    stored = "bf16" if bf16 else "fp32"
    top_k = min(experts, 4)
    dispatched = get_operator("moe.dispatch").make_inputs(Dispatch(tokens, experts, top_k, 8 * eighths, stored), seed)
    rows = _assert_right("numba", dispatched)["y"]
    weights = np.full((tokens, top_k), 1.0 / top_k, np.float32)
    arrays = {
        "y": precision.store(rows, stored),
        "weights": weights,
        "source": dispatched.arrays["source"],
    }
    back = _run("moe.combine", "numba", Inputs(Combine(tokens, experts, top_k, 8 * eighths, stored), seed, arrays))
    np.testing.assert_allclose(back["out"], precision.widen(dispatched.arrays["x"]), rtol=2.0**-7 if bf16 else 1e-6)


def test_experts_follow_one_another_and_tokens_within() -> None:
    inputs = get_operator("moe.dispatch").make_inputs(Dispatch(50, 6, 3, 8), 1)
    rng = np.random.default_rng(1)
    rng.standard_normal((50, 8), dtype=np.float32)
    from roofcast.kernels.distributions import draw_choices

    chosen = draw_choices(rng, 50, 6, 3, "uniform", None).reshape(-1)[inputs.arrays["source"]]
    assert np.all(np.diff(chosen) >= 0)
    tokens = inputs.arrays["source"] // 3
    assert all(np.all(np.diff(tokens[chosen == e]) > 0) for e in range(6))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_zeros_and_a_large_element_in_fp8(implementation: str) -> None:
    operator = get_operator("moe.dispatch")
    inputs = operator.make_inputs(Dispatch(4, 3, 2, 2 * BLOCK + 16, quantize="fp8"), 0)
    x = inputs.arrays["x"]
    x[0, :BLOCK] = 0.0
    x[1, BLOCK] = 1e30
    x[2] = np.arange(x.shape[1]) / 4.0  # ties
    output = _assert_right(implementation, inputs)
    token = inputs.arrays["source"] // 2
    assert not output["code"][token == 0, :BLOCK].any()
    values = decode_e4m3(output["code"]) * np.repeat(output["scale"], BLOCK, axis=1)[:, : x.shape[1]]
    largest = np.repeat(output["scale"], BLOCK, axis=1)[:, : x.shape[1]]
    assert np.all(np.abs(values - x[token]) <= 2.0**-4 * np.abs(x[token]) + 2.0**-10 * largest)


def test_the_sum_has_a_fixed_order() -> None:
    workload = Combine(3, 5, 3, 24)
    inputs = get_operator("moe.combine").make_inputs(workload, 0)
    row_of = np.argsort(inputs.arrays["source"]).reshape(3, 3)
    # 1 is lost beside 2**25, and comes back where the large terms have met first.
    for k, value in enumerate((2.0**25, -(2.0**25), 1.0)):
        inputs.arrays["y"][row_of[:, k]] = value
    inputs.arrays["weights"][:] = 1.0
    for implementation in ("numba", "triton"):
        np.testing.assert_array_equal(_run("moe.combine", implementation, inputs)["out"], 1.0)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("operator", ["moe.dispatch", "moe.combine"])
@pytest.mark.parametrize("source", [[0, 1, 2, 2], [0, 1, 2, 4], [0, 1, 2]])
def test_a_source_that_is_no_permutation_is_refused(operator: str, implementation: str, source: list[int]) -> None:
    workload = get_operator(operator).workload_type(tokens=2, experts=2, top_k=2, hidden=8)
    inputs = get_operator(operator).make_inputs(workload, 0)
    inputs.arrays["source"] = np.array(source, np.int32)
    with pytest.raises(WorkloadError, match="source"):
        get_implementation(operator, implementation).prepare(inputs, "cpu")


def test_wrong_outputs_are_refused() -> None:
    for workload in (Dispatch(6, 3, 2, 16), Dispatch(6, 3, 2, 160, quantize="fp8"), Combine(6, 3, 2, 16)):
        operator = get_operator(workload.operator)
        inputs = operator.make_inputs(workload, 0)
        right = _run(workload.operator, "torch", inputs)
        assert operator.check(right, inputs).ok
        for name in right:
            wrong = {**right, name: right[name].copy()}
            wrong[name].flat[5] += 1
            assert not operator.check(wrong, inputs).ok
            assert not operator.check({**right, name: right[name][:-1]}, inputs).ok


def test_cost_by_hand() -> None:
    plain, narrow = dispatch_cost(Dispatch(4, 8, 2, 256, "bf16")), dispatch_cost(Dispatch(4, 8, 2, 264, quantize="fp8"))
    assert (plain.read_bytes["dram"], plain.write_bytes["dram"]) == (4 * 256 * 2 + 8 * 4, 8 * 256 * 2)
    assert (narrow.read_bytes["dram"], narrow.write_bytes["dram"]) == (4 * 264 * 4 + 8 * 4, 8 * (264 + 3 * 4))
    assert plain.flops == {}
    assert narrow.flops == {"vector.fp32": 4 * 4 * 264}
    summed = combine_cost(Combine(4, 8, 2, 256, "bf16"))
    assert (summed.read_bytes["dram"], summed.write_bytes["dram"]) == (8 * (256 * 2 + 8), 4 * 256 * 2)
    assert summed.flops == {"vector.fp32": 2.0 * 8 * 256}


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"tokens": 0}, "tokens"),
        ({"experts": 0}, "experts"),
        ({"top_k": 129}, "top_k"),
        ({"hidden": 100}, "hidden"),
        ({"precision": "fp8"}, "precision"),
        ({"skew": "normal"}, "skew"),
        ({"tokens": 2**28}, "tokens"),
    ],
)
def test_impossible_workloads_are_refused(fields: dict[str, Any], name: str) -> None:
    for workload in (Dispatch, Combine):
        with pytest.raises(WorkloadError, match=name):
            workload(**fields)
    with pytest.raises(WorkloadError, match="quantize"):
        Dispatch(quantize="int4")
