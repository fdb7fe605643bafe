"""The narrow formats of weights: bits of e4m3 and e2m1, decoding, and exact rounding in float64.

Both are rounded to nearest, ties to even, and saturate: e4m3 (OCP 8-bit Floating Point Specification 1.0, the form
without infinities) at 448, e2m1 (OCP Microscaling Formats 1.0, section 5.3.3) at 6.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

E4M3_LARGEST, E2M1_LARGEST = 448.0, 6.0
FP32_AT_THE_MIDDLE = 2e-6
"""Relative distance from the middle between two codes within which fp32 may go either way."""


@cache
def _values(exponent_bits: int, mantissa_bits: int, bias: int, codes: int) -> npt.NDArray[np.float64]:
    code = np.arange(codes)
    exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
    fraction = (code & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    normal = 2.0 ** (exponent - bias) * (1.0 + fraction)
    return np.where(exponent == 0, 2.0 ** (1 - bias) * fraction, normal)


def e4m3_values() -> npt.NDArray[np.float64]:
    """Return the non-negative finite values by code, 0 to 126."""
    return _values(4, 3, 7, 127)


def e2m1_values() -> npt.NDArray[np.float64]:
    """Return the non-negative values by code, 0 to 7."""
    return _values(2, 1, 1, 8)


def _encode(x: npt.NDArray[Any], values: npt.NDArray[np.float64], sign_bit: int) -> npt.NDArray[np.uint8]:
    magnitude = np.minimum(np.abs(x), values[-1])
    above = np.searchsorted(values, magnitude).clip(1, values.size - 1)
    middle = (values[above - 1] + values[above]) / 2
    # Neighbouring codes differ in their last bit, so that a tie goes to the even code.
    up = (magnitude > middle) | ((magnitude == middle) & (above % 2 == 0))
    code = np.where(up, above, above - 1)
    return (code | np.where(np.signbit(x), sign_bit, 0)).astype(np.uint8)


def encode_e4m3(x: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Round to e4m3."""
    return _encode(x, e4m3_values(), 0x80)


def encode_e2m1(x: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Round to e2m1, one code per byte."""
    return _encode(x, e2m1_values(), 0x8)


def decode_e4m3(code: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """Return the values of e4m3 codes; 0x7F and 0xFF are NaN."""
    table = np.append(e4m3_values(), np.nan)
    return table[code & 0x7F] * np.where(code & 0x80, -1.0, 1.0)


def decode_e2m1(code: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """Return the values of e2m1 codes, one per byte."""
    return e2m1_values()[code & 0x7] * np.where(code & 0x8, -1.0, 1.0)


def pack_nibbles(code: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Pack codes along the last axis in pairs, the first of a pair in the low nibble."""
    return np.asarray(code[..., 0::2] | (code[..., 1::2] << 4), np.uint8)


def unpack_nibbles(packed: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Undo `pack_nibbles`."""
    pair = np.stack([packed & 0xF, packed >> 4], axis=-1)
    return np.asarray(pair.reshape(*packed.shape[:-1], -1), np.uint8)


def at_the_middle(got: npt.NDArray[Any], want: npt.NDArray[Any], exact: npt.NDArray[Any], relative: float) -> bool:
    """Return whether values that differ are neighbours with the exact one in their middle, to a relative distance."""
    differ = got != want
    middle, size = np.abs((got[differ] + want[differ]) / 2), np.abs(exact[differ])
    return bool(np.all(np.abs(size - middle) <= relative * size))
