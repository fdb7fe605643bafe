"""Transposition, compression and lane-wise sorting against numpy."""

from typing import Any

import numpy as np
import pytest
from numba import njit
from roofcast.kernels import simd
from roofcast.kernels.simd.sorting import network

LANES = simd.LANES


@njit
def _transpose(source: Any, target: Any, row: int, column: int) -> None:
    simd.transpose_tile(source, (row, column), target, (1, 2))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_transpose_tile(dtype: Any) -> None:
    source = np.random.default_rng(0).integers(-1000, 1000, (LANES + 5, LANES + 9)).astype(dtype)
    target = np.full((LANES + 2, LANES + 4), 7, dtype)
    _transpose(source, target, 3, 6)
    want = np.full_like(target, 7)
    want[1 : 1 + LANES, 2 : 2 + LANES] = source[3 : 3 + LANES, 6 : 6 + LANES].T
    np.testing.assert_array_equal(target, want)


@njit
def _compress(values: Any, limit: Any, out: Any, at: int) -> int:
    for i in range(0, values.size, simd.LANES):
        x = simd.load(values, i)
        chosen = x >= limit
        simd.store_compressed(out, at, x, chosen)
        at += simd.count_lanes(chosen)
    return at


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float64])
@pytest.mark.parametrize("limit", [-2000, 0, 300, 2000])
def test_store_compressed(dtype: Any, limit: int) -> None:
    values = np.random.default_rng(1).integers(-1000, 1000, 10 * LANES).astype(dtype)
    out = np.full(values.size + LANES + 3, -7, dtype)
    end = _compress(values, dtype(limit), out, 3)
    np.testing.assert_array_equal(out[:3], np.full(3, -7, dtype))
    np.testing.assert_array_equal(out[3:end], values[values >= limit])


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 13, 16])
def test_network_sorts_every_sequence_of_zeros_and_ones(count: int) -> None:
    # The zero-one principle: a network that sorts these sorts everything (Knuth 3, 5.3.4, theorem Z).
    items = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    for i, j in network(count):
        items[:, [i, j]] = np.stack([items[:, [i, j]].max(1), items[:, [i, j]].min(1)], axis=1)
    assert np.all(np.diff(items, axis=1) <= 0)


@njit
def _sort(keys: Any) -> None:
    simd.sort_columns(keys, 13, 13)


@njit
def _sort_by(keys: Any, numbers: Any) -> None:
    simd.sort_columns_by(keys, numbers, 16, 5)


def test_sort_columns() -> None:
    keys = np.random.default_rng(2).normal(0, 1, (14, LANES)).astype(np.float32)
    keys[3, :2] = -np.inf, np.inf
    want = keys.copy()
    want[:13] = -np.sort(-want[:13], axis=0)
    _sort(keys)
    np.testing.assert_array_equal(keys, want)


@pytest.mark.parametrize("kinds", [1, 3, 40, 10**9])
def test_sort_columns_by_takes_the_lowest_number_among_equals(kinds: int) -> None:
    rng = np.random.default_rng(kinds)
    keys = rng.integers(0, kinds, (16, LANES)).astype(np.float32)
    numbers = np.argsort(rng.random((16, LANES)), axis=0).astype(np.int32)
    order = np.lexsort((numbers, -keys), axis=0)[:5]
    want = np.take_along_axis(keys, order, 0), np.take_along_axis(numbers, order, 0)
    _sort_by(keys, numbers)
    np.testing.assert_array_equal(keys[:5], want[0])
    np.testing.assert_array_equal(numbers[:5], want[1])


def test_leaf_and_inlined_hold_no_reference_counts() -> None:
    @simd.inlined
    def add(a: Any, at: int) -> None:
        a[at] += 1 if a[at] > 0 else 2

    @simd.leaf
    def outer(a: Any) -> None:
        for i in range(a.size):
            add(a, i)

    values = np.array([-1.0, 0.0, 3.0])
    outer(values)
    assert values.tolist() == [1.0, 2.0, 4.0]
    (assembly,) = outer.inspect_asm().values()
    body = assembly[: assembly.index("cpython")] if "cpython" in assembly else assembly
    assert "NRT_incref" not in body
    assert "lock" not in body
