"""Move vectors between registers and arrays.

An index is an integer or a tuple of one integer per axis and names the vector's first element; it is not checked and
not wrapped around. Arrays are C-contiguous. Addresses need no alignment but that of the element, unless said so: on
aligned addresses unaligned moves cost nothing, but a vector that straddles two cache lines costs two accesses.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types

from .host import LANES
from .lanes import widen_bits
from .vector_type import Vector, as_vector, call_llvm, common_vector, intrinsic, llvm_suffix

_I32 = ir.IntType(32)
_ALIGNMENT = 64


def aligned_empty(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an uninitialised C-contiguous array that starts on a cache line (64 bytes). Called from Python."""
    kind = np.dtype(dtype)
    sizes = (shape,) if isinstance(shape, int) else shape
    size = math.prod(sizes) * kind.itemsize
    raw = np.empty(size + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size].view(kind).reshape(shape)


def _addressable(array: Any, index: Any) -> bool:
    if not isinstance(array, types.Array) or array.layout != "C":
        return False
    if isinstance(index, types.Integer):
        return array.ndim == 1
    return (
        isinstance(index, types.UniTuple | types.Tuple)
        and len(index) == array.ndim
        and all(isinstance(i, types.Integer) for i in index)
    )


def _address(context: Any, builder: Any, kinds: tuple[Any, Any], values: tuple[Any, Any], lanes: int) -> Any:
    """Emit the address of the element as a pointer to a vector of so many lanes."""
    (array_kind, index_kind), (array_value, index_value) = kinds, values
    array = context.make_array(array_kind)(context, builder, array_value)
    if isinstance(index_kind, types.UniTuple | types.Tuple):
        indices = cgutils.unpack_tuple(builder, index_value, len(index_kind))
        index_kinds = list(index_kind)
    else:
        indices, index_kinds = [index_value], [index_kind]
    wide = [context.cast(builder, i, k, types.intp) for i, k in zip(indices, index_kinds, strict=True)]
    pointer = cgutils.get_item_pointer(context, builder, array_kind, array, wide, wraparound=False)
    element = context.get_value_type(array_kind.dtype)
    return builder.bitcast(pointer, ir.VectorType(element, lanes).as_pointer())


def _alignment(array: Any) -> int:
    return array.dtype.bitwidth // 8


def _load(array: Any, index: Any, lanes: int, extra: tuple[Any, ...] = ()) -> Any:
    if not _addressable(array, index):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = _address(context, builder, sig.args[:2], args[:2], lanes)
        return builder.load(pointer, align=_alignment(array))

    return Vector(array.dtype, lanes)(array, index, *extra), generate


@intrinsic
def load(typingctx: Any, array: Any, index: Any) -> Any:
    """``load(array, index)``: `LANES` consecutive elements."""
    return _load(array, index, LANES)


@intrinsic(prefer_literal=True)
def load_lanes(typingctx: Any, array: Any, index: Any, lanes: Any) -> Any:
    """``load_lanes(array, index, lanes)``: a number of consecutive elements that is a constant of the program."""
    if not isinstance(lanes, types.IntegerLiteral):
        return None
    return _load(array, types.unliteral(index), lanes.literal_value, (lanes,))


@intrinsic
def load_f32(typingctx: Any, array: Any, index: Any) -> Any:
    """``load_f32(array, index)``: `LANES` elements of a float32 array, or of a uint16 array of bf16, as float32."""
    if not _addressable(array, index) or array.dtype not in (types.float32, types.uint16):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = _address(context, builder, sig.args, args, LANES)
        value = builder.load(pointer, align=_alignment(array))
        return value if array.dtype == types.float32 else widen_bits(builder, value)

    return Vector(types.float32, LANES)(array, index), generate


def _masked_load(builder: Any, pointer: Any, mask: Any, fill: Any, alignment: int) -> Any:
    kind = fill.type
    raw = builder.bitcast(pointer, kind.as_pointer())
    name = f"llvm.masked.load.{llvm_suffix(kind)}.p0"
    return call_llvm(builder, name, kind, [raw, ir.Constant(_I32, alignment), mask, fill])


def _is_mask(mask: Any) -> bool:
    return isinstance(mask, Vector) and mask.is_mask and mask.lanes == LANES


@intrinsic
def load_masked(typingctx: Any, array: Any, index: Any, mask: Any, fill: Any) -> Any:
    """``load_masked(array, index, mask, fill)``: as `load`; lanes outside the mask are not read and hold ``fill``."""
    if not (_addressable(array, index) and _is_mask(mask) and isinstance(fill, types.Number)):
        return None
    vector = Vector(array.dtype, LANES)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = _address(context, builder, sig.args[:2], args[:2], LANES)
        value = as_vector(context, builder, args[3], sig.args[3], vector)
        return _masked_load(builder, pointer, args[2], value, _alignment(array))

    return vector(array, index, mask, fill), generate


@intrinsic
def load_f32_masked(typingctx: Any, array: Any, index: Any, mask: Any, fill: Any) -> Any:
    """``load_f32_masked(array, index, mask, fill)``: as `load_f32` with a mask; ``fill`` is a float."""
    fits = _addressable(array, index) and _is_mask(mask) and isinstance(fill, types.Number)
    if not fits or array.dtype not in (types.float32, types.uint16):
        return None
    vector = Vector(types.float32, LANES)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = _address(context, builder, sig.args[:2], args[:2], LANES)
        other = as_vector(context, builder, args[3], sig.args[3], vector)
        if array.dtype == types.float32:
            return _masked_load(builder, pointer, args[2], other, 4)
        zero = ir.Constant(ir.VectorType(ir.IntType(16), LANES), [0] * LANES)
        bits = _masked_load(builder, pointer, args[2], zero, 2)
        return builder.select(args[2], widen_bits(builder, bits), other)

    return vector(array, index, mask, fill), generate


@intrinsic
def gather(typingctx: Any, array: Any, indices: Any, mask: Any, fill: Any) -> Any:
    """``gather(array, indices, mask, fill)``: elements of a 1-D array at a vector of indices.

    Where the mask is false nothing is read and the lane holds ``fill``.
    """
    fits = isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C" and _is_mask(mask)
    if not fits or not isinstance(indices, Vector) or not isinstance(indices.dtype, types.Integer):
        return None
    vector = Vector(array.dtype, LANES)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        base = builder.ptrtoint(data, ir.IntType(64))
        wide = args[1]
        if indices.dtype.bitwidth < 64:
            extend = builder.sext if indices.dtype.signed else builder.zext
            wide = extend(wide, ir.VectorType(ir.IntType(64), LANES))
        size = ir.Constant(ir.VectorType(ir.IntType(64), LANES), [_alignment(array)] * LANES)
        bases = as_vector(context, builder, base, types.int64, Vector(types.int64, LANES))
        addresses = builder.add(bases, builder.mul(wide, size))
        kind = context.get_value_type(vector)
        pointers = builder.inttoptr(addresses, ir.VectorType(kind.element.as_pointer(), LANES))
        other = as_vector(context, builder, args[3], sig.args[3], vector)
        name = f"llvm.masked.gather.{llvm_suffix(kind)}.v{LANES}p0"
        return call_llvm(builder, name, kind, [pointers, ir.Constant(_I32, _alignment(array)), args[2], other])

    return vector(array, indices, mask, fill), generate


def _storable(array: Any, index: Any, vector: Any) -> bool:
    return _addressable(array, index) and isinstance(vector, Vector) and vector.dtype == array.dtype


@intrinsic
def store(typingctx: Any, array: Any, index: Any, vector: Any) -> Any:
    """``store(array, index, v)``: write the lanes to consecutive elements of the same type."""
    if not _storable(array, index, vector):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = _address(context, builder, sig.args[:2], args[:2], vector.lanes)
        builder.store(args[2], pointer, align=_alignment(array))
        return context.get_dummy_value()

    return types.void(array, index, vector), generate


@intrinsic
def store_streaming(typingctx: Any, array: Any, index: Any, vector: Any) -> Any:
    """``store_streaming(array, index, v)``: as `store`, past the caches, without first reading the line.

    The address must be aligned to the whole vector (`aligned_empty` and a multiple of `LANES`), or the process faults.
    Pays off for large outputs that are not read again soon. Numba's own join of its threads orders the stores.
    """
    if not _storable(array, index, vector):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = _address(context, builder, sig.args[:2], args[:2], vector.lanes)
        written = builder.store(args[2], pointer, align=_alignment(array) * vector.lanes)
        written.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(_I32, 1)]))
        return context.get_dummy_value()

    return types.void(array, index, vector), generate


@intrinsic
def store_masked(typingctx: Any, array: Any, index: Any, vector: Any, mask: Any) -> Any:
    """``store_masked(array, index, v, mask)``: as `store`; elements outside the mask are not touched."""
    if not (_storable(array, index, vector) and _is_mask(mask) and common_vector(vector)):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = _address(context, builder, sig.args[:2], args[:2], vector.lanes)
        name = f"llvm.masked.store.{llvm_suffix(args[2].type)}.p0"
        alignment = ir.Constant(_I32, _alignment(array))
        call_llvm(builder, name, ir.VoidType(), [args[2], pointer, alignment, args[3]])
        return context.get_dummy_value()

    return types.void(array, index, vector, mask), generate


@intrinsic
def prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    """``prefetch(array, index)``: ask for the element's cache line to be read into all levels. The address may be
    outside the array."""
    if not _addressable(array, index):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = _address(context, builder, sig.args, args, 1)
        raw = builder.bitcast(pointer, ir.IntType(8).as_pointer())
        read, keep, data = (ir.Constant(_I32, n) for n in (0, 3, 1))
        call_llvm(builder, "llvm.prefetch.p0", ir.VoidType(), [raw, read, keep, data])
        return context.get_dummy_value()

    return types.void(array, index), generate
