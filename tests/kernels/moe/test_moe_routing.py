"""moe.routing: workload, cost, reference and comparison."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from roofcast.kernels import WorkloadError, get_implementation
from roofcast.kernels.moe.routing.operator import Routing, cost, least_compares
from roofcast.kernels.moe.routing.reference import LOGIT_TOLERANCE, permutation

sys.path.insert(0, str(Path(__file__).parent))
from routing_cases import OPERATOR, given, run


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"tokens": 0}, "tokens"),
        ({"tokens": 2**28}, "tokens"),
        ({"experts": 1025}, "experts"),
        ({"top_k": 33}, "top_k"),
        ({"experts": 4, "top_k": 5}, "top_k"),
        ({"gate": "tanh"}, "gate"),
        ({"gate": "sigmoid", "groups": 7}, "groups"),
        ({"groups": 8, "groups_kept": 4}, "groups"),
        ({"gate": "sigmoid", "groups": 64, "groups_kept": 3}, "groups_kept"),
        ({"scale": float("nan")}, "scale"),
        ({"skew": "normal"}, "skew"),
        ({"skew": "hot", "skew_parameter": 1.5}, "skew_parameter"),
        ({"block": 0}, "block"),
        ({"precision": "fp8"}, "precision"),
    ],
)
def test_impossible_workloads_name_the_field(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(WorkloadError, match=rf"^{named} = "):
        Routing(**fields)


def test_default_parameter_of_a_skew_is_part_of_the_workload() -> None:
    assert Routing(skew="zipf") == Routing(skew="zipf", skew_parameter=1.0)
    assert Routing(skew="zipf").label() != Routing(skew="zipf", skew_parameter=1.5).label()


def test_cost_by_hand() -> None:
    got = cost(Routing(10, 6, 2, gate="softmax", renormalize=False))
    assert got.read_bytes == {"dram": 10 * 6 * 4}
    # Weights, experts and source of 20 choices; counts and offsets of 6 experts.
    assert got.write_bytes == {"dram": 4 * (3 * 20 + 6 + 7)}
    assert got.exponentials == 10 * 6
    assert got.flops == {"vector.fp32": 10 * (2 * 6 + 2)}
    assert got.compares == 10 * (6 - 2 + 3)
    padded = cost(Routing(10, 6, 2, block=8, precision="bf16", gate="sigmoid"))
    assert padded.read_bytes == {"dram": 10 * 6 * 2 + 6 * 4}
    capacity = (20 + 6 * 7) // 8 * 8
    assert padded.write_bytes == {"dram": 4 * (2 * 20 + capacity + 6 + 7 + capacity // 8)}


@pytest.mark.parametrize(("items", "chosen", "want"), [(1, 1, 0), (8, 1, 7), (8, 2, 9), (3, 3, 3), (5, 5, 8)])
def test_least_compares(items: int, chosen: int, want: int) -> None:
    assert least_compares(items, chosen) == want


def test_reference_by_hand() -> None:
    inputs = given([[1.0, 3.0, 2.0, 3.0], [0.0, 0.0, 0.0, 5.0]], top_k=2)
    want = OPERATOR.reference(inputs)
    assert want["experts"].tolist() == [[1, 3], [3, 0]]
    np.testing.assert_allclose(want["weights"], [[0.5, 0.5], [1 / (1 + np.exp(-5)), 1 / (1 + np.exp(5))]])
    assert want["counts"].tolist() == [1, 1, 0, 2]
    assert want["offsets"].tolist() == [0, 1, 2, 2, 4]
    assert want["source"].tolist() == [3, 0, 1, 2]


def test_padded_permutation_by_hand() -> None:
    got = permutation(np.array([[1, 3], [3, 0]]), Routing(2, 4, 2, block=2))
    assert got["offsets"].tolist() == [0, 2, 4, 4, 6]
    assert got["source"].tolist() == [3, 4, 0, 4, 1, 2, 4, 4]
    assert got["block_expert"].tolist() == [0, 1, 3, -1]


def test_group_limited_selection_by_hand() -> None:
    # Group 1 holds the single best expert, but group 0 has the larger sum of two.
    logits = [[1.0, 1.0, 2.0, -9.0]]
    inputs = given(logits, top_k=2, gate="sigmoid", groups=2, groups_kept=1)
    assert OPERATOR.reference(inputs)["experts"].tolist() == [[0, 1]]
    biased = given(logits, bias=[0, 0, 0.9, 0.9], top_k=2, gate="sigmoid", groups=2, groups_kept=1)
    want = OPERATOR.reference(biased)
    assert want["experts"].tolist() == [[2, 3]]
    gates = 1 / (1 + np.exp([-2.0, 9.0]))  # the bias selects, and does not weigh
    np.testing.assert_allclose(want["weights"], [gates / gates.sum()])


def _spoiled(inputs: Any, **changes: Any) -> Any:
    output = {k: v.copy() for k, v in inputs.expected(OPERATOR.reference).items()}
    for name, change in changes.items():
        change(output[name])
    return OPERATOR.check(output, inputs)


def test_compare_finds_what_is_wrong() -> None:
    inputs = OPERATOR.make_inputs(Routing(20, 13, 3, block=4), 1)
    assert _spoiled(inputs).ok

    def swap(a: Any) -> None:
        a[[0, 1]] = a[[1, 0]]

    for name in ("counts", "source", "offsets", "block_expert"):
        assert name in _spoiled(inputs, **{name: lambda a: a.__setitem__(0, 7)}).message
    assert "weights" in _spoiled(inputs, weights=lambda a: a.__imul__(1.001)).message
    assert "experts[4]" in _spoiled(inputs, experts=lambda a: a[4].__setitem__(slice(None), a[4, ::-1].copy())).message
    assert "experts[4]" in _spoiled(inputs, experts=lambda a: a[4].__setitem__(0, 13)).message
    assert "experts[4]" in _spoiled(inputs, experts=lambda a: a[4].__setitem__(0, a[4, 1])).message
    assert not _spoiled(inputs, source=swap).ok
    del inputs.expected(OPERATOR.reference)["counts"]
    missing = {k: v for k, v in OPERATOR.reference(inputs).items() if k != "source"}
    assert "'source' is missing" in OPERATOR.check(missing, inputs).message


@pytest.mark.parametrize("gate", ["softmax", "sigmoid"])
def test_compare_accepts_the_other_side_of_a_near_tie_and_nothing_more(gate: str) -> None:
    for gap, accepted in ((LOGIT_TOLERANCE / 2, True), (1e-3, False)):
        logits = np.array([[0.25, 0.25 + gap, -1.0, -2.0]], np.float32)
        inputs = given(logits, top_k=2, gate=gate)
        other = given(logits[:, [1, 0, 2, 3]], top_k=2, gate=gate)
        assert OPERATOR.check(OPERATOR.reference(other), inputs).ok is accepted


def test_compare_accepts_the_other_of_two_groups_that_nearly_tie() -> None:
    for gap, accepted in ((1e-8, True), (1e-3, False)):
        logits = np.array([[0.5, 0.1, 0.5, 0.1]], np.float64)
        inputs = given(logits, bias=[0, gap, 0, 0], top_k=2, gate="sigmoid", groups=2, groups_kept=1)
        other = given(logits, bias=[0, 0, 0, gap], top_k=2, gate="sigmoid", groups=2, groups_kept=1)
        output = OPERATOR.reference(other)
        assert output["experts"].tolist() == [[2, 3]]
        assert OPERATOR.check(output, inputs).ok is accepted


@pytest.mark.parametrize("tokens", [1, 13, 200])
@pytest.mark.parametrize(
    "fields",
    [
        {"experts": 128, "top_k": 8},
        {"experts": 13, "top_k": 13, "gate": "softmax_after_topk", "block": 16, "scale": 0.5},
        {"experts": 200, "top_k": 5, "renormalize": False, "skew": "zipf"},
        {"experts": 96, "top_k": 7, "gate": "sigmoid", "groups": 12, "groups_kept": 5, "skew": "hot", "block": 3},
    ],
)
def test_torch(tokens: int, fields: dict[str, Any]) -> None:
    inputs = OPERATOR.make_inputs(Routing(tokens, **fields), tokens)
    result = OPERATOR.check(run("torch", inputs), inputs)
    assert result.ok, result.message


def test_torch_is_the_baseline() -> None:
    assert get_implementation("moe.routing", "torch").baseline
