"""moe.routing in Numba: exact selection, edge cases, and the paths that few inputs take."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from roofcast.kernels.moe.routing.operator import GATES, Routing

sys.path.insert(0, str(Path(__file__).parent))
from routing_cases import OPERATOR, assert_exact, edge_rows, given, run


@pytest.mark.parametrize("tokens", [1, 13, 200])
@pytest.mark.parametrize(
    "fields",
    [
        {"experts": 1, "top_k": 1},
        {"experts": 13, "top_k": 8, "gate": "softmax_after_topk"},
        {"experts": 128, "top_k": 8},
        {"experts": 200, "top_k": 5, "renormalize": False, "skew": "zipf", "block": 16, "scale": 2.5},
        {"experts": 130, "top_k": 7, "skew": "hot", "skew_parameter": 3},
        {"experts": 96, "top_k": 7, "gate": "sigmoid", "groups": 12, "groups_kept": 5, "block": 3},
        {"experts": 1000, "top_k": 3, "gate": "sigmoid", "renormalize": False},
    ],
)
def test_shapes(tokens: int, fields: dict[str, Any]) -> None:
    assert_exact("numba", OPERATOR.make_inputs(Routing(tokens, **fields), tokens))


def test_parallel_passes() -> None:
    for tokens in (257, 1021):
        assert_exact("numba", OPERATOR.make_inputs(Routing(tokens, 60, 8, skew="zipf", block=8), 5))


@pytest.mark.slow
@pytest.mark.parametrize(("experts", "top_k"), [(512, 22), (1024, 32), (32, 32), (40, 12)])
def test_many_choices(experts: int, top_k: int) -> None:
    for gate in GATES:
        assert_exact("numba", OPERATOR.make_inputs(Routing(50, experts, top_k, gate=gate), 3))


def test_bf16_logits_with_their_many_ties() -> None:
    assert_exact("numba", OPERATOR.make_inputs(Routing(100, 128, 8, precision="bf16"), 2))
    assert_exact("numba", OPERATOR.make_inputs(Routing(30, 64, 4, gate="sigmoid", precision="bf16"), 2))


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("experts", [9, 48, 131])
def test_infinities_nan_zeros_and_ties(gate: str, experts: int) -> None:
    for renormalize in (True, False):
        inputs = given(edge_rows(experts), top_k=8, gate=gate, renormalize=renormalize)
        output = assert_exact("numba", inputs)
        if gate != "sigmoid":
            assert np.isnan(output["weights"][[1, 2, 4]]).all()
            assert np.isfinite(output["weights"][[0, 3, 5, 6, 7, 8]]).all()


def test_lowest_group_and_expert_among_equals() -> None:
    inputs = given(np.zeros((3, 24)), top_k=4, gate="sigmoid", groups=6, groups_kept=2)
    assert assert_exact("numba", inputs)["experts"].tolist() == [[0, 1, 2, 3]] * 3
    logits = np.full((2, 24), np.nan)
    logits[:, 12:] = 1.0  # two groups without NaN; the NaN of group 0 must not be chosen before them
    inputs = given(logits, top_k=10, gate="sigmoid", groups=4, groups_kept=3)
    assert assert_exact("numba", inputs)["experts"].tolist() == [[12, 13, 14, 15, 16, 17, 18, 19, 20, 21]] * 2


def test_more_candidates_than_columns() -> None:
    # Sixteen large logits in one column each, and a second round of them: the bound lets all 32 pass.
    logits = np.zeros((5, 128), np.float32)
    logits[:, ::4] = 1.0 + np.arange(32) % 3
    assert_exact("numba", given(logits, top_k=8))


@settings(max_examples=60, deadline=None)
@drawn(st.data())
def test_any_logits(data: Any) -> None:
    experts = data.draw(st.integers(1, 70))
    values = st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0, np.inf, -np.inf, np.nan, 1e30]) | st.floats(-5, 5, width=32)
    rows = data.draw(st.lists(st.lists(values, min_size=experts, max_size=experts), min_size=1, max_size=20))
    top_k = data.draw(st.integers(1, min(experts, 8)))
    gate = data.draw(st.sampled_from(["softmax", "softmax_after_topk"]))
    assert_exact("numba", given(rows, top_k=top_k, gate=gate, block=data.draw(st.sampled_from([1, 4]))))


def test_runs_again_on_spoiled_buffers() -> None:
    from roofcast.kernels import get_implementation

    inputs = OPERATOR.make_inputs(Routing(100, 20, 4, block=8), 0)
    prepared = get_implementation("moe.routing", "numba").prepare(inputs, "cpu")
    prepared.run()
    for array in prepared.output().values():
        array.fill(1)
    prepared.run()
    assert OPERATOR.check(prepared.output(), inputs).ok


def test_large_scale_agrees_with_torch() -> None:
    inputs = OPERATOR.make_inputs(Routing(3000, 128, 8), 9)
    ours, theirs = run("numba", inputs), run("torch", inputs)
    np.testing.assert_array_equal(ours["counts"], theirs["counts"])
    np.testing.assert_allclose(ours["weights"], theirs["weights"], rtol=1e-5)
