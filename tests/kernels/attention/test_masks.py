"""Masks: ranges, exact counts, and blocks against the dense mask."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofcast.kernels import WorkloadError
from roofcast.kernels.attention.masks import Mask, attention_flops, offsets

MASKS = [Mask(causal=False), Mask(), Mask(window=1), Mask(window=5), Mask(window=400)]
LENGTHS = [(1, 1), (13, 13), (127, 127), (5, 200), (129, 13), (1, 200), (13, 0), (0, 13)]


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize(("queries", "keys"), LENGTHS)
def test_counts_are_those_of_the_dense_mask(mask: Mask, queries: int, keys: int) -> None:
    dense = mask.dense(queries, keys)
    assert mask.pairs(queries, keys) == dense.sum()
    assert mask.keys_seen(queries, keys) == dense.any(0).sum()
    assert mask.hides_nothing(queries, keys) == dense.all()
    assert mask.totals([(queries, keys), (3, 7)])[0] == dense.sum() + mask.dense(3, 7).sum()


def test_by_hand() -> None:
    np.testing.assert_array_equal(Mask().dense(2, 3), [[1, 1, 0], [1, 1, 1]])
    np.testing.assert_array_equal(Mask(window=2).dense(3, 3), [[1, 0, 0], [1, 1, 0], [0, 1, 1]])
    # A query before the first key sees nothing.
    np.testing.assert_array_equal(Mask().dense(3, 2), [[0, 0], [1, 0], [1, 1]])
    assert Mask().pairs(2048, 2048) == 2048 * 2049 // 2


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(MASKS), st.integers(1, 70), st.integers(0, 70), st.data())
def test_a_block_of_queries_sees_one_range(mask: Mask, queries: int, keys: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, queries - 1))
    stop = data.draw(st.integers(first + 1, queries))
    low, high = mask.block_range(first, stop, queries, keys)
    seen = np.flatnonzero(mask.dense(queries, keys)[first:stop].any(0))
    assert 0 <= low <= high <= keys
    if seen.size:
        assert (low, high) == (seen[0], seen[-1] + 1)


def test_splitting_a_prompt_into_chunks_keeps_its_pairs() -> None:
    for mask in MASKS:
        whole = mask.pairs(200, 200)
        assert whole == sum(mask.pairs(40, end) for end in range(40, 201, 40)) or not mask.causal


def test_flops_and_offsets() -> None:
    assert attention_flops(10, 3, 192, 128) == 2 * 10 * 3 * (192 + 128)
    assert offsets([3, 0, 5]).tolist() == [0, 3, 3, 8]


def test_impossible_masks_are_refused() -> None:
    with pytest.raises(WorkloadError, match="window"):
        Mask(window=-1)
    with pytest.raises(WorkloadError, match="window"):
        Mask(causal=False, window=3)
