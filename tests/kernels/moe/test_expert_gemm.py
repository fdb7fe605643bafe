"""moe.expert_gemm: every implementation against float64 over ragged experts, its plan, counts and cost."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofcast.kernels import UnsupportedError, WorkloadError, get_implementation, get_operator
from roofcast.kernels.contract import Inputs
from roofcast.kernels.matmul.few_rows import FEW
from roofcast.kernels.moe.expert_gemm.operator import ExpertGemm, cost, make_inputs

OPERATOR = get_operator("moe.expert_gemm")
# Empty experts and one row in each way to multiply; hidden layers that are not whole vectors.
RAGGED = ExpertGemm(40, 6, 2, 72, 40, counts=(9, 0, 8, 1, 40, 22))
ONE_EXPERT = ExpertGemm(200, 4, 1, 64, 48, counts=(0, 200, 0, 0))
WORKLOADS = [
    RAGGED,
    ONE_EXPERT,
    ExpertGemm(1, 3, 1, 8, 8),
    ExpertGemm(1, 9, 4, 136, 104, gated=False),
    ExpertGemm(150, 5, 2, 136, 104, gated=False, skew="zipf"),
    ExpertGemm(300, 16, 4, 40, 56, skew="hot", skew_parameter=2),
]


def _with(workload: ExpertGemm, **fields: Any) -> ExpertGemm:
    return ExpertGemm(**{**workload.as_dict(), **fields})


def _run(implementation: str, inputs: Inputs) -> dict[str, Any]:
    prepared = get_implementation("moe.expert_gemm", implementation).prepare(inputs, "cpu")
    prepared.run()
    return prepared.output()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("implementation", ["numba", "torch"])
def test_against_the_reference(implementation: str, precision: str) -> None:
    for workload in WORKLOADS:
        inputs = make_inputs(_with(workload, precision=precision), 3)
        result = OPERATOR.check(_run(implementation, inputs), inputs)
        assert result.ok, f"{inputs.workload.label()}: {result.message}"


@pytest.mark.parametrize("target", ["sm_80", "sm_100"])  # by pointers, by tensor descriptors
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_triton_in_the_interpreter(monkeypatch: pytest.MonkeyPatch, target: str, precision: str) -> None:
    from roofcast.kernels.moe.expert_gemm import triton_kernel

    monkeypatch.setattr(triton_kernel, "device_target", lambda device: target)
    for workload in (RAGGED, ONE_EXPERT, WORKLOADS[2], WORKLOADS[3]):
        inputs = make_inputs(_with(workload, precision=precision), 4)
        result = OPERATOR.check(_run("triton", inputs), inputs)
        assert result.ok, f"{inputs.workload.label()}: {result.message}"


@settings(max_examples=20, deadline=None)
@given(counts=st.lists(st.integers(0, 150), min_size=1, max_size=6), gated=st.booleans(), seed=st.integers(0, 99))
def test_any_counts(counts: list[int], gated: bool, seed: int) -> None:
    total = sum(counts)
    if total == 0:
        counts, total = [*counts[1:], 1], 1
    workload = ExpertGemm(total, len(counts), 1, 24, 16, gated, counts=tuple(counts))
    inputs = make_inputs(workload, seed)
    result = OPERATOR.check(_run("numba", inputs), inputs)
    assert result.ok, result.message


def test_a_row_depends_on_its_own_expert_alone() -> None:
    inputs = make_inputs(RAGGED, 0)
    base = _run("numba", inputs)["y"]
    inputs.arrays["w_in"][4] = np.nan  # rows 18 to 57
    inputs.arrays["w_out"][0] *= 2  # rows 0 to 8
    moved = _run("numba", inputs)["y"]
    np.testing.assert_array_equal(moved[:9], 2 * base[:9])
    np.testing.assert_array_equal(moved[9:18], base[9:18])
    assert np.isnan(moved[18:58]).all()
    np.testing.assert_array_equal(moved[58:], base[58:])


@settings(max_examples=60, deadline=None)
@given(counts=st.lists(st.integers(0, 700), min_size=1, max_size=40), threads=st.integers(1, 9))
def test_the_plan_covers_every_row_once(counts: list[int], threads: int) -> None:
    from roofcast.kernels.moe.expert_gemm.numba_plan import most_tasks, plan

    tasks = np.zeros((most_tasks(sum(counts), len(counts)), 4), np.int64)
    few = np.zeros((len(counts), 4), np.int64)
    number, few_number, weight = plan(np.array(counts, np.int32), threads, tasks, few)
    assert number <= len(tasks)
    pieces = [*tasks[:number, :3], *few[:few_number, :3]]
    owner = np.repeat(np.arange(len(counts)), counts)
    seen = np.zeros(sum(counts), int)
    for expert, first, rows in pieces:
        assert rows > 0
        assert (owner[first : first + rows] == expert).all()
        seen[first : first + rows] += 1
    assert (seen == 1).all()
    assert all(counts[e] <= FEW for e in few[:few_number, 0])
    starts = [*tasks[:number, 3].tolist(), weight]
    assert starts[0] == 0
    assert all(a < b for a, b in itertools.pairwise(starts)) or number == 0


def test_drawn_counts_follow_the_skew_and_touch_as_many_experts_as_expected() -> None:
    touched = []
    for seed in range(40):
        workload = ExpertGemm(16, 32, 4, 8, 8, skew="zipf")
        counts = make_inputs(workload, seed).arrays["counts"]
        assert counts.sum() == workload.slots
        assert counts.max() <= workload.tokens
        touched.append(int((counts > 0).sum()))
    error = np.std(touched) / np.sqrt(len(touched))
    assert abs(np.mean(touched) - ExpertGemm(16, 32, 4, 8, 8, skew="zipf").touched()) < 4 * error


def test_cost_by_hand() -> None:
    counted = cost(_with(ONE_EXPERT, precision="bf16"))
    assert counted.flops == {"matrix.bf16": 2.0 * 200 * 64 * 48 * 3, "vector.fp32": 4.0 * 200 * 48}
    assert counted.read_bytes["dram"] == 2 * (3 * 64 * 48 + 200 * 64) + 4 * 4
    assert counted.write_bytes["dram"] == 2 * 200 * 64
    assert counted.exponentials == 200 * 48
    ungated = cost(_with(RAGGED, gated=False))
    assert ungated.flops["matrix.fp32"] == 2.0 * 80 * 72 * 40 * 2
    assert ungated.read_bytes["dram"] == 4 * (5 * 2 * 72 * 40 + 80 * 72) + 4 * 6


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"tokens": 0}, "tokens"),
        ({"experts": 0}, "experts"),
        ({"top_k": 129}, "top_k"),
        ({"hidden": 100}, "hidden"),
        ({"inter": 0}, "inter"),
        ({"precision": "fp8"}, "precision"),
        ({"skew": "normal"}, "skew"),
        ({"experts": 2, "top_k": 1, "tokens": 4, "counts": (4,)}, "counts"),
        ({"experts": 2, "top_k": 1, "tokens": 4, "counts": (5, -1)}, "counts"),
        ({"experts": 2, "top_k": 1, "tokens": 4, "counts": (2, 1)}, "counts"),
    ],
)
def test_impossible_workloads_are_refused(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(WorkloadError, match=name):
        ExpertGemm(**fields)


@pytest.mark.parametrize("implementation", ["numba", "torch", "triton"])
@pytest.mark.parametrize("counts", [[3, 3], [-1, 6], [6]])
def test_counts_that_do_not_fit_the_rows_are_refused(implementation: str, counts: list[int]) -> None:
    inputs = make_inputs(ExpertGemm(5, 2, 1, 8, 8, counts=(2, 3)), 0)
    inputs.arrays["counts"] = np.array(counts, np.int32)
    with pytest.raises((WorkloadError, UnsupportedError), match="counts"):
        get_implementation("moe.expert_gemm", implementation).prepare(inputs, "cpu")


def test_check_refuses_wrong_outputs() -> None:
    inputs = make_inputs(RAGGED, 0)
    y = _run("torch", inputs)["y"]
    assert OPERATOR.check({"y": y}, inputs).ok
    off, swapped = y.copy(), y.copy()
    off[4] *= 1.001
    swapped[[20, 21]] = y[[21, 20]]
    for wrong in ({"y": off}, {"y": swapped}, {"y": y[:-1]}, {}):
        assert not OPERATOR.check(wrong, inputs).ok
