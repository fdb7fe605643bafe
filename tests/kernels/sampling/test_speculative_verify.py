"""sampling.speculative_verify: against the definition, exact in distribution, and defined where rows are broken."""

from typing import Any

import numpy as np
import pytest
import scipy.stats
from roofcast.kernels import WorkloadError, get_implementation, get_operator
from roofcast.kernels.contract import Inputs
from roofcast.kernels.sampling.speculative_verify.operator import SpeculativeVerify, cost
from roofcast.kernels.sampling.speculative_verify.reference import UNIT, reference

# Numpy, under Triton's interpreter, reports the NaN that a test is about.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.runtime.interpreter")

OPERATOR = get_operator("sampling.speculative_verify")
WORKLOADS = [
    SpeculativeVerify(40, 4, 1, 501),
    SpeculativeVerify(13, 3, 2, 1031, 0.5),
    SpeculativeVerify(12, 2, 3, 37, 0.3),
    SpeculativeVerify(5, 2, 2, 17, 1.0),
    SpeculativeVerify(5, 3, 1, 2, 0.0),
    SpeculativeVerify(3, 1, 40, 200, 0.1),
]


def _run(implementation: str, inputs: Inputs) -> dict[str, Any]:
    prepared = get_implementation("sampling.speculative_verify", implementation).prepare(inputs, "cpu")
    prepared.run()
    return {name: value.copy() for name, value in prepared.output().items()}


@pytest.mark.parametrize("implementation", ["numba", "torch", "triton"])
@pytest.mark.parametrize("workload", WORKLOADS, ids=SpeculativeVerify.label)
def test_against_the_definition(implementation: str, workload: SpeculativeVerify) -> None:
    inputs = OPERATOR.make_inputs(workload, 3)
    output = _run(implementation, inputs)
    result = OPERATOR.check(output, inputs)
    assert result.ok, result.message
    if implementation == "triton":
        for name, value in _run("numba", inputs).items():
            np.testing.assert_array_equal(output[name], value)


def test_blocks_and_rows_longer_than_a_block() -> None:
    inputs = OPERATOR.make_inputs(SpeculativeVerify(6, 2, 2, 20_011, 0.4), 1)
    np.testing.assert_array_equal(_run("numba", inputs)["token"], reference(inputs)["token"])


def _small(batch: int, branches: int, length: int, acceptance: float, seed: int) -> tuple[Inputs, Any]:
    """Many sequences with the same distributions and tokens of their own; return the target's rows too."""
    workload = SpeculativeVerify(batch, length, branches, 7, acceptance)
    rng = np.random.default_rng(seed)
    target = rng.dirichlet(np.ones(7), workload.nodes + 1).astype(np.float32)
    draft = rng.dirichlet(np.ones(7), workload.inner).astype(np.float32)
    token = np.empty((batch, workload.nodes), np.int32)
    for node in range(workload.nodes):
        q = draft[node // branches].astype(np.float64)
        token[:, node] = np.minimum(np.searchsorted(np.cumsum(q / q.sum()), rng.random(batch), side="right"), 6)
    arrays = {"target": np.repeat(target[None], batch, 0), "draft": np.repeat(draft[None], batch, 0), "token": token}
    arrays |= {"seed": np.full(batch, 99 + seed), "offset": 100 * np.arange(batch)}
    return Inputs(workload, seed, arrays), target.astype(np.float64)


@pytest.mark.parametrize(("branches", "length"), [(1, 2), (2, 1), (3, 1)])
def test_tokens_are_distributed_as_the_target_says(branches: int, length: int) -> None:
    draws, level = 1_000_000 // (branches * length), 0.01 / 9
    inputs, target = _small(draws, branches, length, 0.5, branches)
    output = _run("numba", inputs)
    assert 0.1 < (output["accepted"] > 0).mean() < 0.99
    p = target / target.sum(1, keepdims=True)
    first = np.bincount(output["token"][:, 0], minlength=7)
    assert scipy.stats.chisquare(first, draws * p[0]).pvalue > level
    distance = np.abs(np.cumsum(first) / draws - np.cumsum(p[0])).max()
    assert scipy.stats.kstwobign.sf(distance * np.sqrt(draws)) > level
    # What follows an accepted node is distributed as the target says there, whatever was accepted.
    if length > 1:
        after = output["accepted"] >= 1
        second = np.bincount(output["token"][after, 1], minlength=7)
        assert scipy.stats.chisquare(second, after.sum() * p[1]).pvalue > level
        pairs = np.zeros((7, 7))
        np.add.at(pairs, (output["token"][after, 0], output["token"][after, 1]), 1)
        assert scipy.stats.chi2_contingency(pairs + 1e-9)[1] > level


def test_inputs_are_accepted_as_often_as_the_workload_says() -> None:
    inputs = OPERATOR.make_inputs(SpeculativeVerify(3000, 1, 1, 50, 0.7), 0)
    overlap = np.minimum(inputs.arrays["target"][:, 0], inputs.arrays["draft"][:, 0]).sum(1)
    np.testing.assert_allclose(overlap, 0.7, rtol=1e-4)
    accepted = _run("numba", inputs)["accepted"].mean()
    assert abs(accepted - 0.7) < 4 * np.sqrt(0.7 * 0.3 / 3000)


@pytest.mark.parametrize("implementation", ["numba", "torch", "triton"])
def test_broken_distributions_draw_no_token(implementation: str) -> None:
    inputs = OPERATOR.make_inputs(SpeculativeVerify(4, 1, 1, 300, 1.0), 0)
    inputs.arrays["target"][0, 1, 299] = np.nan
    inputs.arrays["target"][1, 1] = 0.0
    inputs.arrays["target"][2, 1], inputs.arrays["target"][2, 1, 299] = 0.0, 1.0
    output = _run(implementation, inputs)
    assert output["accepted"].tolist() == [1, 1, 1, 1]
    assert output["token"][:3, 1].tolist() == [-1, -1, 299]
    assert OPERATOR.check(output, inputs).ok


def test_check_refuses_wrong_outputs() -> None:
    inputs = OPERATOR.make_inputs(SpeculativeVerify(20, 3, 1, 60, 0.6), 0)
    good = _run("numba", inputs)
    assert OPERATOR.check(good, inputs).ok
    for name, value in good.items():
        assert not OPERATOR.check({**good, name: value + 1}, inputs).ok, name
        assert not OPERATOR.check({**good, name: value[:3]}, inputs).ok, name
        assert not OPERATOR.check({k: v for k, v in good.items() if k != name}, inputs).ok, name
    # Accepting everything, which is what a wrong verifier does.
    token = np.concatenate([inputs.arrays["token"], good["token"][:, :1]], axis=1)
    everything = {"accepted": np.full(20, 3), "node": np.full(20, 3), "token": token}
    assert not OPERATOR.check(everything, inputs).ok


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"batch": 0}, "batch"),
        ({"draft_length": 0}, "draft_length"),
        ({"branches": 0}, "branches"),
        ({"branches": 8, "draft_length": 5}, "draft_length"),
        ({"branches": 2, "draft_length": 10_000}, "draft_length"),
        ({"vocab": 1}, "vocab"),
        ({"acceptance": 1.5}, "acceptance"),
        ({"acceptance": np.nan}, "acceptance"),
    ],
)
def test_impossible_workloads_are_refused(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(WorkloadError, match=name):
        SpeculativeVerify(**fields)


def test_tokens_outside_the_vocabulary_are_refused() -> None:
    inputs = OPERATOR.make_inputs(SpeculativeVerify(2, 1, 1, 30), 0)
    inputs.arrays["token"][1, 0] = 30
    with pytest.raises(WorkloadError, match=r"token = \[30\]"):
        _run("numba", inputs)


def test_cost_counts_the_expected_rows() -> None:
    assert cost(SpeculativeVerify(1, 1, 1, 1000, 1.0)).read_bytes["dram"] == 4000 + 12 + 16
    assert cost(SpeculativeVerify(1, 5, 1, 1000, 0.0)).read_bytes["dram"] == 8000 + 12 + 16


def test_constants_of_the_backends_agree() -> None:
    from roofcast.kernels.sampling.speculative_verify import triton_kernel

    assert triton_kernel._UNIT.value == UNIT
