"""The rounding that a stored precision earns in a tolerance is the one that storing causes."""

import numpy as np
import pytest
from roofcast.kernels.precision import UNIT_ROUNDOFF, store, widen


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_unit_roundoff_is_the_largest_relative_error_of_storing(precision: str) -> None:
    above_one = 1.0 + np.linspace(0.0, 2.0 * UNIT_ROUNDOFF[precision], 1001)
    stored = widen(store(above_one.astype(np.float32), precision)).astype(np.float64)
    error = np.abs(stored - above_one).max()
    assert 0.95 * UNIT_ROUNDOFF[precision] <= error <= UNIT_ROUNDOFF[precision]


def test_unit_roundoff_of_fp16() -> None:
    assert UNIT_ROUNDOFF["fp16"] == np.finfo(np.float16).eps / 2
