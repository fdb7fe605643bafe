"""attention.decode without a backend: workload, cost, reference, and the torch baselines."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from roofcast.kernels import UnsupportedError, WorkloadError
from roofcast.kernels.attention.decode.operator import AttentionDecode, cost
from roofcast.kernels.attention.lengths import LENGTHS, sequence_lengths
from roofcast.kernels.contract import Inputs

sys.path.insert(0, str(Path(__file__).parent))
from decode_cases import AWKWARD, OPERATOR, run_decode


@pytest.mark.parametrize("workload", AWKWARD, ids=AttentionDecode.label)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_torch(workload: AttentionDecode, precision: str) -> None:
    inputs = OPERATOR.make_inputs(dataclasses.replace(workload, precision=precision), 3)
    result = OPERATOR.check(run_decode(inputs, "torch"), inputs)
    assert result.ok, result.message
    if workload.sinks:
        with pytest.raises(UnsupportedError, match="sinks"):
            run_decode(inputs, "torch_sdpa")
    else:
        output = run_decode(inputs, "torch_sdpa")
        assert OPERATOR.check(output, inputs).ok
        assert "lse" not in output


def test_reference_by_hand() -> None:
    workload = AttentionDecode(1, 3, 1, 1, 16, page_size=2, sinks=True)
    q, k, v = np.zeros((1, 1, 1, 16)), np.zeros((2, 1, 2, 16)), np.zeros((2, 1, 2, 16))
    q[..., 0] = 4.0  # times the scale of 1/4
    # Keys in order are page 1, then the first slot of page 0.
    k[1, 0, :, 0], k[0, 0, 0, 0] = np.log([1.0, 2.0]), np.log(4.0)
    v[1, 0, :, 0], v[0, 0, 0, 0] = [8.0, 16.0], 24.0
    k[0, 0, 1], v[0, 0, 1] = np.nan, np.nan
    floats = {"q": q, "k_pages": k, "v_pages": v, "sinks": np.log([9.0])}
    arrays: dict[str, Any] = {name: value.astype(np.float32) for name, value in floats.items()}
    arrays |= {"page_table": np.array([[1, 0]], np.int32), "lengths": np.array([3], np.int32)}
    found = OPERATOR.reference(Inputs(workload, 0, arrays))
    assert found["out"][0, 0, 0, 0] == pytest.approx((8 + 2 * 16 + 4 * 24) / 16, rel=1e-6)
    assert found["lse"][0, 0, 0] == pytest.approx(np.log(16), rel=1e-6)


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("batch", [1, 2, 13])
def test_lengths(lengths: str, batch: int) -> None:
    found = sequence_lengths(lengths, batch, 3, 1000)
    assert len(found) == batch
    assert list(found) == sorted(found)
    assert found[-1] == 1000
    assert found[0] >= 3
    if lengths in ("uniform", "log_uniform") and batch > 1:
        assert found[0] == 3


def test_cost_of_a_dense_step() -> None:
    found = cost(AttentionDecode(8, 4096, 32, 8, 128))
    keys = 8 * 4096
    assert found.flops["matrix.fp32"] == 4 * 32 * 128 * keys
    assert found.exponentials == 32 * keys
    table = 4 * (keys // 16 + 8)
    assert found.read_bytes["dram"] == 4 * (2 * 8 * 128 * keys + 8 * 32 * 128) + table
    assert found.write_bytes["dram"] == 4 * 8 * 32 * 129


def test_cost_counts_what_windows_leave() -> None:
    w = AttentionDecode(1, 100, 4, 2, 64, page_size=10, precision="bf16", window=25, query_tokens=2)
    found = cost(w)
    # Positions 98 and 99 see 74-98 and 75-99: 26 keys on the pages 7, 8 and 9.
    assert found.flops["matrix.bf16"] == 4 * 4 * 64 * 50
    assert found.read_bytes["dram"] == 2 * (2 * 26 * 2 * 64 + 2 * 4 * 64) + 4 * (3 + 1)
    assert cost(dataclasses.replace(w, window=100)) == cost(dataclasses.replace(w, window=0))
    assert cost(AttentionDecode(1, 3, 1, 1, 16, query_tokens=3)).exponentials == 1 + 2 + 3


def test_seeds_shuffle_but_cost_and_lengths_stay() -> None:
    w = AttentionDecode(6, 300, 2, 1, 16, lengths="log_uniform")
    first, second = OPERATOR.make_inputs(w, 0), OPERATOR.make_inputs(w, 1)
    assert sorted(first.arrays["lengths"]) == sorted(second.arrays["lengths"]) == list(w.sequence_lengths())
    pages = first.arrays["page_table"]
    assert sorted(pages[pages >= 0]) == list(range(first.arrays["k_pages"].shape[0]))
    assert not np.array_equal(pages, second.arrays["page_table"])


def test_check_refuses_wrong_outputs() -> None:
    inputs = OPERATOR.make_inputs(AttentionDecode(3, 200, 4, 2, 64), 0)
    good = OPERATOR.reference(inputs)
    assert OPERATOR.check(good, inputs).ok
    assert not OPERATOR.check({"lse": good["lse"]}, inputs).ok
    assert not OPERATOR.check({**good, "out": good["out"][:, 0]}, inputs).ok
    assert not OPERATOR.check({**good, "out": good["out"] * 1.001}, inputs).ok
    assert not OPERATOR.check({**good, "out": good["out"][:, :, ::-1]}, inputs).ok
    assert not OPERATOR.check({**good, "lse": good["lse"] + 0.001}, inputs).ok


def test_a_long_sequence_is_not_judged_by_a_short_one() -> None:
    inputs = OPERATOR.make_inputs(AttentionDecode(2, 4000, 1, 1, 64, lengths="uniform"), 0)
    wrong = OPERATOR.reference(inputs)
    wrong["out"][int(np.argmax(inputs.arrays["lengths"]))] *= 1.001
    assert not OPERATOR.check(wrong, inputs).ok


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"batch": 0}, "batch"),
        ({"context": 0}, "context"),
        ({"context": 2**31}, "context"),
        ({"kv_heads": 0}, "kv_heads"),
        ({"q_heads": 6, "kv_heads": 4}, "q_heads"),
        ({"head_dim": 40}, "head_dim"),
        ({"page_size": 0}, "page_size"),
        ({"precision": "int3"}, "precision"),
        ({"lengths": "zipf"}, "lengths"),
        ({"shortest": 9, "context": 8}, "shortest"),
        ({"window": -1}, "window"),
        ({"context": 4, "query_tokens": 5}, "query_tokens"),
    ],
)
def test_impossible_workloads_are_refused(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(WorkloadError, match=name):
        AttentionDecode(**fields)
