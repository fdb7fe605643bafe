"""attention.decode in Numba: every shape against float64, edge cases, and properties."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofcast.kernels import precision as storage
from roofcast.kernels.attention.decode.numba_kernel import piece_count, prepare_pieces
from roofcast.kernels.attention.decode.operator import AttentionDecode
from roofcast.kernels.contract import Inputs

sys.path.insert(0, str(Path(__file__).parent))
from decode_cases import AWKWARD, OPERATOR, poison_unused_slots, run_decode


def _pieces(inputs: Inputs, pieces: int, dot: bool | None = None) -> dict[str, Any]:
    prepared = prepare_pieces(inputs, pieces, dot=dot)
    prepared.run()
    return prepared.output()


@pytest.mark.parametrize("workload", AWKWARD, ids=AttentionDecode.label)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_awkward_shapes(workload: AttentionDecode, precision: str) -> None:
    inputs = OPERATOR.make_inputs(dataclasses.replace(workload, precision=precision), 5)
    poison_unused_slots(inputs)
    output = run_decode(inputs)
    assert set(output) == {"out", "lse"}
    for found in (output, _pieces(inputs, 7)):
        result = OPERATOR.check(found, inputs)
        assert result.ok, result.message
        # Scores are kept in fp32: `check` allows for those that are stored in bf16.
        assert result.max_error < 0.5
    if precision == "bf16":
        np.testing.assert_allclose(output["lse"], OPERATOR.reference(inputs)["lse"], rtol=1e-5, atol=1e-5)


def test_bf16_without_its_dot_product() -> None:
    inputs = OPERATOR.make_inputs(AttentionDecode(3, 200, 14, 2, 96, precision="bf16", lengths="uniform"), 5)
    output = _pieces(inputs, 3, dot=False)
    np.testing.assert_allclose(output["out"], OPERATOR.reference(inputs)["out"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("factor", [30.0, 3000.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_very_large_and_very_negative_scores(factor: float, sign: float) -> None:
    inputs = OPERATOR.make_inputs(AttentionDecode(2, 500, 4, 2, 64, lengths="uniform"), 1)
    keys = inputs.arrays["k_pages"]
    # All scores of one sign and far from 0, rising towards the end.
    inputs.arrays["q"][...] = np.abs(inputs.arrays["q"]) * factor
    keys[...] = sign * (np.abs(keys) + 1.0)
    output = _pieces(inputs, 5)
    assert np.isfinite(output["out"]).all()
    result = OPERATOR.check(output, inputs)
    assert result.ok, result.message


def test_one_key_takes_all() -> None:
    inputs = OPERATOR.make_inputs(AttentionDecode(1, 300, 4, 1, 64, page_size=4), 1)
    arrays = inputs.arrays
    chosen = 217
    page, slot = arrays["page_table"][0, chosen // 4], chosen % 4
    arrays["q"][...] = 10.0
    arrays["k_pages"][page, 0, slot] = 10.0
    for pieces in (1, 9):
        output = _pieces(inputs, pieces)
        np.testing.assert_array_equal(output["out"][0, 0], np.tile(arrays["v_pages"][page, 0, slot], (4, 1)))


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_splitting_and_permuting_pages_change_nothing(data: st.DataObject) -> None:
    kv_heads, group = data.draw(st.sampled_from([(1, 1), (1, 4), (2, 3), (3, 7)]))
    context, tokens = data.draw(st.integers(4, 300)), data.draw(st.integers(1, 4))
    workload = AttentionDecode(
        data.draw(st.integers(1, 5)),
        context,
        kv_heads * group,
        kv_heads,
        data.draw(st.sampled_from([16, 64, 96])),
        page_size=data.draw(st.sampled_from([1, 3, 16, 100])),
        lengths=data.draw(st.sampled_from(["constant", "uniform", "log_uniform", "lognormal"])),
        window=data.draw(st.sampled_from([0, 1, 17, 150])),
        sinks=data.draw(st.booleans()),
        query_tokens=tokens,
    )
    inputs = OPERATOR.make_inputs(workload, data.draw(st.integers(0, 1000)))
    whole = _pieces(inputs, 1)
    base = {name: array.copy() for name, array in whole.items()}
    assert OPERATOR.check(base, inputs).ok
    moved = Inputs(workload, 0, dict(inputs.arrays))
    order = np.random.default_rng(0).permutation(inputs.arrays["k_pages"].shape[0])
    table = inputs.arrays["page_table"]
    moved.arrays["page_table"] = np.where(table >= 0, np.argsort(order)[table].astype(np.int32), -1).astype(np.int32)
    for name in ("k_pages", "v_pages"):
        moved.arrays[name] = inputs.arrays[name][order]
    permuted, split = _pieces(moved, 1), _pieces(inputs, data.draw(st.integers(2, 40)))
    for name, value in base.items():
        np.testing.assert_array_equal(permuted[name], value)
        np.testing.assert_allclose(split[name], value, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_window_over_everything_is_none(precision: str) -> None:
    plain = AttentionDecode(3, 150, 6, 2, 64, precision=precision, lengths="uniform", query_tokens=2)
    inputs = OPERATOR.make_inputs(plain, 2)
    base = run_decode(inputs)["out"].copy()
    windowed = Inputs(dataclasses.replace(plain, window=150), 2, inputs.arrays)
    np.testing.assert_array_equal(run_decode(windowed)["out"], base)


def test_query_tokens_are_steps_one_after_another() -> None:
    together = OPERATOR.make_inputs(AttentionDecode(2, 90, 4, 2, 64, query_tokens=3), 4)
    base = run_decode(together)["out"].copy()
    for token in range(3):
        arrays = dict(together.arrays)
        arrays["q"] = np.ascontiguousarray(arrays["q"][:, token : token + 1])
        arrays["lengths"] = arrays["lengths"] - (2 - token)
        alone = run_decode(Inputs(AttentionDecode(2, 90 - (2 - token), 4, 2, 64), 4, arrays))["out"]
        np.testing.assert_allclose(alone[:, 0], base[:, token], rtol=1e-5, atol=1e-6)


def test_results_follow_the_values_and_stay_within_them() -> None:
    inputs = OPERATOR.make_inputs(AttentionDecode(2, 100, 2, 1, 32), 0)
    inputs.arrays["v_pages"][...] = 3.0
    np.testing.assert_allclose(run_decode(inputs)["out"], 3.0, rtol=1e-6)
    inputs.arrays["v_pages"][...] = storage.widen(np.float32(-7.0))
    np.testing.assert_allclose(run_decode(inputs)["out"], -7.0, rtol=1e-6)


def test_pieces_suit_the_work() -> None:
    assert piece_count(1, 1, 8) == 1
    assert piece_count(8 * 4096, 8, 2) == 8
    assert piece_count(131_072, 1, 64) == 256
