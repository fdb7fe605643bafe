"""attention.prefill without a backend and in Numba: cost, reference, every shape against float64, and properties."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofcast.kernels import WorkloadError, get_operator
from roofcast.kernels.attention.decode.operator import AttentionDecode
from roofcast.kernels.attention.prefill.numba_kernel import KEYS, prepare_pairs
from roofcast.kernels.attention.prefill.numba_tasks import list_tasks
from roofcast.kernels.attention.prefill.operator import AttentionPrefill, cost
from roofcast.kernels.contract import Inputs

sys.path.insert(0, str(Path(__file__).parent))
from prefill_cases import AWKWARD, OPERATOR, run_prefill


@pytest.mark.parametrize("workload", AWKWARD, ids=AttentionPrefill.label)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ["numba", "torch"])
def test_awkward_shapes(workload: AttentionPrefill, precision: str, name: str) -> None:
    inputs = OPERATOR.make_inputs(dataclasses.replace(workload, precision=precision), 5)
    output = run_prefill(inputs, name)
    assert set(output) == ({"out", "lse"} if name == "numba" else {"out"})
    result = OPERATOR.check(output, inputs)
    assert result.ok, result.message


@pytest.mark.parametrize("pairs", [True, False])
def test_bf16_in_both_ways(pairs: bool) -> None:
    workload = AttentionPrefill(2, 230, 4, 2, 96, precision="bf16", lengths="uniform", prefix=13)
    inputs = OPERATOR.make_inputs(workload, 5)
    prepared = prepare_pairs(inputs, pairs)
    prepared.run()
    result = OPERATOR.check(prepared.output(), inputs)
    assert result.ok, result.message


def test_reference_by_hand() -> None:
    workload = AttentionPrefill(1, 2, 1, 1, 16, sinks=True)
    q, k, v = np.zeros((2, 1, 16)), np.zeros((2, 1, 16)), np.zeros((2, 1, 16))
    q[..., 0] = 4.0  # times the scale of 1/4
    k[:, 0, 0] = np.log([1.0, 2.0])
    v[:, 0, 0] = [8.0, 16.0]
    arrays: dict[str, Any] = {n: x.astype(np.float32) for n, x in (("q", q), ("k", k), ("v", v))}
    arrays |= dict.fromkeys(("query_offsets", "key_offsets"), np.array([0, 2], np.int32))
    arrays["sinks"] = np.log([3.0]).astype(np.float32)
    found = OPERATOR.reference(Inputs(workload, 0, arrays))
    np.testing.assert_allclose(found["out"][:, 0, 0], [8 / 4, (8 + 2 * 16) / 6], rtol=1e-6)
    np.testing.assert_allclose(found["lse"][:, 0], np.log([4.0, 6.0]), rtol=1e-6)


def test_cost_counts_the_mask() -> None:
    found = cost(AttentionPrefill(2, 100, 4, 2, 64))
    pairs = 2 * 100 * 101 // 2
    assert found.flops["matrix.fp32"] == 4 * pairs * 4 * 64
    assert found.exponentials == pairs * 4
    assert found.read_bytes["dram"] == 4 * 64 * 200 * (4 + 2 * 2)
    assert found.write_bytes["dram"] == 4 * 200 * 4 * (64 + 1)
    windowed = cost(AttentionPrefill(1, 10, 4, 2, 64, prefix=90, window=25))
    assert windowed.flops["matrix.fp32"] == 4 * 250 * 4 * 64
    # Positions 90 to 99 see the keys from 66 on.
    assert windowed.read_bytes["dram"] == 4 * 64 * (10 * 4 + 2 * 34 * 2)
    assert cost(AttentionPrefill(softcap=2.0)).exponentials == 2 * cost(AttentionPrefill()).exponentials


def test_rows_that_see_nothing() -> None:
    inputs = OPERATOR.make_inputs(AttentionPrefill(1, 50, 2, 1, 64, prefix=-20), 0)
    output = run_prefill(inputs)
    assert not output["out"][:20].any()
    assert np.isneginf(output["lse"][:20]).all()
    assert np.isfinite(output["lse"][20:]).all()
    sink = OPERATOR.make_inputs(AttentionPrefill(1, 50, 2, 1, 64, prefix=-20, sinks=True), 0)
    output = run_prefill(sink)
    assert not output["out"][:20].any()
    np.testing.assert_array_equal(output["lse"][:20], np.tile(sink.arrays["sinks"], (20, 1)))


@pytest.mark.parametrize("factor", [30.0, 3000.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_very_large_and_very_negative_scores(factor: float, sign: float) -> None:
    inputs = OPERATOR.make_inputs(AttentionPrefill(2, KEYS + 70, 2, 1, 64, lengths="uniform", sinks=True), 1)
    # All scores of one sign and far from 0.
    inputs.arrays["q"][...] = np.abs(inputs.arrays["q"]) * factor
    inputs.arrays["k"][...] = sign * (np.abs(inputs.arrays["k"]) + 1.0)
    output = run_prefill(inputs)
    assert np.isfinite(output["out"]).all()
    result = OPERATOR.check(output, inputs)
    assert result.ok, result.message


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_chunks_give_what_the_whole_prompt_gives(data: st.DataObject) -> None:
    kv_heads, group = data.draw(st.sampled_from([(1, 1), (2, 3), (1, 7)]))
    length = data.draw(st.integers(2, 500))
    cut = data.draw(st.integers(1, length - 1))
    workload = AttentionPrefill(
        1, length, kv_heads * group, kv_heads, data.draw(st.sampled_from([16, 64, 96])),
        window=data.draw(st.sampled_from([0, 1, 17, 150])), sinks=data.draw(st.booleans()),
    )  # fmt: skip
    inputs = OPERATOR.make_inputs(workload, data.draw(st.integers(0, 1000)))
    whole = run_prefill(inputs)
    assert OPERATOR.check(whole, inputs).ok
    # The first chunk sees its own keys, the second the first chunk's as a prefix.
    for first, stop in ((0, cut), (cut, length)):
        arrays = dict(inputs.arrays)
        arrays["q"] = np.ascontiguousarray(arrays["q"][first:stop])
        arrays["k"], arrays["v"] = (np.ascontiguousarray(arrays[n][:stop]) for n in ("k", "v"))
        arrays["query_offsets"], arrays["key_offsets"] = np.array([[0, stop - first], [0, stop]], np.int32)
        chunk = dataclasses.replace(workload, length=stop - first, prefix=first)
        part = run_prefill(Inputs(chunk, 0, arrays))
        for name in ("out", "lse"):
            np.testing.assert_allclose(part[name], whole[name][first:stop], rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_window_over_everything_is_none(precision: str) -> None:
    plain = AttentionPrefill(2, 250, 3, 1, 64, precision=precision, lengths="uniform", prefix=5)
    inputs = OPERATOR.make_inputs(plain, 2)
    windowed = Inputs(dataclasses.replace(plain, window=255), 2, inputs.arrays)
    base, found = run_prefill(inputs), run_prefill(windowed)
    for name in ("out", "lse"):
        np.testing.assert_array_equal(found[name], base[name])


def test_decoding_equals_the_last_row() -> None:
    inputs = OPERATOR.make_inputs(AttentionPrefill(1, 90, 4, 2, 64), 4)
    last = OPERATOR.reference(inputs)["out"][-1]
    arrays = {n: inputs.arrays[n].transpose(1, 0, 2)[None].copy() for n in ("k", "v")}
    pages = {"k_pages": arrays["k"], "v_pages": arrays["v"], "page_table": np.zeros((1, 1), np.int32)}
    query = {"q": inputs.arrays["q"][-1:][None].copy(), "lengths": np.array([90], np.int32)}
    step = AttentionDecode(1, 90, 4, 2, 64, page_size=90)
    found = get_operator("attention.decode").reference(Inputs(step, 0, {**pages, **query}))
    np.testing.assert_allclose(found["out"][0, 0], last, rtol=1e-12)


def test_tasks_cover_every_query_once_longest_first() -> None:
    w = AttentionPrefill(3, 300, 2, 1, 64, lengths="uniform", prefix=-40)
    arrays = OPERATOR.make_inputs(w, 0).arrays
    tasks = list_tasks(w, arrays["query_offsets"], arrays["key_offsets"], 64)
    rows = [(b, h, i) for b, h, first, count in tasks.tolist() for i in range(first, first + count)]
    assert len(rows) == len(set(rows)) == 2 * int(arrays["query_offsets"][-1])
    assert tasks[0, 2] > tasks[-1, 2]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"batch": 0}, "batch"),
        ({"length": 0}, "length"),
        ({"q_heads": 6, "kv_heads": 4}, "q_heads"),
        ({"head_dim": 40}, "head_dim"),
        ({"head_dim": 512}, "head_dim"),
        ({"prefix": -2048}, "prefix"),
        ({"precision": "int3"}, "precision"),
        ({"lengths": "zipf"}, "lengths"),
        ({"window": -1}, "window"),
        ({"window": 5, "causal": False}, "window"),
        ({"softcap": -1.0}, "softcap"),
    ],
)
def test_impossible_workloads_are_refused(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(WorkloadError, match=name):
        AttentionPrefill(**fields)
