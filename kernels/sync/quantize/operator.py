"""Quantise bf16 weights for the refit of rollout engines: fp8 in blocks of 128 x 128, or nvfp4 in blocks of 16.

``fp8_block128``: per block of 128 x 128 ``scale = amax / 448`` in fp32, ``code = e4m3(w / scale)``; the weight is
``code * scale`` (the layout of DeepSeek-V3's ``weight_scale_inv``; DeepSeek-AI 2024, DeepSeek-V3, section 3.3).

``nvfp4``: per tensor ``tensor_scale = amax / (448 * 6)`` in fp32, per 16 weights along a row
``scale = e4m3(block_amax / 6 / tensor_scale)``, ``code = e2m1(w / (scale * tensor_scale))``, two codes per byte, the
first in the low nibble (NVIDIA 2025, Pretraining Large Language Models with NVFP4, appendix C).

A scale of 0, of a block of zeros or of weights beneath the scale's range, gives codes 0. Divisions are by
multiplication with the fp32 reciprocal, so that a weight next to the middle between two codes may get either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...contract import Arrays, Check, Cost, Inputs, Operator, Workload, require
from ...narrow_formats import (
    E2M1_LARGEST,
    E4M3_LARGEST,
    FP32_AT_THE_MIDDLE,
    at_the_middle,
    decode_e2m1,
    decode_e4m3,
    encode_e2m1,
    encode_e4m3,
    pack_nibbles,
    unpack_nibbles,
)
from ...precision import from_bf16, to_bf16

FORMATS = ("fp8_block128", "nvfp4")
BLOCK, GROUP = 128, 16


@dataclass(frozen=True)
class Quantize(Workload):
    """One weight matrix.

    Parameters
    ----------
    rows, columns
        Shape; ``nvfp4`` needs columns in multiples of 16.
    format
        ``fp8_block128`` or ``nvfp4``.
    amax
        For ``nvfp4``, whether the largest weight of the tensor is ``computed`` here, which takes a pass of its own, or
        ``given``, as where the optimiser keeps it.
    """

    operator: ClassVar[str] = "sync.quantize"

    rows: int = 8192
    columns: int = 4096
    format: str = "fp8_block128"
    amax: str = "computed"

    def __post_init__(self) -> None:
        require(self.rows >= 1, "rows", self.rows, "give at least one row")
        require(self.columns >= 1, "columns", self.columns, "give at least one column")
        require(self.format in FORMATS, "format", self.format, f"choose one of {', '.join(FORMATS)}")
        whole = self.format != "nvfp4" or self.columns % GROUP == 0
        require(whole, "columns", self.columns, f"nvfp4 needs a multiple of {GROUP}")
        require(self.amax in ("computed", "given"), "amax", self.amax, "choose computed or given")

    @property
    def scale_shape(self) -> tuple[int, int]:
        """Shape of the blocks' scales."""
        if self.format == "nvfp4":
            return self.rows, self.columns // GROUP
        return -(-self.rows // BLOCK), -(-self.columns // BLOCK)


def cost(workload: Quantize) -> Cost:
    """Count the weights read once, codes and scales written once.

    ``nvfp4`` with a computed amax cannot start before it has seen the last weight, so that a tensor larger than the
    cache is read twice; the second reading is not counted, for a smaller tensor's is not. Per weight the magnitude's
    maximum, the scaling and the rounding count 4 FLOP.
    """
    w = workload
    elements, scales = float(w.rows) * w.columns, float(np.prod(w.scale_shape))
    nvfp4 = w.format == "nvfp4"
    return Cost(
        flops={"vector.fp32": 4 * elements},
        read_bytes={"dram": 2 * elements + (4.0 if nvfp4 and w.amax == "given" else 0.0)},
        write_bytes={
            "dram": elements * (0.5 if nvfp4 else 1.0) + scales * (1 if nvfp4 else 4) + (4.0 if nvfp4 else 0.0)
        },
        launches=2 if nvfp4 and w.amax == "computed" else 1,
    )


def make_inputs(workload: Quantize, seed: int) -> Inputs:
    """Draw normal weights of deviation 0.02 with one in 4096 ten times as large, and ``amax`` if it is given."""
    w, rng = workload, np.random.default_rng(seed)
    weight = rng.standard_normal((w.rows, w.columns), dtype=np.float32)
    weight *= np.float32(0.02)
    outliers = rng.integers(0, weight.size, max(1, weight.size // 4096))
    weight.reshape(-1)[outliers] *= np.float32(10.0)
    stored = to_bf16(weight)
    arrays: Arrays = {"weight": stored}
    if w.format == "nvfp4" and w.amax == "given":
        arrays["amax"] = np.abs(from_bf16(stored)).max().reshape(1).astype(np.float32)
    return Inputs(w, seed, arrays)


def _block_amax(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    rows, columns = -(-x.shape[0] // BLOCK), -(-x.shape[1] // BLOCK)
    padded = np.zeros((rows * BLOCK, columns * BLOCK))
    padded[: x.shape[0], : x.shape[1]] = np.abs(x)
    return padded.reshape(rows, BLOCK, columns, BLOCK).max(axis=(1, 3))


def _over(x: npt.NDArray[Any], scale: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return np.divide(x, scale, out=np.zeros(x.shape), where=scale > 0)


def element_scales(scale: npt.NDArray[Any], workload: Quantize, tensor_scale: float = 1.0) -> npt.NDArray[np.float64]:
    """Return the scale of every weight, from fp32 block scales or the codes of nvfp4's."""
    w = workload
    if w.format == "nvfp4":
        return np.repeat(decode_e4m3(scale) * tensor_scale, GROUP, axis=1)
    return np.repeat(np.repeat(scale.astype(np.float64), BLOCK, 0), BLOCK, 1)[: w.rows, : w.columns]


def reference(inputs: Inputs) -> Arrays:
    """Quantise in float64; scales are those of the definition, rounded to their own format."""
    w = inputs.workload
    assert isinstance(w, Quantize)
    x = from_bf16(inputs.arrays["weight"]).astype(np.float64)
    if w.format == "fp8_block128":
        scale = (_block_amax(x) / E4M3_LARGEST).astype(np.float32)
        return {"code": encode_e4m3(_over(x, element_scales(scale, w))), "scale": scale}
    largest = float(inputs.arrays["amax"][0]) if "amax" in inputs.arrays else float(np.abs(x).max())
    tensor_scale = np.array([largest / (E4M3_LARGEST * E2M1_LARGEST)], np.float32)
    amax = np.abs(x).reshape(w.rows, -1, GROUP).max(2)
    wide = float(tensor_scale[0])
    scale = encode_e4m3(_over(amax / E2M1_LARGEST, np.full(amax.shape, wide)))
    code = encode_e2m1(_over(x, element_scales(scale, w, wide)))
    return {"code": pack_nibbles(code), "scale": scale, "tensor_scale": tensor_scale}


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Require scales that are right to fp32's roundoff, and the codes of the definition under the output's scales."""
    w = inputs.workload
    assert isinstance(w, Quantize)
    for name, want in expected.items():
        got = output.get(name)
        if got is None or got.shape != want.shape or got.dtype != want.dtype:
            found = "nothing" if got is None else f"{got.dtype} {got.shape}"
            return Check(False, np.inf, f"{name}: {found}, expected {want.dtype} {want.shape}")
    x = from_bf16(inputs.arrays["weight"]).astype(np.float64)
    nvfp4 = w.format == "nvfp4"
    tensor_scale = float(output["tensor_scale"][0]) if nvfp4 else 1.0
    close = np.isclose(output["tensor_scale"], expected["tensor_scale"], rtol=2e-7, atol=0.0) if nvfp4 else np.True_
    if not np.all(close):
        return Check(False, np.inf, f"tensor_scale: {tensor_scale:.9g}, expected {expected['tensor_scale'][0]:.9g}")
    if nvfp4:
        quotient = np.abs(x).reshape(w.rows, -1, GROUP).max(2) / (E2M1_LARGEST * max(tensor_scale, 1e-300))
        scales_right = at_the_middle(
            decode_e4m3(output["scale"]), decode_e4m3(expected["scale"]), quotient, FP32_AT_THE_MIDDLE
        )
    else:
        scales_right = bool(np.all(np.isclose(output["scale"], expected["scale"], rtol=2e-7, atol=0.0)))
    if not scales_right:
        at = np.argwhere(output["scale"] != expected["scale"])[0].tolist()
        return Check(False, np.inf, f"scale{at}: {output['scale'][tuple(at)]}, expected {expected['scale'][tuple(at)]}")
    quotient = _over(x, element_scales(output["scale"], w, tensor_scale))
    if nvfp4:
        got, want = decode_e2m1(unpack_nibbles(output["code"])), decode_e2m1(encode_e2m1(quotient))
    else:
        got, want = decode_e4m3(output["code"]), decode_e4m3(encode_e4m3(quotient))
    if np.isnan(got).any() or not at_the_middle(got, want, quotient, FP32_AT_THE_MIDDLE):
        at = np.argwhere(got != want)[0].tolist()
        return Check(False, np.inf, f"code{at}: value {got[tuple(at)]:.9g}, expected {want[tuple(at)]:.9g}")
    return Check(True, float(np.mean(got != want)))


OPERATOR = Operator(
    name="sync.quantize",
    summary="bf16 weights to fp8 in blocks of 128 x 128 or to nvfp4 in blocks of 16",
    phases=("weight_sync",),
    workload_type=Quantize,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
