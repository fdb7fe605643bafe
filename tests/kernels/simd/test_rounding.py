"""Rounding to bf16 agrees with the definition, in hardware or not."""

import numpy as np
from numba import njit
from roofcast.kernels import precision, simd
from roofcast.kernels.simd.rounding import round_bf16


@njit
def _round_all(values, out):
    for i in range(0, values.size, simd.LANES):
        simd.store(out, i, round_bf16(simd.load(values, i)))


def test_rounds_to_nearest_even_and_keeps_infinities_and_nan():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 64 * 1024, dtype=np.uint32)
    bits[:64] = np.arange(0x3F800000, 0x3F800000 + 64 * 0x4000, 0x4000)  # Every quarter step above 1, so ties too.
    values = bits.view(np.float32)
    values[64:68] = [np.inf, -np.inf, 0.0, -0.0]
    out = np.empty(values.size, np.uint16)
    _round_all(values, out)
    normal = ~(np.abs(values) < 2.0**-126)
    number = normal & ~np.isnan(values)
    np.testing.assert_array_equal(out[number], precision.to_bf16(values)[number])
    assert np.isnan(precision.from_bf16(out[np.isnan(values)])).all()
    # What is below the normal numbers becomes 0 or is rounded as all else.
    tiny = precision.from_bf16(out[~normal])
    assert np.all((tiny == 0) | (tiny == precision.from_bf16(precision.to_bf16(values[~normal]))))
