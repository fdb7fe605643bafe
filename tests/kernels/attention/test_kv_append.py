"""attention.kv_append: every implementation against float64, rotation by hand, slots of others, its cost."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofcast.kernels import WorkloadError, get_implementation, get_operator, precision
from roofcast.kernels.attention.decode.reference import gather_pages
from roofcast.kernels.attention.kv_append.operator import KvAppend, cost, make_inputs, reference, slots
from roofcast.kernels.contract import Inputs

OPERATOR = get_operator("attention.kv_append")
IMPLEMENTATIONS = ("numba", "torch", "triton")
WORKLOADS = [
    KvAppend(1, 1, 1, 1, 16, 1),
    KvAppend(3, 5, 13, 3, 64, 4, lengths="uniform"),
    KvAppend(2, 127, 129, 2, 96, 16, base=10_000.0),
    KvAppend(7, 2, 200, 5, 128, 7, lengths="log_uniform"),
]


def _run(implementation: str, inputs: Inputs) -> dict[str, Any]:
    prepared = get_implementation("attention.kv_append", implementation).prepare(inputs, "cpu")
    prepared.run()
    prepared.run()
    return prepared.output()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("stored", ["fp32", "bf16"])
def test_on_awkward_shapes(implementation: str, stored: str) -> None:
    for workload in WORKLOADS:
        inputs = make_inputs(dataclasses.replace(workload, precision=stored), 1)
        before = inputs.arrays["k_pages"].copy()
        result = OPERATOR.check(_run(implementation, inputs), inputs)
        assert result.ok, f"{inputs.workload.label()}: {result.message}"
        np.testing.assert_array_equal(inputs.arrays["k_pages"], before)  # the inputs serve others too


def test_a_key_is_turned_by_its_position() -> None:
    inputs = make_inputs(KvAppend(1, 4, 4, 1, 16, 2, "fp32", base=100.0), 0)
    inputs.arrays["k"][:] = 0.0
    inputs.arrays["k"][..., 1] = 1.0  # paired with number 9, at frequency 100**(-1/8)
    k = reference(inputs)["k"][0, :, 0]
    angle = np.arange(4) * 100.0 ** (-1 / 8)
    np.testing.assert_allclose(k[:, 1], np.cos(angle), atol=1e-7)
    np.testing.assert_allclose(k[:, 9], np.sin(angle), atol=1e-7)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 4), st.integers(1, 9), st.integers(0, 30), st.integers(1, 9), st.integers(0, 99))
def test_keys_keep_their_length_and_stand_in_order(batch: int, new: int, held: int, page: int, seed: int) -> None:
    workload = KvAppend(batch, new, new + held, 2, 32, page, "fp32")
    inputs = make_inputs(workload, seed)
    output = _run("numba", inputs)
    lengths = np.linalg.norm(inputs.arrays["k"].astype(np.float64), axis=-1)
    np.testing.assert_allclose(np.linalg.norm(output["k"], axis=-1), lengths, rtol=1e-5)
    np.testing.assert_array_equal(output["v"], inputs.arrays["v"])
    # As decoding will read them.
    pages = inputs.arrays["v_pages"].copy()
    page_of, place = slots(inputs)
    pages[page_of, :, place] = inputs.arrays["v"]
    for b in range(batch):
        held_now = gather_pages(pages, inputs.arrays["page_table"][b], new + held)
        np.testing.assert_array_equal(held_now[:, held:].swapaxes(0, 1), inputs.arrays["v"][b])


def test_wrong_outputs_are_refused() -> None:
    inputs = make_inputs(KvAppend(2, 3, 8, 2, 32, 4), 0)
    right = _run("torch", inputs)
    assert OPERATOR.check(right, inputs).ok
    for name in right:
        wrong = {**right, name: right[name].copy()}
        wrong[name].flat[1] += 1
        assert not OPERATOR.check(wrong, inputs).ok
        assert not OPERATOR.check({k: v for k, v in right.items() if k != name}, inputs).ok
    unrotated = {**right, "k": precision.widen(inputs.arrays["k"])}
    assert not OPERATOR.check(unrotated, inputs).ok


def test_cost_by_hand() -> None:
    # Two sequences of 8 keys, 3 of them new: positions 5, 6, 7 of both, in pages 1 of 4 keys.
    counted = cost(KvAppend(2, 3, 8, 2, 32, 4))
    moved = 2 * (2 * 3 * 2 * 32) * 2
    assert counted.write_bytes["dram"] == moved
    assert counted.read_bytes["dram"] == moved + 4 * (3 * 32 + 2 + 2)
    assert counted.flops == {"vector.fp32": 3 * 2 * 3 * 2 * 32}


@pytest.mark.parametrize(
    ("field", "value"),
    [("batch", 0), ("new_tokens", 0), ("new_tokens", 5000), ("kv_heads", 0), ("head_dim", 24), ("page_size", 0),
     ("precision", "fp8"), ("lengths", "long"), ("base", 1.0), ("context", 0)],
)  # fmt: skip
def test_impossible_workloads_are_refused(field: str, value: Any) -> None:
    with pytest.raises(WorkloadError, match=field):
        dataclasses.replace(KvAppend(), **{field: value})
