"""rl.advantages: every implementation against float64, and the reference against the definitions."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofcast.kernels import WorkloadError, get_implementation, get_operator
from roofcast.kernels.contract import Inputs
from roofcast.kernels.rl.advantages.operator import Advantages, cost, reference

OPERATOR = get_operator("rl.advantages")
IMPLEMENTATIONS = ("numba", "torch", "triton")


def _run(implementation: str, inputs: Inputs) -> dict[str, Any]:
    prepared = get_implementation("rl.advantages", implementation).prepare(inputs, "cpu")
    prepared.run()
    return prepared.output()


def _assert_right(implementation: str, inputs: Inputs) -> None:
    result = OPERATOR.check(_run(implementation, inputs), inputs)
    assert result.ok, f"{implementation} {inputs.workload.label()}: {result.message}"


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_awkward_shapes(implementation: str) -> None:
    for workload in (
        Advantages(1, 1, "group"), Advantages(13, 7, "group"), Advantages(5, 33, "group", scaled=False),
        Advantages(1, 1, "gae", 1), Advantages(3, 3, "gae", 201, "uniform"),
        Advantages(2, 4, "gae", 1300, "lognormal", gamma=0.99), Advantages(1, 6, "gae", 64, lam=1.0),
    ):  # fmt: skip
        _assert_right(implementation, OPERATOR.make_inputs(workload, 1))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 11), st.integers(1, 90), st.floats(0, 1), st.floats(0, 1), st.integers(0, 99))
def test_numba_on_any_rows(rows: int, length: int, gamma: float, lam: float, seed: int) -> None:
    workload = Advantages(rows, 1, "gae", length, "uniform", gamma=gamma, lam=lam)
    _assert_right("numba", OPERATOR.make_inputs(workload, seed))


def test_gae_is_the_sum_of_discounted_deltas() -> None:
    inputs = OPERATOR.make_inputs(Advantages(1, 3, "gae", 12, "uniform", gamma=0.9, lam=0.8), 0)
    want = reference(inputs)
    for row, n in enumerate(inputs.arrays["lengths"]):
        r, v = (inputs.arrays[name][row, :n].astype(np.float64) for name in ("reward", "value"))
        delta = r + 0.9 * np.append(v[1:], 0.0) - v
        for t in range(n):
            total = sum(0.72**k * delta[t + k] for k in range(n - t))
            assert want["advantage"][row, t] == pytest.approx(total, rel=1e-12, abs=1e-14)
        assert not want["advantage"][row, n:].any()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_places_after_the_end_do_not_count(implementation: str) -> None:
    inputs = OPERATOR.make_inputs(Advantages(2, 3, "gae", 40, "uniform"), 0)
    after = np.arange(40) >= inputs.arrays["lengths"][:, None]
    inputs.arrays["reward"][after], inputs.arrays["value"][after] = np.nan, np.inf
    _assert_right(implementation, inputs)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_equal_rewards_give_no_advantage(implementation: str) -> None:
    inputs = OPERATOR.make_inputs(Advantages(3, 8, "group"), 0)
    inputs.arrays["reward"][:] = [[0.0], [1.0], [-2.0]]
    assert not _run(implementation, inputs)["advantage"].any()


def test_wrong_outputs_are_refused_and_bytes_counted() -> None:
    inputs = OPERATOR.make_inputs(Advantages(2, 2, "gae", 30), 0)
    right = _run("numba", inputs)
    for name in right:
        wrong = {key: value.copy() for key, value in right.items()}
        wrong[name][0, 3] += 0.01
        assert not OPERATOR.check(wrong, inputs).ok
    assert cost(Advantages(2, 2, "gae", 30)).dram_bytes == 4 * 30 * 16 + 16
    assert cost(Advantages(2, 2, "group")).dram_bytes == 32


@pytest.mark.parametrize(
    ("field", "value"),
    [("groups", 0), ("group_size", 0), ("kind", "ppo"), ("length", 0), ("lengths", "zipf"), ("gamma", 1.1)],
)
def test_impossible_workloads_name_the_field(field: str, value: Any) -> None:
    with pytest.raises(WorkloadError, match=field):
        dataclasses.replace(Advantages(), **{field: value})
