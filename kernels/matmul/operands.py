"""How matrix elements of a storage precision are read into 32-bit elements of the tiles."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import simd


class Operands(NamedTuple):
    """One way to multiply a storage precision.

    ``pairs``: whether an element is a pair of bf16. ``element``: type of packed elements. ``read(array, index, mask)``:
    `simd.LANES` of them from an array that `view` made, 0 outside the mask. ``write(array, index, lanes, mask)``: store
    fp32 lanes in the storage precision.
    """

    pairs: bool
    element: Any
    read: Any
    write: Any

    def view(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a stored array as it is read; pairs need an even last axis."""
        return array.view(np.uint32) if self.pairs else array


@simd.inlined
def _read_f32(array: Any, index: Any, mask: Any) -> Any:
    return simd.load_f32_masked(array, index, mask, np.float32(0.0))


@simd.inlined
def _read_pairs(array: Any, index: Any, mask: Any) -> Any:
    return simd.load_masked(array, index, mask, np.uint32(0))


@simd.inlined
def _write_f32(array: Any, index: Any, lanes: Any, mask: Any) -> None:
    simd.store_masked(array, index, lanes, mask)


@simd.inlined
def _write_bf16(array: Any, index: Any, lanes: Any, mask: Any) -> None:
    simd.store_masked(array, index, simd.narrow_bf16(lanes), mask)


@cache
def operands(precision: str, pairs: bool | None = None) -> Operands:
    """Return the operands of ``fp32`` or ``bf16``.

    Parameters
    ----------
    pairs
        Whether bf16 is multiplied in pairs; by default where the CPU does so. Otherwise it is widened.
    """
    if precision == "fp32":
        return Operands(False, np.float32, _read_f32, _write_f32)
    if simd.has_bf16_dot() if pairs is None else pairs:
        return Operands(True, np.uint32, _read_pairs, _write_bf16)
    return Operands(False, np.float32, _read_f32, _write_bf16)
