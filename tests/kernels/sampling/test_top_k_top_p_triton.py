"""sampling.top_k_top_p in Triton's interpreter: the same tokens as Numba, bit for bit the same weights."""

from typing import Any

import numpy as np
import pytest
from roofcast.kernels import get_implementation, get_operator
from roofcast.kernels.contract import Inputs
from roofcast.kernels.precision import store
from roofcast.kernels.sampling.exact_weights import sortable, weight_unit
from roofcast.kernels.sampling.top_k_top_p.operator import TopKTopP
from roofcast.kernels.sampling.triton_weights import weights

# Numpy, under the interpreter, reports the NaN and infinities that the edge cases are about.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.runtime.interpreter")

OPERATOR = get_operator("sampling.top_k_top_p")


def _run(implementation: str, inputs: Inputs) -> dict[str, Any]:
    prepared = get_implementation("sampling.top_k_top_p", implementation).prepare(inputs, "cpu")
    prepared.run()
    return prepared.output()


def _assert_same(inputs: Inputs) -> dict[str, Any]:
    output, other = _run("triton", inputs), _run("numba", inputs)
    result = OPERATOR.check(output, inputs)
    assert result.ok, result.message
    np.testing.assert_array_equal(output["token"], other["token"])
    np.testing.assert_array_equal(output["kept"], other["kept"])
    np.testing.assert_allclose(output["logprob"], other["logprob"], atol=2e-6)
    return output


@pytest.mark.parametrize(
    "workload",
    [
        TopKTopP(2, 17, "bf16"),
        TopKTopP(1, 4500, top_k=0, logits="flat"),
        TopKTopP(1, 1, top_k=0),
        TopKTopP(3, 151, top_k=5, min_p=0.1, temperature=0.0),
        TopKTopP(4, 503, temperature=0.7, repetition=1.2, presence=0.5, frequency=0.2, seen=40, biased=7, mixed=True),
    ],
    ids=TopKTopP.label,
)
def test_the_same_tokens_as_numba(workload: TopKTopP) -> None:
    _assert_same(OPERATOR.make_inputs(workload, 7))


def test_edge_rows() -> None:
    rows = np.random.default_rng(0).normal(0, 1, (6, 300)).astype(np.float32)
    rows[0] = -np.inf
    rows[1, 299] = np.nan
    rows[2, 3] = np.inf
    rows[3], rows[3, 298] = -np.inf, -3.0
    rows[4] = 0.0
    rows[4, ::2] = -0.0
    inputs = OPERATOR.make_inputs(TopKTopP(6, 300, top_p=0.9), 0)
    inputs.arrays["logits"] = store(rows, "fp32")
    output = _assert_same(inputs)
    assert output["token"][:4].tolist() == [-1, -1, -1, 298]
    assert output["kept"][4] == 300


def test_weights_are_equal_bit_for_bit() -> None:
    import torch
    import triton
    import triton.language as tl
    from numba import njit
    from roofcast.kernels import simd
    from roofcast.kernels.sampling import numba_weights

    @triton.jit
    def fill(x, base, scale, unit, out, n: tl.constexpr):
        i = tl.arange(0, n)
        tl.store(out + i, weights(tl.load(x + i), base, scale, unit))

    @njit
    def fill_numba(x, base, scale, unit, out):
        for i in range(0, x.size, simd.LANES):
            simd.store(out, i, numba_weights.weights(simd.load(x, i), base, scale, unit))

    rng = np.random.default_rng(0)
    x = (5.0 - rng.exponential(8.0, 4096)).astype(np.float32)
    x[:3] = 5.0, -np.inf, np.finfo(np.float32).min
    unit = np.float32(weight_unit(151_936))
    for scale in (1.4426950408889634, 14.3, 0.01, 0.0):
        one, two = np.zeros(4096, np.int64), np.zeros(4096, np.int64)
        fill[(1,)](torch.from_numpy(x), 5.0, scale, float(unit), torch.from_numpy(one), 4096)
        fill_numba(x, np.float32(5.0), np.float32(scale), unit, two)
        np.testing.assert_array_equal(one, two)
        exact = np.exp2((x.astype(np.float64) - 5.0) * np.float32(scale)) * unit if scale else np.full(4096, unit)
        np.testing.assert_allclose(two, exact, rtol=1e-6, atol=1.0)


def test_keys_order_as_values_do() -> None:
    values = np.array([-np.inf, -1e38, -1.0, -1e-45, 0.0, 1e-45, 0.5, 3.0, np.inf], np.float32)
    keys = [sortable(float(v)) for v in values]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    assert weight_unit(1) == 2.0**44
    assert weight_unit(2**18) == 2.0**44
    assert weight_unit(2**18 + 1) == 2.0**43
