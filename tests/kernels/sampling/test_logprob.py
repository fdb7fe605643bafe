"""sampling.logprob: every implementation against float64, the defined edge cases, and properties."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofcast.kernels import WorkloadError, get_implementation, get_operator, precision
from roofcast.kernels.contract import Inputs
from roofcast.kernels.sampling.logprob.operator import Logprob, cost, reference

OPERATOR = get_operator("sampling.logprob")
CPU = ("numba", "torch", "torch_logsumexp")
NEG, POS, NAN = -np.inf, np.inf, np.nan


def _run(implementation: str, inputs: Inputs) -> dict[str, Any]:
    prepared = get_implementation("sampling.logprob", implementation).prepare(inputs, "cpu")
    prepared.run()
    return prepared.output()


def _inputs(logits: Any, token: Any, **fields: Any) -> Inputs:
    logits = np.asarray(logits, np.float32)
    workload = Logprob(rows=logits.shape[0], vocab=logits.shape[1], **fields)
    arrays = {"logits": precision.store(logits, workload.precision), "token": np.asarray(token, np.int64)}
    return Inputs(workload, 0, arrays)


def _assert_right(implementation: str, inputs: Inputs) -> None:
    result = OPERATOR.check(_run(implementation, inputs), inputs)
    assert result.ok, f"{inputs.workload.label()}: {result.message}"


@pytest.mark.parametrize("implementation", CPU)
@pytest.mark.parametrize("vocab", [1, 17, 151, 4099])
@pytest.mark.parametrize("rows", [1, 13, 200])
def test_awkward_shapes(implementation: str, rows: int, vocab: int) -> None:
    for kind, store in (("normal", "fp32"), ("peaked", "bf16"), ("flat", "fp32")):
        workload = Logprob(rows, vocab, store, logits=kind, top_n=min(vocab, 5))
        _assert_right(implementation, OPERATOR.make_inputs(workload, rows + vocab))


@pytest.mark.parametrize("implementation", CPU)
@pytest.mark.parametrize("temperature", [0.1, 0.7, 1.0, 5.0])
def test_options(implementation: str, temperature: float) -> None:
    base = Logprob(12, 40_009, temperature=temperature, top_n=20, rows_per_sequence=4)
    for fields in ({}, {"entropy": False}, {"precision": "bf16", "top_n": 1}, {"top_n": 0, "logits": "peaked"}):
        workload = dataclasses.replace(base, **fields)
        inputs = OPERATOR.make_inputs(workload, 1)
        output = _run(implementation, inputs)
        assert ("entropy" in output) == workload.entropy
        assert output["sequence_logprob"].shape == (3,)
        assert OPERATOR.check(output, inputs).ok


@pytest.mark.parametrize("implementation", CPU)
def test_minus_infinity_and_very_large_logits(implementation: str) -> None:
    vocab = 9001
    rng = np.random.default_rng(0)
    masked = rng.normal(0, 2, vocab)
    masked[rng.random(vocab) < 0.9] = NEG
    one = np.full(vocab, NEG)
    one[8999] = 3.0
    late = np.full(vocab, NEG)
    late[5000:] = rng.normal(0, 1, vocab - 5000)
    rising = np.linspace(-2000, 1e4, vocab)
    large = rng.normal(1e30, 1e24, vocab)
    lowest = np.full(vocab, np.finfo(np.float32).min)
    rows = np.stack([masked, one, late, rising, large, lowest])
    tokens = [int(np.argmin(masked)), 8999, 5001, vocab - 2, int(np.argmax(large)), 7]
    inputs = _inputs(rows, tokens, top_n=8)
    want = reference(inputs)
    assert want["logprob"][0] == NEG
    assert want["logprob"][1] == 0.0
    assert want["top_token"][1].tolist() == [8999] + [-1] * 7
    if implementation == "numba":
        _assert_right(implementation, inputs)
    else:
        output = _run(implementation, inputs)
        # x - logsumexp(x) in fp32 loses its digits where |x| is huge.
        sound = slice(0, 3 if implementation == "torch_logsumexp" else 6)
        np.testing.assert_allclose(output["logprob"][sound], want["logprob"][sound], rtol=1e-5, atol=1e-3)


def test_rows_without_a_distribution_give_nan() -> None:
    vocab = 5003
    rows = np.random.default_rng(0).normal(0, 1, (6, vocab))
    rows[0, 4097] = NAN
    rows[1, 2] = POS
    rows[2] = NEG
    rows[3, [1, 4500]] = [POS, NAN]
    rows[4] = NAN
    inputs = _inputs(rows, [0, 2, 3, 4500, 0, 9], top_n=3)
    output = _run("numba", inputs)
    assert np.isnan(output["logprob"][:5]).all()
    assert np.isnan(output["entropy"][:5]).all()
    assert (output["top_token"][:5] == -1).all()
    assert np.isfinite(output["logprob"][5])
    assert OPERATOR.check(output, inputs).ok


def test_tokens_of_equal_logits_are_listed_in_order() -> None:
    logits = np.zeros((2, 10_007))
    logits[1, [9000, 100, 5000]] = 1.0
    output = _run("numba", _inputs(logits, [0, 0], top_n=5))
    assert output["top_token"].tolist() == [[0, 1, 2, 3, 4], [100, 5000, 9000, 0, 1]]


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 5),
    vocab=st.integers(1, 9000),
    shift=st.floats(-100, 100, width=32),
    seed=st.integers(0, 2**16),
)
def test_a_shift_and_a_permutation_change_nothing(rows: int, vocab: int, shift: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = np.round(rng.normal(0, 3, (rows, vocab)) * 64) / 64  # exact under the shift
    token = rng.integers(0, vocab, rows)
    base = _run("numba", _inputs(logits, token))
    moved = _run("numba", _inputs(logits + np.round(shift * 64) / 64, token))
    order = rng.permutation(vocab)
    permuted = _run("numba", _inputs(logits[:, order], np.argsort(order)[token]))
    for name, value in base.items():
        np.testing.assert_allclose(moved[name], value, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(permuted[name], value, rtol=1e-5, atol=1e-5)
    assert np.all(base["logprob"] <= 1e-6)
    assert np.all((base["entropy"] >= 0) & (base["entropy"] <= np.log(vocab) + 1e-5))


def test_known_values() -> None:
    output = _run("numba", _inputs(np.zeros((3, 1000)), [0, 5, 999]))
    np.testing.assert_allclose(output["logprob"], -np.log(1000), rtol=1e-6)
    np.testing.assert_allclose(output["entropy"], np.log(1000), rtol=1e-6)
    output = _run("numba", _inputs([[0.0, np.log(3.0)]], [1]))
    np.testing.assert_allclose(output["logprob"], np.log(0.75), rtol=1e-6)
    np.testing.assert_allclose(output["entropy"], -(0.25 * np.log(0.25) + 0.75 * np.log(0.75)), rtol=1e-6)


def test_result_does_not_depend_on_the_number_of_threads() -> None:
    import numba

    inputs = OPERATOR.make_inputs(Logprob(3, 100_003, top_n=9), 5)
    threads = numba.get_num_threads()
    try:
        outputs = []
        for count in {1, threads}:
            numba.set_num_threads(count)
            outputs.append(_run("numba", inputs))
    finally:
        numba.set_num_threads(threads)
    for output in outputs:
        np.testing.assert_allclose(output["logprob"], outputs[0]["logprob"], rtol=1e-6)
        np.testing.assert_array_equal(output["top_token"], outputs[0]["top_token"])


def test_check_refuses_wrong_outputs() -> None:
    inputs = OPERATOR.make_inputs(Logprob(4, 500, top_n=3), 0)
    good = _run("numba", inputs)
    wrong = {
        "logprob": good["logprob"] + 0.01,
        "entropy": good["entropy"] * 1.01,
        "top_token": good["top_token"][:, ::-1],
        "top_logprob": good["top_logprob"][:, :2],
    }
    assert OPERATOR.check(good, inputs).ok
    for name, value in wrong.items():
        assert not OPERATOR.check({**good, name: value}, inputs).ok, name
        assert not OPERATOR.check({k: v for k, v in good.items() if k != name}, inputs).ok, name


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"rows": 0}, "rows"),
        ({"vocab": 0}, "vocab"),
        ({"precision": "fp8"}, "precision"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": NAN}, "temperature"),
        ({"logits": "zipf"}, "logits"),
        ({"top_n": 65}, "top_n"),
        ({"vocab": 3, "top_n": 4}, "top_n"),
        ({"rows": 10, "rows_per_sequence": 3}, "rows_per_sequence"),
    ],
)
def test_impossible_workloads_are_refused(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(WorkloadError, match=name):
        Logprob(**fields)


@pytest.mark.parametrize("implementation", CPU)
@pytest.mark.parametrize("token", [-1, 3])
def test_tokens_outside_the_vocabulary_are_refused(implementation: str, token: int) -> None:
    inputs = _inputs(np.zeros((2, 3)), [0, token])
    with pytest.raises(WorkloadError, match=rf"token = \[{token}\]"):
        get_implementation("sampling.logprob", implementation).prepare(inputs, "cpu")


def test_cost_counts_every_logit_once() -> None:
    assert cost(Logprob(2, 1000, "bf16")).read_bytes["dram"] == 2 * 1000 * 2 + 16
    assert cost(Logprob(2, 1000)).write_bytes["dram"] == 16
    assert cost(Logprob(2, 1000)).exponentials == 2000


def test_tokens_follow_the_softmax() -> None:
    inputs = OPERATOR.make_inputs(Logprob(4000, 3, temperature=2.0), 3)
    p = np.exp(inputs.arrays["logits"] / 2.0)
    p /= p.sum(1, keepdims=True)
    chosen = np.eye(3)[inputs.arrays["token"]]
    z = (chosen - p).sum(0) / np.sqrt((p * (1 - p)).sum(0))
    assert np.abs(z).max() < 4
