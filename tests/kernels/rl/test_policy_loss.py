"""rl.policy_loss: every implementation against float64; the gradient against autograd and finite differences."""

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from roofcast.kernels import WorkloadError, get_implementation, get_operator
from roofcast.kernels.contract import Inputs
from roofcast.kernels.rl.policy_loss.operator import PolicyLoss, cost, reference
from roofcast.kernels.rl.policy_loss.torch_baseline import policy_loss

OPERATOR = get_operator("rl.policy_loss")
IMPLEMENTATIONS = ("numba", "torch", "triton")
FORMS = list(itertools.product(("grpo", "gspo"), ("token", "sequence", "constant"), (0.0, 0.1)))


def _run(implementation: str, inputs: Inputs) -> dict[str, Any]:
    prepared = get_implementation("rl.policy_loss", implementation).prepare(inputs, "cpu")
    prepared.run()
    return prepared.output()


def _assert_right(implementation: str, inputs: Inputs) -> None:
    result = OPERATOR.check(_run(implementation, inputs), inputs)
    assert result.ok, f"{implementation} {inputs.workload.label()}: {result.message}"


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize(("algorithm", "normalization", "kl"), FORMS)
def test_every_form_on_awkward_shapes(implementation: str, algorithm: str, normalization: str, kl: float) -> None:
    for sequences, length, lengths in ((1, 1, "constant"), (5, 213, "lognormal"), (3, 64, "uniform")):
        workload = PolicyLoss(sequences, length, algorithm, normalization, kl, lengths=lengths)
        _assert_right(implementation, OPERATOR.make_inputs(workload, length))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 20), st.integers(1, 200), st.sampled_from(FORMS), st.floats(0, 3), st.integers(0, 99))
def test_numba_on_any_batch(sequences: int, length: int, form: Any, drift: float, seed: int) -> None:
    workload = PolicyLoss(sequences, length, *form, lengths="uniform", drift=drift)
    _assert_right("numba", OPERATOR.make_inputs(workload, seed))


@pytest.mark.parametrize(("algorithm", "normalization", "kl"), FORMS)
def test_reference_is_autograds_and_has_the_slope_of_finite_differences(
    algorithm: str, normalization: str, kl: float
) -> None:
    workload = PolicyLoss(6, 9, algorithm, normalization, kl, lengths="uniform", drift=0.5)
    inputs = OPERATOR.make_inputs(workload, 1)
    want = reference(inputs)
    tensors = {name: torch.from_numpy(array.astype(np.float64)) for name, array in inputs.arrays.items()}
    tensors["logprob"].requires_grad_()
    loss = policy_loss(tensors, workload)
    loss.backward()
    assert tensors["logprob"].grad is not None
    np.testing.assert_allclose(want["loss"][0], loss.item(), rtol=1e-12)
    np.testing.assert_allclose(want["grad"], tensors["logprob"].grad.numpy(), rtol=1e-10, atol=1e-15)
    step = 1e-7
    for place in ((0, 0), (5, 3), (2, 1)):
        slopes = []
        for sign in (1, -1):
            moved = {**tensors, "logprob": tensors["logprob"].detach().clone()}
            moved["logprob"][place] += sign * step
            slopes.append(sign * policy_loss(moved, workload).item())
        assert want["grad"][place] == pytest.approx(sum(slopes) / (2 * step), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("kl", [0.0, 1e-3])
def test_improbable_tokens(implementation: str, kl: float) -> None:
    """A token of logprob -60 under one policy and of -1 under another, both ways and for both signs."""
    inputs = OPERATOR.make_inputs(PolicyLoss(4, 40, kl=kl), 0)
    a = inputs.arrays
    a["advantage"][:] = [1.0, -1.0, 2.0, 0.0]
    a["logprob"][:, :10], a["old_logprob"][:, :10] = -60.0, -1.0
    a["logprob"][0, 10:20], a["old_logprob"][0, 10:20] = -1.0, -60.0
    a["logprob"][:, 20:30], a["old_logprob"][:, 20:30] = -60.0, -60.0
    if kl:
        a["ref_logprob"][:, :] = a["logprob"] + np.float32(1e-4)
        a["ref_logprob"][1, 5] = a["logprob"][1, 5] - 59.0
    _assert_right(implementation, inputs)
    output = _run(implementation, inputs)
    if not kl:
        assert np.all(output["grad"][0, 10:20] == 0.0)
        assert np.all(output["grad"][0, 20:30] != 0.0)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_small_kl_does_not_cancel(implementation: str) -> None:
    """With all advantages 0 the loss is the KL term alone, here of differences of 1e-4."""
    inputs = OPERATOR.make_inputs(PolicyLoss(2, 128, kl=1.0), 0)
    inputs.arrays["advantage"][:] = 0.0
    inputs.arrays["logprob"][:] = np.linspace(-1e-4, -2e-4, 128, dtype=np.float32)
    inputs.arrays["ref_logprob"][:] = 0.0
    output, want = _run(implementation, inputs), reference(inputs)
    if implementation == "torch":
        pytest.skip("expm1(e) - e, the usual form, does cancel")
    np.testing.assert_allclose(output["loss"], want["loss"], rtol=1e-5)
    np.testing.assert_allclose(output["grad"], want["grad"], rtol=1e-5)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_masked_places_do_not_count_and_all_may_be_masked(implementation: str) -> None:
    for form in (("grpo", "token", 0.1), ("gspo", "sequence", 0.1)):
        inputs = OPERATOR.make_inputs(PolicyLoss(3, 50, *form), 2)
        inputs.arrays["mask"][1, 7:30] = 0
        inputs.arrays["mask"][2] = 0
        before = _run(implementation, inputs)
        for name in ("logprob", "old_logprob", "ref_logprob"):
            inputs.arrays[name][1, 7:30] = np.nan
            inputs.arrays[name][2] = np.inf
        _assert_right(implementation, inputs)
        after = _run(implementation, inputs)
        np.testing.assert_array_equal(before["grad"], after["grad"])
        inputs.arrays["mask"][:] = 0
        assert not _run(implementation, inputs)["grad"].any()


def test_clip_higher_and_wrong_outputs() -> None:
    inputs = OPERATOR.make_inputs(PolicyLoss(8, 100, drift=0.3), 0)
    right = _run("numba", inputs)
    narrow = Inputs(dataclasses.replace(PolicyLoss(8, 100, drift=0.3), clip_high=0.2), 0, inputs.arrays)
    assert (_run("numba", narrow)["grad"] != 0).sum() < (right["grad"] != 0).sum()
    assert not OPERATOR.check(_run("numba", narrow), inputs).ok
    assert not OPERATOR.check({"loss": right["loss"]}, inputs).ok
    assert not OPERATOR.check(right | {"loss": right["loss"] + 1e-2}, inputs).ok


def test_bytes_follow_the_lengths() -> None:
    assert cost(PolicyLoss(4, 100)).read_bytes["dram"] == 9 * 400 + 16
    assert cost(PolicyLoss(4, 100, kl=0.1)).read_bytes["dram"] == 13 * 400 + 16
    short = PolicyLoss(4, 100, lengths="uniform")
    assert cost(short).read_bytes["dram"] == 8 * short.tokens + 400 + 16
    assert cost(short).write_bytes["dram"] == 1604


@pytest.mark.parametrize(
    ("field", "value"),
    [("sequences", 0), ("length", 0), ("algorithm", "ppo2"), ("normalization", "batch"), ("kl", -1.0),
     ("clip_low", 1.0), ("clip_high", 0.0), ("lengths", "zipf"), ("drift", 99.0)],
)  # fmt: skip
def test_impossible_workloads_name_the_field(field: str, value: Any) -> None:
    with pytest.raises(WorkloadError, match=field):
        dataclasses.replace(PolicyLoss(), **{field: value})
