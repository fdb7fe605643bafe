"""Gather the rows of tokens in the order of the experts that they chose: the input of a grouped matrix product.

Row ``r`` of the result is the row of token ``source[r] // top_k``. With ``quantize = "fp8"`` it is quantised on the
way, as DeepSeek-V3 does before its experts (arXiv 2412.19437, section 3.3): per 128 elements of a row ``scale = amax /
448`` in fp32, ``code = e4m3(x / scale)``; the element is ``code * scale``. A scale of 0 gives codes 0. Divisions are by
multiplication with the fp32 reciprocal, so that an element next to the middle between two codes may get either. Rows
to quantise are finite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ...contract import Arrays, Check, Cost, Inputs, Operator, require
from ...narrow_formats import E4M3_LARGEST, FP32_AT_THE_MIDDLE, at_the_middle, decode_e4m3, encode_e4m3
from ...precision import BYTES, store, widen
from ..expert_rows import ExpertRows, draw_source

BLOCK = 128
"""Elements of a row that share a scale."""


@dataclass(frozen=True)
class Dispatch(ExpertRows):
    """One MoE layer's dispatch; see `ExpertRows` for the other fields.

    Parameters
    ----------
    quantize
        ``none``, or ``fp8`` for blocks of 128 in e4m3.
    """

    operator: ClassVar[str] = "moe.dispatch"

    quantize: str = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.quantize in ("none", "fp8"), "quantize", self.quantize, "choose none or fp8")

    @property
    def scales(self) -> int:
        """Scales of a row."""
        return -(-self.hidden // BLOCK)


def cost(workload: Dispatch) -> Cost:
    """Count each token's row read once, its copies written once; a row is quantised once, with 4 FLOP per element."""
    w = workload
    elements = float(w.tokens) * w.hidden
    fp8 = w.quantize == "fp8"
    row_bytes = w.hidden + 4 * w.scales if fp8 else BYTES[w.precision] * w.hidden
    return Cost(
        flops={"vector.fp32": 4 * elements} if fp8 else {},
        read_bytes={"dram": elements * BYTES[w.precision] + 4.0 * w.slots},
        write_bytes={"dram": float(w.slots) * row_bytes},
    )


def make_inputs(workload: Dispatch, seed: int) -> Inputs:
    """Draw ``x[tokens, hidden]`` and ``source[slots]`` (int32)."""
    w, rng = workload, np.random.default_rng(seed)
    x = store(rng.standard_normal((w.tokens, w.hidden), dtype=np.float32), w.precision)
    return Inputs(w, seed, {"x": x, "source": draw_source(w, rng)})


def _blocks(x: npt.NDArray[np.generic], w: Dispatch) -> npt.NDArray[np.float64]:
    """Return rows in float64 as ``[tokens, scales, BLOCK]``, the last block filled with zeros."""
    wide = np.zeros((w.tokens, w.scales * BLOCK))
    wide[:, : w.hidden] = widen(x)
    return wide.reshape(w.tokens, w.scales, BLOCK)


def _scaled(blocks: npt.NDArray[np.float64], scale: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    wide = scale.astype(np.float64)[..., None]
    return np.divide(blocks, wide, out=np.zeros(blocks.shape), where=wide > 0)


def reference(inputs: Inputs) -> Arrays:
    """Return ``y[slots, hidden]``, or ``code[slots, hidden]`` (uint8) and ``scale[slots, scales]`` (fp32)."""
    w, x = inputs.workload, inputs.arrays["x"]
    assert isinstance(w, Dispatch)
    token = inputs.arrays["source"] // w.top_k
    if w.quantize == "none":
        return {"y": widen(x)[token]}
    blocks = _blocks(x, w)
    scale = (np.abs(blocks).max(axis=2) / E4M3_LARGEST).astype(np.float32)
    code = encode_e4m3(_scaled(blocks, scale)).reshape(w.tokens, -1)[:, : w.hidden]
    return {"code": code[token], "scale": scale[token]}


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Require equal rows; quantised, scales right to fp32's roundoff and codes that differ at a middle alone."""
    w = inputs.workload
    assert isinstance(w, Dispatch)
    for name, want in expected.items():
        got = output.get(name)
        if got is None or got.shape != want.shape or got.dtype != want.dtype:
            found = "nothing" if got is None else f"{got.dtype} {got.shape}"
            return Check(False, np.inf, f"{name}: {found}, expected {want.dtype} {want.shape}")
    for name, relative in (("y", 0.0), ("scale", 2e-7)):
        if name not in expected:
            continue
        wrong = ~np.isclose(output[name], expected[name], rtol=relative, atol=0.0, equal_nan=True)
        if wrong.any():
            at = tuple(np.argwhere(wrong)[0].tolist())
            return Check(False, np.inf, f"{name}{at}: {output[name][at]:.9g}, expected {expected[name][at]:.9g}")
    if w.quantize == "none":
        return Check(True, 0.0)
    rows, columns = np.nonzero(output["code"] != expected["code"])
    token = inputs.arrays["source"][rows] // w.top_k
    scale = expected["scale"][rows, columns // BLOCK].astype(np.float64)
    exact = widen(inputs.arrays["x"][token, columns]).astype(np.float64)
    exact = np.divide(exact, scale, out=np.zeros(exact.shape), where=scale > 0)
    got, want = decode_e4m3(output["code"][rows, columns]), decode_e4m3(expected["code"][rows, columns])
    if np.isnan(got).any() or not at_the_middle(got, want, exact, FP32_AT_THE_MIDDLE):
        at = int(np.argmax(np.nan_to_num(np.abs(got - want), nan=np.inf)))
        place = (int(rows[at]), int(columns[at]))
        return Check(False, np.inf, f"code{place}: value {got[at]:.9g}, expected {want[at]:.9g}")
    return Check(True, rows.size / output["code"].size)


OPERATOR = Operator(
    name="moe.dispatch",
    summary="rows of tokens in the order of their experts, quantised to fp8 blocks on the way if asked",
    phases=("rollout", "logprob", "train"),
    workload_type=Dispatch,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
