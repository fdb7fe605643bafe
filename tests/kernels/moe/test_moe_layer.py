"""moe.layer: every implementation against float64, its parts, choices between nearly equal experts, its cost."""

from typing import Any

import numpy as np
import pytest
from roofcast.kernels import WorkloadError, get_implementation, get_operator
from roofcast.kernels.contract import Inputs
from roofcast.kernels.moe.layer.operator import MoeLayer, cost, make_inputs, reference

OPERATOR = get_operator("moe.layer")
WORKLOADS = [
    MoeLayer(1, 3, 2, 8, 8),
    MoeLayer(40, 6, 2, 72, 40, skew="zipf"),
    MoeLayer(13, 8, 2, 40, 24, gated=False, gate="sigmoid", groups=4, groups_kept=2, scale=2.5),
    MoeLayer(129, 5, 2, 16, 8, gate="softmax_after_topk", precision="bf16"),
]


def _run(implementation: str, inputs: Inputs) -> dict[str, Any]:
    prepared = get_implementation("moe.layer", implementation).prepare(inputs, "cpu")
    prepared.run()
    prepared.run()  # nothing of the first run may be left
    return prepared.output()


@pytest.mark.parametrize("implementation", ["numba", "torch", "triton"])
def test_against_the_reference(implementation: str) -> None:
    # In Numba the bf16 experts take ten seconds to compile, and have tests of their own.
    for workload in WORKLOADS[: 3 if implementation == "numba" else None]:
        inputs = make_inputs(workload, 3)
        result = OPERATOR.check(_run(implementation, inputs), inputs)
        assert result.ok, f"{workload.label()}: {result.message}"


def test_the_definition_token_by_token() -> None:
    inputs = make_inputs(MoeLayer(5, 4, 2, 16, 8), 0)
    out, arrays = reference(inputs), inputs.arrays
    for t in range(5):
        logits = arrays["logits"][t].astype(np.float64)
        best = np.argsort(-logits)[:2]
        weights = np.exp(logits[best]) / np.exp(logits[best]).sum()
        want = np.zeros(16)
        for weight, e in zip(weights, best, strict=True):
            gate, up = np.split(arrays["w_in"][e].astype(np.float64) @ arrays["x"][t], 2)
            want += weight * (arrays["w_out"][e].astype(np.float64) @ (gate / (1 + np.exp(-gate)) * up))
        np.testing.assert_allclose(out["out"][t], want, rtol=1e-10)


def test_results_are_held_to_the_choices_that_were_made() -> None:
    inputs = make_inputs(MoeLayer(6, 4, 2, 16, 8), 0)
    logits = inputs.arrays["logits"]
    logits[2] = (0.0, 1.0, 9.0, 1.0)  # the second choice may be 1 or 3
    right = _run("numba", inputs)
    assert right["experts"][2].tolist() == [2, 1]
    other = Inputs(inputs.workload, 0, {**inputs.arrays, "logits": logits.copy()})
    other.arrays["logits"][2, 1] = 0.5
    swapped = _run("numba", other)
    assert swapped["experts"][2].tolist() == [2, 3]
    swapped["weights"] = right["weights"]
    assert OPERATOR.check(swapped, inputs).ok
    assert not OPERATOR.check({**swapped, "out": right["out"]}, inputs).ok
    for name in ("out", "weights", "experts"):
        wrong = {**right, name: right[name].copy()}
        wrong[name].flat[3] += 1
        assert not OPERATOR.check(wrong, inputs).ok


def test_cost_is_that_of_the_parts_without_the_seams() -> None:
    w = MoeLayer(64, 8, 2, 256, 128)
    layer = cost(w)
    parts = [get_operator(p.operator).cost(p) for p in (w.routing, w.dispatch, w.expert_gemm, w.combine)]
    assert layer.total_flops == sum(p.total_flops for p in parts)
    assert layer.exponentials == sum(p.exponentials for p in parts)
    assert layer.compares == parts[0].compares
    row = 256 * 4
    weights = w.expert_gemm.touched() * w.expert_gemm.expert_bytes
    assert layer.dram_bytes == 64 * 8 * 4 + 2 * 64 * row + weights
    assert layer.dram_bytes < sum(p.dram_bytes for p in parts)


@pytest.mark.parametrize(
    ("fields", "name"),
    [({"tokens": 0}, "tokens"), ({"hidden": 100}, "hidden"), ({"gate": "max"}, "gate"), ({"groups": 2}, "groups"),
     ({"precision": "fp8"}, "precision"), ({"scale": 0.0}, "scale"), ({"experts": 2000}, "experts")],
)  # fmt: skip
def test_impossible_workloads_are_refused(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(WorkloadError, match=name):
        MoeLayer(**fields)
