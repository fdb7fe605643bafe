"""Make vectors, change the type of their lanes, and reduce across lanes."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from .host import LANES
from .vector_type import Vector, call_llvm, constant, intrinsic, llvm_suffix, splat

_I1, _I32 = ir.IntType(1), ir.IntType(32)


def _dtype_of(kind: Any) -> Any:
    return kind.dtype if isinstance(kind, types.NumberClass) else None


@intrinsic
def full(typingctx: Any, value: Any, dtype: Any) -> Any:
    """``full(value, np.float32)``: `LANES` lanes that all hold a scalar, cast to the type given."""
    element = _dtype_of(dtype)
    if element is None or not isinstance(value, types.Number | types.Boolean):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return splat(builder, context.cast(builder, args[0], sig.args[0], element), LANES)

    return Vector(element, LANES)(value, dtype), generate


@intrinsic
def lane_indices(typingctx: Any, dtype: Any) -> Any:
    """``lane_indices(np.int32)``: 0, 1, 2, ... `LANES` - 1."""
    element = _dtype_of(dtype)
    if element is None:
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return ir.Constant(context.get_value_type(sig.return_type), list(range(LANES)))

    return Vector(element, LANES)(dtype), generate


@intrinsic
def first_lanes(typingctx: Any, count: Any) -> Any:
    """``first_lanes(count)``: a mask true in the first ``count`` lanes (none if negative, all if `LANES` or more)."""
    if not isinstance(count, types.Integer):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        wide = context.cast(builder, args[0], sig.args[0], types.int64)
        indices = ir.Constant(ir.VectorType(wide.type, LANES), list(range(LANES)))
        return builder.icmp_signed("<", indices, splat(builder, wide, LANES))

    return Vector(types.boolean, LANES)(count), generate


@intrinsic
def bitcast(typingctx: Any, vector: Any, dtype: Any) -> Any:
    """``bitcast(v, np.int32)``: the same bits seen as lanes of another type of the same width."""
    element = _dtype_of(dtype)
    if not isinstance(vector, Vector) or vector.is_mask or element is None:
        return None
    if element.bitwidth != vector.dtype.bitwidth:
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(sig.return_type))

    return vector.with_dtype(element)(vector, dtype), generate


@intrinsic
def convert(typingctx: Any, vector: Any, dtype: Any) -> Any:
    """``convert(v, np.float32)``: the same values as lanes of another type; float to int truncates.

    A float that the integer type cannot hold (NaN too) gives an unspecified value. Masks become 0 and 1.
    """
    element = _dtype_of(dtype)
    if not isinstance(vector, Vector) or element is None:
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        source, target = sig.args[0], context.get_value_type(sig.return_type)
        signed_source = bool(getattr(source.dtype, "signed", False))
        to_float = isinstance(element, types.Float)
        if source.is_float and to_float:
            if element.bitwidth == source.dtype.bitwidth:
                return args[0]
            return (builder.fpext if element.bitwidth > source.dtype.bitwidth else builder.fptrunc)(args[0], target)
        if source.is_float:
            return (builder.fptosi if element.signed else builder.fptoui)(args[0], target)
        if to_float:
            return (builder.sitofp if signed_source else builder.uitofp)(args[0], target)
        width = 1 if source.is_mask else source.dtype.bitwidth
        if element.bitwidth == width:
            return args[0]
        if element.bitwidth < width:
            return builder.trunc(args[0], target)
        return (builder.sext if signed_source else builder.zext)(args[0], target)

    return vector.with_dtype(element)(vector, dtype), generate


def widen_bits(builder: Any, bits: Any) -> Any:
    """Emit fp32 lanes from the LLVM uint16 lanes of bf16, exactly."""
    lanes = bits.type.count
    wide = builder.zext(bits, ir.VectorType(_I32, lanes))
    return builder.bitcast(builder.shl(wide, constant(_I32, 16, lanes)), ir.VectorType(ir.FloatType(), lanes))


@intrinsic
def widen_bf16(typingctx: Any, bits: Any) -> Any:
    """``widen_bf16(v)``: uint16 lanes that hold bf16 as float32 lanes, exactly."""
    if not isinstance(bits, Vector) or bits.dtype != types.uint16:
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return widen_bits(builder, args[0])

    return bits.with_dtype(types.float32)(bits), generate


@intrinsic
def narrow_bf16(typingctx: Any, values: Any) -> Any:
    """``narrow_bf16(v)``: float32 lanes rounded to bf16 (to nearest, ties to even) in uint16 lanes; NaN is 0x7FC0."""
    if not isinstance(values, Vector) or values.dtype != types.float32:
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lanes, value = values.lanes, args[0]

        def const(number: int) -> Any:
            return constant(_I32, number, lanes)

        bits = builder.bitcast(value, ir.VectorType(_I32, lanes))
        odd = builder.and_(builder.lshr(bits, const(16)), const(1))
        rounded = builder.lshr(builder.add(bits, builder.add(odd, const(0x7FFF))), const(16))
        nan = builder.fcmp_unordered("uno", value, value)
        result = builder.select(nan, const(0x7FC0), rounded)
        return builder.trunc(result, ir.VectorType(ir.IntType(16), lanes))

    return values.with_dtype(types.uint16)(values), generate


def _reduction(vector: Any, float_op: str, signed_op: str, unsigned_op: str) -> Any:
    if not isinstance(vector, Vector) or vector.is_mask:
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = args[0].type
        signed = bool(getattr(vector.dtype, "signed", False))
        name = float_op if vector.is_float else signed_op if signed else unsigned_op
        start = [ir.Constant(kind.element, -0.0)] if name == "fadd" else []
        flags = ("reassoc",) if name == "fadd" else ()
        full_name = f"llvm.vector.reduce.{name}.{llvm_suffix(kind)}"
        return call_llvm(builder, full_name, kind.element, [*start, args[0]], flags=flags)

    return vector.dtype(vector), generate


@intrinsic
def sum_lanes(typingctx: Any, vector: Any) -> Any:
    """``sum_lanes(v)``: the sum over lanes, added as a tree."""
    return _reduction(vector, "fadd", "add", "add")


@intrinsic
def max_lanes(typingctx: Any, vector: Any) -> Any:
    """``max_lanes(v)``: the largest lane; NaN lanes are skipped unless all are NaN."""
    return _reduction(vector, "fmax", "smax", "umax")


@intrinsic
def min_lanes(typingctx: Any, vector: Any) -> Any:
    """``min_lanes(v)``: the smallest lane; NaN lanes are skipped unless all are NaN."""
    return _reduction(vector, "fmin", "smin", "umin")


@intrinsic
def lane(typingctx: Any, vector: Any, index: Any) -> Any:
    """``lane(v, index)``: one lane as a scalar. The index is not checked; a variable one goes through memory."""
    if not isinstance(vector, Vector) or vector.is_mask or not isinstance(index, types.Integer):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_element(args[0], context.cast(builder, args[1], sig.args[1], types.int32))

    return vector.dtype(vector, index), generate


def _mask_function(mask: Any, result: types.Type, emit: Any) -> Any:
    if not isinstance(mask, Vector) or not mask.is_mask:
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], ir.IntType(mask.lanes))
        return emit(builder, builder.zext(bits, ir.IntType(64)) if mask.lanes < 64 else bits)

    return result(mask), generate


@intrinsic
def mask_bits(typingctx: Any, mask: Any) -> Any:
    """``mask_bits(m)``: the mask as an int64 whose bit ``i`` is lane ``i``."""
    return _mask_function(mask, types.int64, lambda builder, bits: bits)


@intrinsic
def count_lanes(typingctx: Any, mask: Any) -> Any:
    """``count_lanes(m)``: how many lanes are true."""
    return _mask_function(mask, types.int64, lambda builder, bits: builder.ctpop(bits))


@intrinsic
def any_lane(typingctx: Any, mask: Any) -> Any:
    """``any_lane(m)``: whether a lane is true."""
    zero = ir.Constant(ir.IntType(64), 0)
    return _mask_function(mask, types.boolean, lambda builder, bits: builder.icmp_unsigned("!=", bits, zero))


@intrinsic
def all_lanes(typingctx: Any, mask: Any) -> Any:
    """``all_lanes(m)``: whether every lane is true."""
    lanes = mask.lanes if isinstance(mask, Vector) else 1
    ones = ir.Constant(ir.IntType(64), (1 << lanes) - 1)
    return _mask_function(mask, types.boolean, lambda builder, bits: builder.icmp_unsigned("==", bits, ones))
