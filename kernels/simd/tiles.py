"""Move square tiles and selected lanes: transposition and compression."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from .host import LANES, host_features
from .memory import _address, _addressable, _alignment
from .vector_type import Vector, call_llvm, intrinsic, llvm_suffix

_I32 = ir.IntType(32)


def transpose_registers(builder: Any, rows: list[Any]) -> list[Any]:
    """Emit the transposition of as many vectors as they have lanes, a power of two, by shuffles of two."""
    size = len(rows)
    step = size // 2
    while step:
        low = [lane if not lane & step else size + lane - step for lane in range(size)]
        high = [lane + step if not lane & step else size + lane for lane in range(size)]
        low_mask, high_mask = (ir.Constant(ir.VectorType(_I32, size), picks) for picks in (low, high))
        for i in range(size):
            if not i & step:
                a, b = rows[i], rows[i + step]
                rows[i] = builder.shuffle_vector(a, b, low_mask)
                rows[i + step] = builder.shuffle_vector(a, b, high_mask)
        step //= 2
    return rows


@intrinsic
def transpose_tile(typingctx: Any, source: Any, start: Any, target: Any, to: Any) -> Any:
    """``transpose_tile(source, (row, column), target, (row, column))``: copy `LANES` x `LANES` elements, transposed.

    Both arrays are 2-D, of one element type, and may be the same.
    """
    if not (_addressable(source, start) and _addressable(target, to) and source.dtype == target.dtype):
        return None
    if source.ndim != 2 or target.ndim != 2:
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        first = _address(context, builder, sig.args[:2], args[:2], LANES)
        rows = _strided(context, builder, sig.args[0], args[0], first)
        loaded = [builder.load(row, align=_alignment(source)) for row in rows]
        first = _address(context, builder, sig.args[2:], args[2:], LANES)
        rows = _strided(context, builder, sig.args[2], args[2], first)
        for row, value in zip(rows, transpose_registers(builder, loaded), strict=True):
            builder.store(value, row, align=_alignment(target))
        return context.get_dummy_value()

    return types.void(source, start, target, to), generate


def _strided(context: Any, builder: Any, kind: Any, array: Any, first: Any) -> list[Any]:
    """Emit the addresses of `LANES` vectors one below the other."""
    width = builder.extract_value(context.make_array(kind)(context, builder, array).strides, 0)
    base = builder.ptrtoint(first, width.type)
    steps = [builder.mul(width, ir.Constant(width.type, i)) for i in range(LANES)]
    return [builder.inttoptr(builder.add(base, step), first.type) for step in steps]


@intrinsic
def store_compressed(typingctx: Any, array: Any, index: Any, vector: Any, mask: Any) -> Any:
    """``store_compressed(array, index, v, m)``: write the lanes of the mask one after another, in order.

    Up to `LANES` elements from ``index`` on are overwritten, those after the lanes of the mask with anything.
    """
    fits = _addressable(array, index) and isinstance(vector, Vector) and vector.dtype == array.dtype
    if not fits or not isinstance(mask, Vector) or not mask.is_mask or mask.lanes != vector.lanes:
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = _address(context, builder, sig.args[:2], args[:2], vector.lanes)
        suffix = llvm_suffix(args[2].type)
        # Compressing into memory takes more than a hundred cycles on Zen 4; into a register it takes two.
        if "avx512f" in host_features() and suffix in ("v16f32", "v16i32"):
            zeros = ir.Constant(args[2].type, None)
            packed = call_llvm(
                builder, f"llvm.x86.avx512.mask.compress.{suffix}", args[2].type, [args[2], zeros, args[3]]
            )
            builder.store(packed, pointer, align=_alignment(array))
        else:
            raw = builder.bitcast(pointer, args[2].type.element.as_pointer())
            call_llvm(builder, f"llvm.masked.compressstore.{suffix}", ir.VoidType(), [args[2], raw, args[3]])
        return context.get_dummy_value()

    return types.void(array, index, vector, mask), generate
