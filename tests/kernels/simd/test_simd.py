"""Vectors in Numba: every function against numpy, and the machine code they become."""

import operator
import os
import platform
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numba import njit
from roofcast.kernels import precision, simd

LANES = simd.LANES
F32, I32, U32, U16 = np.float32, np.int32, np.uint32, np.uint16


def _floats(seed: int, size: int = LANES) -> Any:
    return np.random.default_rng(seed).normal(0, 10, size).astype(F32)


def _apply(function: Any, result: Any, *operands: Any) -> Any:
    """Run a function of vectors on arrays of `LANES` elements."""
    out = simd.aligned_empty(LANES, result)
    count = len(operands)

    @njit
    def one(out: Any, a: Any) -> None:
        simd.store(out, 0, function(simd.load(a, 0)))

    @njit
    def two(out: Any, a: Any, b: Any) -> None:
        simd.store(out, 0, function(simd.load(a, 0), simd.load(b, 0)))

    @njit
    def three(out: Any, a: Any, b: Any, c: Any) -> None:
        simd.store(out, 0, function(simd.load(a, 0), simd.load(b, 0), simd.load(c, 0)))

    (one, two, three)[count - 1](out, *operands)
    return out


@njit
def _operators(out: Any, a: Any, b: Any) -> None:
    x, y = simd.load(a, 0), simd.load(b, 0)
    simd.store(out, (0, 0), x + y)
    simd.store(out, (1, 0), x - y)
    simd.store(out, (2, 0), x * y)
    simd.store(out, (3, 0), x / y)
    simd.store(out, (4, 0), -x)
    simd.store(out, (5, 0), 1.5 * x)
    simd.store(out, (6, 0), x - 2)
    x += y
    x *= 3
    simd.store(out, (7, 0), x)


def test_float_operators() -> None:
    a, b = _floats(0), _floats(1)
    out = np.zeros((8, LANES), F32)
    _operators(out, a, b)
    want = [a + b, a - b, a * b, a / b, -a, F32(1.5) * a, a - F32(2), (a + b) * F32(3)]
    np.testing.assert_array_equal(out, np.stack(want))


@njit
def _integer_operators(out: Any, a: Any, b: Any, shift: Any) -> None:
    x, y = simd.load(a, 0), simd.load(b, 0)
    simd.store(out, (0, 0), x & y)
    simd.store(out, (1, 0), x | y)
    simd.store(out, (2, 0), x ^ y)
    simd.store(out, (3, 0), x << shift)
    simd.store(out, (4, 0), x >> shift)
    simd.store(out, (5, 0), ~x)
    simd.store(out, (6, 0), x * y + x)


@pytest.mark.parametrize("dtype", [I32, U32, np.int64])
def test_integer_operators(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    a = rng.integers(-(2**31), 2**31, LANES).astype(dtype)
    b = rng.integers(0, 2**31, LANES).astype(dtype)
    out = np.zeros((7, LANES), dtype)
    _integer_operators(out, a, b, 5)
    shift = dtype(5)
    want = [a & b, a | b, a ^ b, a << shift, a >> shift, ~a, a * b + a]
    np.testing.assert_array_equal(out, np.stack(want))


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
@pytest.mark.parametrize("dtype", [F32, I32, U32])
def test_comparisons_and_select(name: str, dtype: Any) -> None:
    a = np.arange(LANES).astype(dtype)
    b = np.full(LANES, LANES // 2, dtype)
    if dtype is F32:
        a[0] = np.nan
        a[1] = -np.inf
    else:
        a[0] = np.array(-1).astype(dtype)
    compare = getattr(operator, name)
    got = _apply(njit(lambda x, y: simd.select(compare(x, y), x, y)), dtype, a, b)
    np.testing.assert_array_equal(got, np.where(compare(a, b), a, b))


def test_masks() -> None:
    @njit
    def function(a: Any, count: Any) -> Any:
        mask = simd.first_lanes(count) & (simd.load(a, 0) > 0.0)
        everything = simd.first_lanes(simd.LANES)
        return simd.mask_bits(mask), simd.count_lanes(mask), simd.any_lane(mask), simd.all_lanes(everything)

    a = _floats(5)
    for count in (-1, 0, 1, LANES - 1, LANES, LANES + 9):
        want = (a > 0) & (np.arange(LANES) < count)
        bits = sum(1 << i for i in np.flatnonzero(want).tolist())
        assert function(a, count) == (bits, want.sum(), want.any(), True)


def test_fma_rounds_once() -> None:
    if platform.machine() == "x86_64" and "fma" not in simd.host_features():
        pytest.skip("no fused multiply-add")
    a, b = _floats(1), _floats(2)
    c = -(a * b)
    got = _apply(simd.fma, F32, a, b, c)
    exact = a.astype(np.float64) * b - (a * b).astype(np.float64)
    np.testing.assert_array_equal(got, exact.astype(F32))
    assert np.any(got != 0)


def test_maximum_and_minimum_take_the_second_where_nan() -> None:
    a, b = _floats(1), _floats(2)
    a[0], b[1] = np.nan, np.nan
    largest = _apply(simd.maximum, F32, a, b)
    smallest = _apply(simd.minimum, F32, a, b)
    np.testing.assert_array_equal(largest, np.where(a > b, a, b))
    np.testing.assert_array_equal(smallest, np.where(a < b, a, b))
    assert largest[0] == b[0]
    assert np.isnan(largest[1])


def test_unary_functions() -> None:
    a = _floats(7)
    np.testing.assert_array_equal(_apply(simd.absolute, F32, a), np.abs(a))
    np.testing.assert_array_equal(_apply(simd.round_even, F32, a), np.round(a))
    np.testing.assert_array_equal(_apply(njit(lambda x: simd.sqrt(simd.absolute(x))), F32, a), np.sqrt(np.abs(a)))


def test_conversions() -> None:
    a = _floats(8)
    ints = np.arange(LANES, dtype=I32) - 3
    bits = precision.to_bf16(a)
    as_int = _apply(njit(lambda x: simd.convert(x, I32)), I32, a)
    np.testing.assert_array_equal(as_int, a.astype(I32))
    np.testing.assert_array_equal(_apply(njit(lambda x: simd.convert(x, F32)), F32, ints), ints.astype(F32))
    np.testing.assert_array_equal(_apply(njit(lambda x: simd.convert(x, np.int64)), np.int64, ints), ints)
    np.testing.assert_array_equal(_apply(njit(lambda x: simd.convert(x, np.float64)), np.float64, a), a)
    np.testing.assert_array_equal(_apply(njit(lambda x: simd.convert(x > 0, I32)), I32, a), (a > 0).astype(I32))
    np.testing.assert_array_equal(_apply(njit(lambda x: simd.bitcast(x, U32)), U32, a), a.view(U32))
    np.testing.assert_array_equal(_apply(simd.widen_bf16, F32, bits), precision.from_bf16(bits))


def test_narrow_bf16_rounds_as_precision_does() -> None:
    a = np.random.default_rng(0).integers(0, 2**32, 64 * LANES, dtype=U32).view(F32)
    a[:4] = [np.nan, np.inf, -np.inf, 1 + 2**-8]

    @njit
    def function(out: Any, a: Any) -> None:
        for i in range(0, a.size, simd.LANES):
            simd.store(out, i, simd.narrow_bf16(simd.load(a, i)))

    out = np.zeros(a.size, U16)
    function(out, a)
    np.testing.assert_array_equal(out, precision.to_bf16(a))


def test_reductions() -> None:
    @njit
    def function(a: Any) -> Any:
        v = simd.load(a, 0)
        return simd.sum_lanes(v), simd.max_lanes(v), simd.min_lanes(v)

    ints = np.arange(LANES, dtype=I32) - 3
    assert function(ints) == (ints.sum(), ints.max(), ints.min())
    unsigned = ints.view(U32)
    assert function(unsigned)[1:] == (unsigned.max(), unsigned.min())
    a = _floats(2)
    a[3] = np.inf
    assert function(a)[1:] == (np.inf, a.min())
    a[3] = np.nan
    assert function(a)[1:] == (np.nanmax(a), np.nanmin(a))
    assert np.isnan(function(a)[0])
    b = np.abs(_floats(4))
    assert function(b)[0] == pytest.approx(b.astype(np.float64).sum(), rel=1e-6)


def test_masked_memory_touches_only_the_mask() -> None:
    @njit
    def function(out: Any, a: Any, count: Any) -> None:
        mask = simd.first_lanes(count)
        simd.store_masked(out, (1, 0), simd.load_masked(a, 0, mask, -1) + 1, mask)

    @njit
    def widened(out: Any, a: Any, count: Any) -> None:
        simd.store(out, 0, simd.load_f32_masked(a, 0, simd.first_lanes(count), -np.inf))

    for count in (0, 1, LANES - 1, LANES):
        for dtype in (F32, U16):
            a = np.arange(1, LANES + 1).astype(dtype)[: max(count, 1)].copy()
            out = np.zeros((2, LANES), dtype)
            function(out, a, count)
            np.testing.assert_array_equal(out[1, :count], a[:count] + 1)
            assert not out[1, count:].any()
            assert not out[0].any()
            wide = np.zeros(LANES, F32)
            widened(wide, a, count)
            np.testing.assert_array_equal(wide[:count], precision.widen(a)[:count])
            assert np.all(np.isneginf(wide[count:]))


def test_gather_and_lane_counts() -> None:
    @njit
    def function(out: Any, a: Any, indices: Any) -> None:
        mask = simd.first_lanes(simd.LANES - 1)
        simd.store(out, 0, simd.gather(a, simd.load(indices, 0), mask, 7.0))
        simd.store(out, simd.LANES, simd.load_lanes(a, 3, 4))

    a = _floats(9, 200)
    indices = np.random.default_rng(1).integers(0, 200, LANES).astype(I32)
    out = np.zeros(LANES + 4, F32)
    function(out, a, indices)
    np.testing.assert_array_equal(out, np.r_[a[indices[:-1]], F32(7), a[3:7]])


def test_streaming_store_and_prefetch() -> None:
    @njit
    def function(out: Any, a: Any) -> None:
        lanes = simd.convert(simd.lane_indices(np.int32), np.float32)
        for i in range(0, a.size, simd.LANES):
            simd.prefetch(a, i + 4096)
            simd.store_streaming(out, i, simd.load(a, i) + lanes + simd.full(1, np.float32))

    a, out = _floats(3, 8 * LANES), simd.aligned_empty(8 * LANES, F32)
    function(out, a)
    np.testing.assert_allclose(out, a + np.tile(np.arange(LANES), 8) + 1, rtol=1e-6)


def _map(function: Any, values: Any) -> Any:
    @njit
    def each(out: Any, a: Any) -> None:
        for i in range(0, a.size, simd.LANES):
            simd.store(out, i, function(simd.load(a, i)))

    out = np.zeros_like(values)
    each(out, values)
    return out


@pytest.mark.parametrize(("name", "low", "high"), [("exp2", -126, 127.4), ("exp", -87.3, 88.3)])
def test_exponentials_against_float64(name: str, low: float, high: float) -> None:
    rng = np.random.default_rng(11)
    sizes = (64 * 1024, 64 * 256)
    x = np.concatenate([rng.uniform(low, high, sizes[0]), rng.uniform(-1, 1, sizes[1])]).astype(F32)
    got = _map(getattr(simd, name), x).astype(np.float64)
    want = getattr(np, name)(x.astype(np.float64))
    assert np.max(np.abs(got / want - 1)) < 2.5e-7


def test_exp2_of_a_product_against_float64() -> None:
    scale = F32(0.7213475)

    @njit(forceinline=True)
    def function(x: Any) -> Any:
        return simd.exp2_product(x, scale)

    x = np.random.default_rng(11).uniform(-125 / 0.7214, 127 / 0.7214, 64 * 1024).astype(F32)
    x[:1] = np.nan
    got, want = _map(function, x).astype(np.float64), np.exp2(x.astype(np.float64) * np.float64(scale))
    assert np.isnan(got[0])
    assert np.max(np.abs(got[1:] / want[1:] - 1)) < 2.5e-7


def test_exponentials_at_the_edges() -> None:
    x = np.zeros(16 * ((16 + LANES - 1) // LANES), F32)
    x[:9] = [np.nan, -np.inf, np.inf, -1e30, 1e30, 0.0, -0.0, -200.0, 1.0]
    two, natural = _map(simd.exp2, x), _map(simd.exp, x)
    np.testing.assert_array_equal(two[:9], np.array([np.nan, 0, np.inf, 0, np.inf, 1, 1, 0, 2], F32))
    np.testing.assert_array_equal(natural[:8], np.array([np.nan, 0, np.inf, 0, np.inf, 1, 1, 0], F32))
    whole = np.arange(-120, 120, dtype=F32)
    np.testing.assert_array_equal(_map(simd.exp2, whole), np.exp2(whole.astype(np.float64)).astype(F32))


def test_mixed_types_are_refused() -> None:
    from numba.core.errors import TypingError

    with pytest.raises(TypingError):
        _apply(njit(lambda x, y: x + y), F32, _floats(0), np.arange(LANES, dtype=I32))
    with pytest.raises(TypingError):
        _apply(njit(lambda x: simd.bitcast(x, np.int64)), np.int64, _floats(0))


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="looks for x86 registers")
def test_machine_code_holds_the_vectors_in_registers() -> None:
    @njit
    def dot(a: Any, b: Any) -> Any:
        s, t = simd.full(0, np.float32), simd.full(0, np.float32)
        for i in range(0, a.size, 2 * simd.LANES):
            s = simd.fma(simd.load(a, i), simd.load(b, i), s)
            t = simd.fma(simd.load(a, i + simd.LANES), simd.exp2(simd.load(b, i + simd.LANES)), t)
        return simd.sum_lanes(s + t)

    a = np.abs(_floats(1, 16 * LANES))
    assert np.isfinite(dot(a, np.ones_like(a)))
    asm = dot.inspect_asm(dot.signatures[0])
    register = {16: "zmm", 8: "ymm", 4: "xmm"}[LANES]
    body = asm[: asm.index("cpython")] if "cpython" in asm else asm
    assert re.search(rf"vfmadd\w+ps\t.*%{register}" if LANES > 4 else rf"mulps\t.*%{register}", body)
    assert "exp2" not in re.findall(r"call\w*\s+(\S+)", body)


def test_lane() -> None:
    @njit
    def function(a: Any, i: Any) -> Any:
        return simd.lane(simd.load(a, 0), i)

    a = _floats(4)
    assert [function(a, i) for i in range(LANES)] == a.tolist()


@pytest.mark.skipif("NUMBA_CPU_NAME" in os.environ, reason="already compiling for another CPU")
def test_a_cpu_without_wide_vectors_or_fma_gets_the_same_numbers() -> None:
    chosen = "exponentials or masked or reductions or maximum or lane"
    command = [sys.executable, "-m", "pytest", __file__, "-k", chosen, "-p", "no:cacheprovider"]
    environment = {**os.environ, "NUMBA_CPU_NAME": "generic"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    assert " passed" in done.stdout
