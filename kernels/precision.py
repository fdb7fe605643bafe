"""Storage precisions as numpy arrays, and the tolerance that a precision earns."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from .contract import Arrays, Check

BYTES = {"fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
# Half the spacing of the numbers next to 1: 2**-(mantissa bits + 1).
UNIT_ROUNDOFF = {"fp64": 2.0**-53, "fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8, "fp8": 2.0**-4}


def to_bf16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Round float32 to bf16 (to nearest, ties to even), held as uint16. NaN stays NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))) >> 16
    return np.where(np.isnan(values), np.uint32(0x7FC0), rounded).astype(np.uint16)


def from_bf16(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """Widen bf16 held as uint16 to float32, exactly."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def store(values: npt.NDArray[np.float32], precision: str) -> npt.NDArray[np.generic]:
    """Return values in the numpy form that ``Inputs`` holds for a precision (``fp32`` or ``bf16``)."""
    if precision == "bf16":
        return to_bf16(values)
    return np.ascontiguousarray(values, dtype=np.float32)


def widen(array: npt.NDArray[np.generic]) -> npt.NDArray[np.float32]:
    """Return a stored array as float32, whatever its precision."""
    if array.dtype == np.uint16:
        return from_bf16(array.view(np.uint16))
    return np.asarray(array, dtype=np.float32)


def tolerance(precision: str, reduction_length: int, *, output: str = "fp32", safety: float = 8.0) -> float:
    """Return the relative error allowed for a reduction.

    ``safety * (u * sqrt(n) + u_out)``: rounding errors of a sum of ``n`` terms grow as ``sqrt(n) u`` when they are
    independent (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2 and 2.8), ``u_out``
    is the rounding of the stored output. ``precision`` is the one in which the sum is accumulated.
    """
    return safety * (UNIT_ROUNDOFF[precision] * math.sqrt(max(reduction_length, 1)) + UNIT_ROUNDOFF[output])


def compare_floats(output: Arrays, expected: Arrays, relative: float, scale: dict[str, float] | None = None) -> Check:
    """Compare every expected array with the output's array of the same name.

    The allowed absolute error is ``relative * max(|expected|, scale)`` elementwise, with ``scale`` per array
    (default: the root mean square of the expected array). NaN and infinities must stand where they are expected.
    """
    worst = 0.0
    for name, want in expected.items():
        if name not in output:
            return Check(False, math.inf, f"output {name!r} is missing")
        got = np.asarray(output[name], dtype=np.float64)
        if got.shape != want.shape:
            return Check(False, math.inf, f"{name}: shape {got.shape}, expected {want.shape}")
        finite = np.isfinite(want)
        same = np.where(np.isnan(want), np.isnan(got), got == want)
        if not np.all(same | finite):
            return Check(False, math.inf, f"{name}: infinities or NaN are not where they belong")
        if not np.all(np.isfinite(got[finite])):
            return Check(False, math.inf, f"{name}: {int(np.sum(~np.isfinite(got[finite])))} values are not finite")
        if not finite.any():
            continue
        w = want[finite]
        floor = scale[name] if scale and name in scale else float(np.sqrt(np.mean(w * w)))
        error = np.abs(got[finite] - w) / np.maximum(relative * np.maximum(np.abs(w), floor), np.finfo(float).tiny)
        worst = max(worst, float(error.max()))
        if worst > 1.0:
            at = np.unravel_index(np.flatnonzero(finite)[int(error.argmax())], want.shape)
            return Check(
                False,
                worst,
                f"{name}{tuple(int(i) for i in at)}: {got[at]:.9g}, expected {want[at]:.9g}, "
                f"{worst:.3g} times the tolerance",
            )
    return Check(True, worst)
