"""sync.quantize: formats against torch's casts, every implementation against the definition, ties, zeros, outliers."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from roofcast.kernels import WorkloadError, get_implementation, get_operator, precision
from roofcast.kernels import narrow_formats as formats
from roofcast.kernels.contract import Inputs
from roofcast.kernels.sync.quantize.operator import Quantize, cost, element_scales, reference

OPERATOR = get_operator("sync.quantize")
IMPLEMENTATIONS = ("numba", "torch", "triton")


def _run(implementation: str, inputs: Inputs) -> dict[str, Any]:
    prepared = get_implementation("sync.quantize", implementation).prepare(inputs, "cpu")
    prepared.run()
    return prepared.output()


def _assert_right(implementation: str, inputs: Inputs) -> None:
    result = OPERATOR.check(_run(implementation, inputs), inputs)
    assert result.ok, f"{implementation} {inputs.workload.label()}: {result.message}"


def test_e4m3_is_torchs() -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(20_000) * 2.0 ** rng.uniform(-12, 8, 20_000)).astype(np.float32).clip(-448, 448)
    values = formats.e4m3_values()
    x = np.concatenate([x, values, -values, (values[1:] + values[:-1]) / 2]).astype(np.float32)
    want = torch.from_numpy(x).to(torch.float8_e4m3fn)
    np.testing.assert_array_equal(formats.encode_e4m3(x), want.view(torch.uint8).numpy())
    np.testing.assert_array_equal(formats.decode_e4m3(formats.encode_e4m3(x)), want.double().numpy())


def test_e2m1_values_and_ties() -> None:
    assert formats.e2m1_values().tolist() == [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    ties = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -0.25, -5.0, 7.0, -100.0])
    want = [0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 0.0, -4.0, 6.0, -6.0]
    assert formats.decode_e2m1(formats.encode_e2m1(ties)).tolist() == want
    codes = np.arange(16, dtype=np.uint8)
    np.testing.assert_array_equal(formats.unpack_nibbles(formats.pack_nibbles(codes)), codes)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (13, 200), (129, 257), (5, 1042)])
def test_fp8_on_awkward_shapes(implementation: str, rows: int, columns: int) -> None:
    _assert_right(implementation, OPERATOR.make_inputs(Quantize(rows, columns), rows))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("amax", ["computed", "given"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 16), (13, 208), (3, 4112)])
def test_nvfp4_on_awkward_shapes(implementation: str, amax: str, rows: int, columns: int) -> None:
    _assert_right(implementation, OPERATOR.make_inputs(Quantize(rows, columns, "nvfp4", amax), rows))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 150), st.integers(1, 40), st.booleans(), st.integers(-30, 30), st.integers(0, 99))
def test_numba_on_any_matrix(rows: int, tens: int, nvfp4: bool, power: int, seed: int) -> None:
    workload = Quantize(rows, 16 * tens if nvfp4 else 10 * tens + seed % 10, "nvfp4" if nvfp4 else "fp8_block128")
    inputs = OPERATOR.make_inputs(workload, seed)
    weight = precision.from_bf16(inputs.arrays["weight"]) * np.float32(2.0**power)
    inputs.arrays["weight"] = precision.to_bf16(weight)
    _assert_right("numba", inputs)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", ["fp8_block128", "nvfp4"])
def test_zeros_one_large_weight_and_ties(implementation: str, name: str) -> None:
    inputs = OPERATOR.make_inputs(Quantize(130, 272, name), 0)
    weight = precision.from_bf16(inputs.arrays["weight"]).copy()
    weight[:128, :128] = 0.0
    weight[0, 130], weight[0, 131] = 1e6, -1e-6
    # Halves of small whole numbers under a scale of 1: every other one is a tie.
    weight[128:, 128:] = np.arange(288).reshape(2, 144) / 2.0
    inputs.arrays["weight"] = precision.to_bf16(weight)
    _assert_right(implementation, inputs)
    inputs.arrays["weight"][:] = 0
    everything = Inputs(inputs.workload, 0, inputs.arrays)
    _assert_right(implementation, everything)
    assert not _run(implementation, everything)["code"].any()


@pytest.mark.parametrize(("name", "largest_error"), [("fp8_block128", 2.0**-4), ("nvfp4", 0.25)])
def test_weights_come_back(name: str, largest_error: float) -> None:
    inputs = OPERATOR.make_inputs(Quantize(64, 256, name), 0)
    output = _run("numba", inputs)
    weight = precision.from_bf16(inputs.arrays["weight"]).astype(np.float64)
    if name == "nvfp4":
        values = formats.decode_e2m1(formats.unpack_nibbles(output["code"]))
        scales = element_scales(output["scale"], Quantize(64, 256, name), float(output["tensor_scale"][0]))
    else:
        values, scales = formats.decode_e4m3(output["code"]), element_scales(output["scale"], Quantize(64, 256))
    least = 2.0**-9 if name == "fp8_block128" else 0.5
    assert np.all(np.abs(values * scales - weight) <= largest_error * np.abs(weight) + least * scales)


def test_wrong_outputs_are_refused() -> None:
    for name in ("fp8_block128", "nvfp4"):
        inputs = OPERATOR.make_inputs(Quantize(40, 64, name), 0)
        right = reference(inputs)
        for key in right:
            wrong = {k: v.copy() for k, v in right.items()}
            wrong[key].flat[0] += 1
            assert not OPERATOR.check(wrong, inputs).ok
            assert not OPERATOR.check({k: v for k, v in right.items() if k != key}, inputs).ok


def test_bytes_are_counted_once() -> None:
    assert cost(Quantize(256, 256)).dram_bytes == 65536 * 3 + 4 * 4
    assert cost(Quantize(256, 256, "nvfp4")).dram_bytes == 65536 * (2 + 0.5 + 1 / 16) + 4


@pytest.mark.parametrize(("field", "value"), [("rows", 0), ("columns", 8), ("format", "int4"), ("amax", "guessed")])
def test_impossible_workloads_name_the_field(field: str, value: Any) -> None:
    with pytest.raises(WorkloadError, match=field):
        dataclasses.replace(Quantize(16, 16, "nvfp4"), **{field: value})
