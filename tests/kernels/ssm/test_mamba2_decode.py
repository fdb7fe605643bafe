"""ssm.mamba2_decode: every implementation against float64, the recurrence written out, extreme steps, cost."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofcast.kernels import WorkloadError, get_implementation, get_operator
from roofcast.kernels.contract import Inputs
from roofcast.kernels.ssm.mamba2_decode import numba_kernel
from roofcast.kernels.ssm.mamba2_decode.operator import Mamba2Decode, cost, make_inputs, reference

OPERATOR = get_operator("ssm.mamba2_decode")
IMPLEMENTATIONS = ("numba", "torch", "triton")


def _run(implementation: str, inputs: Inputs) -> dict[str, Any]:
    prepared = get_implementation("ssm.mamba2_decode", implementation).prepare(inputs, "cpu")
    prepared.run()
    prepared.run()  # the second begins where the first did
    return prepared.output()


def _assert_right(implementation: str, inputs: Inputs) -> dict[str, Any]:
    output = _run(implementation, inputs)
    result = OPERATOR.check(output, inputs)
    assert result.ok, f"{implementation} {inputs.workload.label()}: {result.message}"
    return output


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_on_awkward_shapes(implementation: str, precision: str) -> None:
    for shape in [(1, 1, 1, 1, 1), (3, 6, 13, 40, 3), (2, 4, 64, 128, 2), (1, 2, 5, 129, 2)]:
        _assert_right(implementation, make_inputs(Mamba2Decode(*shape, precision), shape[0]))


def test_large_states_are_written_past_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba_kernel, "_STREAMED_BYTES", 0)
    _assert_right("numba", make_inputs(Mamba2Decode(2, 4, 7, 64, 2), 0))


def test_the_definition_head_by_head() -> None:
    inputs = make_inputs(Mamba2Decode(2, 4, 3, 5, 2, "fp32"), 0)
    a, out = inputs.arrays, reference(inputs)
    for sequence in range(2):
        for head in range(4):
            dt = np.log1p(np.exp(np.float64(a["dt"][sequence, head]) + a["dt_bias"][head]))
            x, b = a["x"][sequence, head].astype(np.float64), a["B"][sequence, head // 2].astype(np.float64)
            h = np.exp(dt * a["A"][head]) * a["h"][sequence, head] + dt * np.outer(x, b)
            np.testing.assert_allclose(out["h"][sequence, head], h, rtol=1e-12)
            y = h @ a["C"][sequence, head // 2] + a["D"][head] * x
            np.testing.assert_allclose(out["y"][sequence, head], y, rtol=1e-12)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_extreme_steps(implementation: str) -> None:
    inputs = make_inputs(Mamba2Decode(1, 4, 8, 32, 1), 0)
    # A step of nothing keeps the state; long ones forget it, and do not overflow.
    inputs.arrays["dt"][0] = (-200.0, 90.0, 1000.0, -20.0)
    output = _assert_right(implementation, inputs)
    np.testing.assert_array_equal(output["h"][0, 0], inputs.arrays["h"][0, 0])
    assert np.isfinite(output["h"]).all()


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.integers(1, 20), st.integers(1, 70), st.integers(0, 9)
)
def test_sequences_do_not_meet(batch: int, groups: int, per: int, head_dim: int, state: int, seed: int) -> None:
    inputs = make_inputs(Mamba2Decode(batch, groups * per, head_dim, state, groups, "fp32"), seed)
    output = _assert_right("numba", inputs)
    order = np.random.default_rng(seed).permutation(batch)
    moved = {name: a[order] if a.shape[:1] == (batch,) and a.ndim > 1 else a for name, a in inputs.arrays.items()}
    again = _run("numba", Inputs(inputs.workload, seed, moved))
    np.testing.assert_array_equal(again["y"], output["y"][order])
    np.testing.assert_array_equal(again["h"], output["h"][order])


def test_cost_by_hand() -> None:
    counted = cost(Mamba2Decode(2, 4, 8, 16, 2))
    elements = 2 * 4 * 8 * 16
    assert counted.flops == {"vector.fp32": 5 * elements + 3 * 2 * 4 * 8 + 2 * 2 * 4}
    assert counted.write_bytes["dram"] == 4 * elements + 4 * 2 * 4 * 8
    assert counted.read_bytes["dram"] == 4 * elements + 2 * 64 + 2 * 2 * 2 * 2 * 16 + 4 * 8 + 12 * 4
    assert counted.exponentials == 3 * 8


def test_wrong_outputs_are_refused() -> None:
    inputs = make_inputs(Mamba2Decode(2, 4, 8, 16, 2), 0)
    right = _run("torch", inputs)
    for name in ("y", "h"):
        wrong = {**right, name: right[name] * np.float32(1.001)}
        assert not OPERATOR.check(wrong, inputs).ok
        assert not OPERATOR.check({k: v for k, v in right.items() if k != name}, inputs).ok
    assert not OPERATOR.check({**right, "h": inputs.arrays["h"]}, inputs).ok


@pytest.mark.parametrize(
    ("field", "value"),
    [("batch", 0), ("heads", 0), ("head_dim", 0), ("state", 2000), ("groups", 3), ("precision", "fp8")],
)
def test_impossible_workloads_are_refused(field: str, value: Any) -> None:
    with pytest.raises(WorkloadError, match=field):
        dataclasses.replace(Mamba2Decode(), **{field: value})
