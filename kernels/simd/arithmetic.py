"""Arithmetic on vectors beyond the operators."""

from __future__ import annotations

from typing import Any

from numba.core import types

from .host import has_fma
from .vector_type import Vector, as_vector, call_llvm, common_vector, intrinsic, llvm_suffix


def _same_vector(emit: Any, *kinds: types.Type, floats_only: bool = False) -> Any:
    """Return signature and code generator of a function from vectors (or scalars) to their vector type."""
    vector = common_vector(*kinds)
    if vector is None or (floats_only and not vector.is_float):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        operands = [as_vector(context, builder, x, k, vector) for x, k in zip(args, sig.args, strict=True)]
        return emit(builder, vector, *operands)

    return vector(*kinds), generate


def _llvm_float(name: str, *kinds: types.Type) -> Any:
    def emit(builder: Any, _: Vector, *operands: Any) -> Any:
        kind = operands[0].type
        return call_llvm(builder, f"llvm.{name}.{llvm_suffix(kind)}", kind, list(operands))

    return _same_vector(emit, *kinds, floats_only=True)


@intrinsic
def fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """``fma(a, b, c)``: ``a * b + c`` with one rounding (with two on a CPU that has no fused multiply-add)."""
    return _llvm_float("fma" if has_fma() else "fmuladd", a, b, c)


def _extreme(symbol: str, a: Any, b: Any) -> Any:
    def emit(builder: Any, vector: Vector, x: Any, y: Any) -> Any:
        if vector.is_float:
            return builder.select(builder.fcmp_ordered(symbol, x, y), x, y)
        compare = builder.icmp_signed if getattr(vector.dtype, "signed", False) else builder.icmp_unsigned
        return builder.select(compare(symbol, x, y), x, y)

    return _same_vector(emit, a, b)


@intrinsic
def maximum(typingctx: Any, a: Any, b: Any) -> Any:
    """``maximum(a, b)``: ``a if a > b else b`` per lane, so ``b`` where either is NaN. One instruction on x86.

    ``maximum(x, running)`` therefore skips NaN in ``x``, and ``maximum(bound, x)`` keeps it.
    """
    return _extreme(">", a, b)


@intrinsic
def minimum(typingctx: Any, a: Any, b: Any) -> Any:
    """``minimum(a, b)``: ``a if a < b else b`` per lane, so ``b`` where either is NaN."""
    return _extreme("<", a, b)


@intrinsic
def absolute(typingctx: Any, a: Any) -> Any:
    """``absolute(a)`` of floating-point lanes."""
    return _llvm_float("fabs", a)


@intrinsic
def sqrt(typingctx: Any, a: Any) -> Any:
    """``sqrt(a)`` of floating-point lanes, correctly rounded."""
    return _llvm_float("sqrt", a)


@intrinsic
def round_even(typingctx: Any, a: Any) -> Any:
    """``round_even(a)``: to the nearest whole number, ties to even."""
    return _llvm_float("roundeven", a)


@intrinsic
def select(typingctx: Any, mask: Any, a: Any, b: Any) -> Any:
    """``select(mask, a, b)``: ``a`` in the lanes where the mask is true, else ``b``; one of them may be a scalar."""
    vector = common_vector(a, b)
    if vector is None or not isinstance(mask, Vector) or mask != vector.with_dtype(types.boolean):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        x, y = (as_vector(context, builder, v, k, vector) for v, k in zip(args[1:], sig.args[1:], strict=True))
        return builder.select(args[0], x, y)

    return vector(mask, a, b), generate
