"""Round float32 lanes to bf16 by the CPU's own instruction where it has one."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from .host import host_features
from .lanes import narrow_bf16
from .leaf import inlined
from .memory import store_masked
from .vector_type import Vector, intrinsic


class _BFloat(ir.Type):
    """LLVM's ``bfloat``, which llvmlite has no class for."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


@intrinsic
def _round_in_hardware(typingctx: Any, values: Any) -> Any:
    if not isinstance(values, Vector) or values.dtype != types.float32:
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        rounded = builder.fptrunc(args[0], ir.VectorType(_BFloat(), values.lanes))
        return builder.bitcast(rounded, ir.VectorType(ir.IntType(16), values.lanes))

    return values.with_dtype(types.uint16)(values), generate


def has_bf16_rounding() -> bool:
    """Return whether float32 lanes are rounded to bf16 in one instruction (AVX512-BF16)."""
    return {"avx512bf16", "avx512vl"} <= host_features()


round_bf16: Any = _round_in_hardware if has_bf16_rounding() else narrow_bf16
"""``round_bf16(v)``: as `narrow_bf16` but for two freedoms that make it one instruction where the CPU has it.

Numbers below 2**-126 may become 0, and a NaN keeps its upper bits.
"""


@inlined
def _store_rounded(array: Any, index: Any, value: Any, mask: Any) -> None:
    store_masked(array, index, round_bf16(value), mask)


@inlined
def _store_plain(array: Any, index: Any, value: Any, mask: Any) -> None:
    store_masked(array, index, value, mask)


def masked_store(precision: str) -> Any:
    """Return the compiled ``put(array, index, v, mask)`` of float32 lanes into an array of ``fp32`` or ``bf16``."""
    return _store_rounded if precision == "bf16" else _store_plain
