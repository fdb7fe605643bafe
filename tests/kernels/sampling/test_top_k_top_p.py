"""sampling.top_k_top_p: every implementation against float64, ties, degenerate rows, and paths seldom taken."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofcast.kernels import UnsupportedError, WorkloadError, get_implementation, get_operator
from roofcast.kernels.contract import Inputs
from roofcast.kernels.precision import store
from roofcast.kernels.sampling.top_k_top_p.operator import TopKTopP, cost
from roofcast.kernels.sampling.top_k_top_p.reference import adjusted_logits, reference, row_distribution

OPERATOR = get_operator("sampling.top_k_top_p")
NEG, POS, NAN = -np.inf, np.inf, np.nan


def _run(implementation: str, inputs: Inputs) -> dict[str, Any]:
    prepared = get_implementation("sampling.top_k_top_p", implementation).prepare(inputs, "cpu")
    prepared.run()
    return {name: value.copy() for name, value in prepared.output().items()}


def _inputs(logits: Any, seed: int = 0, **fields: Any) -> Inputs:
    """Rows of given logits, with the same parameters in every row."""
    logits = np.asarray(logits, np.float32)
    workload = TopKTopP(rows=logits.shape[0], vocab=logits.shape[1], **fields)
    inputs = OPERATOR.make_inputs(dataclasses.replace(workload, vocab=logits.shape[1]), seed)
    inputs.arrays["logits"] = store(logits, workload.precision)
    return inputs


def _assert_right(implementation: str, inputs: Inputs) -> dict[str, Any]:
    output = _run(implementation, inputs)
    result = OPERATOR.check(output, inputs)
    assert result.ok, f"{inputs.workload.label()}: {result.message}"
    return output


SETTINGS: list[dict[str, Any]] = [
    {},
    {"top_k": 0},
    {"top_k": 0, "top_p": 0.5, "precision": "bf16"},
    {"top_k": 0, "top_p": 1.0, "logits": "flat"},
    {"top_k": 1, "temperature": 0.3},
    {"top_k": 0, "min_p": 0.2, "top_p": 0.8, "temperature": 2.0},
    {"top_k": 30, "logits": "peaked", "temperature": 1.5},
    {"temperature": 0.0},
]


@pytest.mark.parametrize("rows", [1, 13])
@pytest.mark.parametrize("vocab", [1, 17, 151, 4099, 20_011])
def test_numba_on_awkward_shapes(rows: int, vocab: int) -> None:
    for fields in SETTINGS:
        _assert_right("numba", OPERATOR.make_inputs(TopKTopP(rows, vocab, **fields), rows + vocab))


@pytest.mark.parametrize("implementation", ["torch", "torch_topk"])
def test_baselines(implementation: str) -> None:
    for fields in SETTINGS:
        inputs = OPERATOR.make_inputs(TopKTopP(5, 1009, **fields), 3)
        if implementation == "torch_topk" and inputs.arrays["top_k"][0] == 0:
            with pytest.raises(UnsupportedError, match="top_k"):
                _run(implementation, inputs)
        else:
            _assert_right(implementation, inputs)


@pytest.mark.parametrize("implementation", ["numba", "torch", "torch_topk"])
def test_penalties_bias_and_rows_with_parameters_of_their_own(implementation: str) -> None:
    base = TopKTopP(
        40, 997, temperature=0.7, repetition=1.3, presence=0.4, frequency=0.2, seen=60, biased=9, min_p=0.02
    )
    for fields in ({}, {"mixed": True}, {"precision": "bf16"}, {"top_k": 900, "mixed": True}):
        if implementation == "torch_topk" and "precision" in fields:
            continue  # of bf16 logits equal to the k-th it keeps only some
        _assert_right(implementation, OPERATOR.make_inputs(dataclasses.replace(base, **fields), 11))


def test_the_steps_follow_one_another() -> None:
    inputs = _inputs([[2.0, -2.0, 1.0, 0.0, 0.5]], repetition=2.0, presence=0.5, frequency=0.25, seen=3, biased=1)
    inputs.arrays["bias_token"][:], inputs.arrays["bias"][:] = 0, 2.0
    inputs.arrays["seen_token"][:], inputs.arrays["seen_count"][:] = [0, 1, 3], [2, 0, 1]
    # (2 + 2) / 2 - 2 * 0.25 - 0.5, -2 * 2 (in the prompt only), 0 * 2 - 0.25 - 0.5.
    assert adjusted_logits(inputs.arrays, 0).tolist() == [1.0, -4.0, 1.0, -0.75, 0.5]
    # min-p drops 0.1, top-k the 0.2, and of what is left top-p 0.5 keeps 0.4 alone: 0.4 / 0.7 is more than half.
    p = np.log([[0.1, 0.2, 0.4, 0.3]])
    output = _run("numba", _inputs(p, top_k=2, top_p=0.5, min_p=0.3))
    assert output["kept"].tolist() == [1]
    # Half of everything would take 0.4 and 0.3.
    assert _run("numba", _inputs(p, top_k=0, top_p=0.5))["kept"].tolist() == [2]
    # The rest is normalised: 0.4 of 0.7.
    output = _run("numba", _inputs(np.repeat(p, 50, 0), top_k=2, top_p=1.0))
    expected = np.where(output["token"] == 2, np.log(4 / 7), np.log(3 / 7))
    np.testing.assert_allclose(output["logprob"], expected, rtol=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    vocab=st.integers(1, 3000),
    step=st.sampled_from([1.0, 0.25, 1e-3]),
    top_k=st.integers(0, 3500),
    top_p=st.floats(0.0078125, 1.0, width=32),
    min_p=st.sampled_from([0.0, 0.013, 0.31, 1.0]),
    temperature=st.sampled_from([0.2, 1.0, 3.0]),
    seed=st.integers(0, 2**16),
)
def test_kept_set_is_that_of_the_definition_with_ties(
    vocab: int, step: float, top_k: int, top_p: float, min_p: float, temperature: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    logits = np.round(rng.normal(0, 2, (3, vocab)) / step) * step
    inputs = _inputs(logits, seed, top_k=top_k, top_p=top_p, min_p=min_p, temperature=temperature)
    output = _run("numba", inputs)
    for i in range(3):
        fewest, most = (row_distribution(inputs.arrays, i, 1 + e) for e in (-1e-6, 1e-6))
        assert fewest is not None
        assert most is not None
        assert fewest.kept.sum() <= output["kept"][i] <= most.kept.sum()
        assert most.kept[output["token"][i]]


def test_ties_at_the_threshold_are_kept_together() -> None:
    logits = np.zeros((3, 5000))
    logits[0, :3] = 1.0
    output = _run("numba", _inputs(logits, top_k=4, top_p=1.0))
    assert output["kept"].tolist() == [5000, 5000, 5000]
    assert _run("numba", _inputs(logits, top_k=3, top_p=1.0))["kept"].tolist() == [3, 5000, 5000]
    assert _run("numba", _inputs(logits, top_k=0, top_p=0.001))["kept"].tolist() == [3, 5000, 5000]
    # The two zeros are one value.
    logits[:, ::2] = -0.0
    assert _run("numba", _inputs(logits[1:], top_k=1, top_p=1.0))["kept"].tolist() == [5000, 5000]


def _degenerate(vocab: int) -> Any:
    rows = np.random.default_rng(0).normal(0, 1, (8, vocab))
    rows[0] = NEG
    rows[1, vocab - 2] = NAN
    rows[2, 3] = POS
    rows[3], rows[3, vocab - 1] = NEG, -3.0
    rows[4] = 7.25
    rows[5] = np.finfo(np.float32).min
    rows[6, : vocab // 2] = NEG
    return rows


@pytest.mark.parametrize("fields", [{}, {"top_k": 0}, {"top_k": 0, "top_p": 1.0}, {"temperature": 0.0}])
def test_degenerate_rows_have_a_defined_result(fields: dict[str, Any]) -> None:
    for vocab in (200, 15_001):
        output = _assert_right("numba", _inputs(_degenerate(vocab), **fields))
        assert output["token"][:4].tolist() == [-1, -1, -1, vocab - 1]
        assert output["kept"][:4].tolist() == [0, 0, 0, 1]
        assert np.isnan(output["logprob"][:3]).all()
        assert output["logprob"][3] == 0.0
        if "temperature" in fields:
            assert output["token"][4] == 0
            assert output["kept"][4] == 1
        else:
            assert output["kept"][4] == vocab
            np.testing.assert_allclose(output["logprob"][4], -np.log(vocab), rtol=1e-6)


def test_samples_that_mislead_cost_time_and_nothing_else() -> None:
    """Whatever the strided sample holds, the threshold is found: by halving if it must."""
    vocab, rng = 60_000, np.random.default_rng(0)
    rows = rng.normal(0, 1, (6, vocab))
    step = vocab // 64 // 16 * 16
    sampled = np.arange(vocab) % step < 16
    rows[0, sampled] -= 20
    rows[1, sampled] += 20
    rows[2] = np.sort(rows[2])
    rows[3] = np.round(rows[3])  # more equal logits at the threshold than are listed
    rows[4, :] = 0.0
    rows[5] *= 30
    for fields in ({"top_k": 0, "top_p": 0.7}, {"top_k": 30_000}, {"top_k": 0, "min_p": 1e-4, "top_p": 0.99}):
        inputs = _inputs(rows, **fields)
        output = _assert_right("numba", inputs)
        np.testing.assert_allclose(output["kept"], reference(inputs)["kept"], rtol=1e-4)


def test_order_of_rows_batch_split_and_threads_change_no_bit() -> None:
    import numba

    base = TopKTopP(24, 30_011, top_k=0, top_p=0.9, seen=20, repetition=1.1, mixed=True)
    inputs = OPERATOR.make_inputs(base, 5)
    whole = _run("numba", inputs)
    order = np.random.default_rng(0).permutation(24)
    shuffled = Inputs(base, 5, {name: np.ascontiguousarray(array[order]) for name, array in inputs.arrays.items()})
    for name, value in _run("numba", shuffled).items():
        np.testing.assert_array_equal(value, whole[name][order])
    part = Inputs(dataclasses.replace(base, rows=7), 5, {name: array[3:10] for name, array in inputs.arrays.items()})
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        for name, value in _run("numba", part).items():
            np.testing.assert_array_equal(value, whole[name][3:10])
    finally:
        numba.set_num_threads(threads)


def test_check_refuses_wrong_outputs() -> None:
    inputs = OPERATOR.make_inputs(TopKTopP(4, 500), 0)
    good = _run("numba", inputs)
    least = np.argmin(inputs.arrays["logits"], axis=1).astype(np.int32)
    wrong = {"token": least, "logprob": good["logprob"] + 0.01, "kept": good["kept"] + 2}
    assert OPERATOR.check(good, inputs).ok
    for name, value in wrong.items():
        assert not OPERATOR.check({**good, name: value}, inputs).ok, name
        assert not OPERATOR.check({**good, name: value[:2]}, inputs).ok, name
        assert not OPERATOR.check({k: v for k, v in good.items() if k != name}, inputs).ok, name
    # A kept token, but not the one on which the uniform number falls.
    best = np.argmax(inputs.arrays["logits"], axis=1).astype(np.int32)
    other = np.where(good["token"] == best, np.argsort(inputs.arrays["logits"], axis=1)[:, -2], best)
    assert not OPERATOR.check({**good, "token": other.astype(np.int32)}, inputs).ok


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"rows": 0}, "rows"),
        ({"vocab": 0}, "vocab"),
        ({"precision": "fp8"}, "precision"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": NAN}, "temperature"),
        ({"top_k": -1}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"min_p": NAN}, "min_p"),
        ({"repetition": 0.0, "seen": 1}, "repetition"),
        ({"presence": 0.5}, "seen"),
        ({"biased": 10, "vocab": 9}, "biased"),
        ({"logits": "zipf"}, "logits"),
    ],
)
def test_impossible_workloads_are_refused(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(WorkloadError, match=name):
        TopKTopP(**fields)


@pytest.mark.parametrize("implementation", ["numba", "torch"])
def test_listed_tokens_outside_the_vocabulary_are_refused(implementation: str) -> None:
    inputs = OPERATOR.make_inputs(TopKTopP(2, 30, seen=3), 0)
    inputs.arrays["seen_token"][1, 2] = 30
    with pytest.raises(WorkloadError, match=r"seen_token = \[30\]"):
        _run(implementation, inputs)


def test_cost_needs_exponentials_of_all_logits_only_without_top_k() -> None:
    assert cost(TopKTopP(2, 1000)).exponentials == 2 * 50
    assert cost(TopKTopP(2, 1000, top_k=0)).exponentials == 2000
    assert cost(TopKTopP(2, 1000, temperature=0.0)).exponentials == 0
    assert cost(TopKTopP(2, 1000, "bf16")).read_bytes["dram"] == 2 * 1000 * 2 + 2 * 44
