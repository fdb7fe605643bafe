"""Register tiles of matrix products, emitted as LLVM code with their accumulators in registers.

Elements are 32 bits wide: a float32, or a pair of bf16 neighbours along the summed axis where the CPU multiplies pairs
and adds both products in fp32 (AVX512-BF16). A tile is the same loop over either.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from ..simd.arithmetic import has_fma
from ..simd.host import LANES, host_features
from ..simd.lanes import widen_bits
from ..simd.vector_type import call_llvm, constant, intrinsic, llvm_suffix, splat

WIDTH = 2
"""Vectors of a full tile's width: each broadcast weight serves so many."""
HEIGHT = 12 if "avx512f" in host_features() or "neon" in host_features() else 6
"""Weight rows of a tile: ``WIDTH * HEIGHT`` accumulators hide the latency of FMA and leave registers for operands."""
BLOCK = 512
"""Most summed elements of a tile: its weights take 24 KB, and the same stretch of 128 activation rows 256 KB."""
PITCH = BLOCK + 16
"""Distance of a tile's weight rows: their lines fall into different sets of the L1 cache."""
EVEN = 2
"""What the summed length in elements must be a multiple of. More steps at once make LLVM hoist broadcasts until they
leave the registers."""

# Independent sums that hide the latency of their additions.
_CHAINS = 4
# How far ahead in memory a row of weights is asked for: 16 lines.
_AHEAD_BYTES = 1024
_AHEAD = 8  # elements per prefetch: the line of bf16 that are widened holds 32, so each is asked for several times
_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
_VECTOR = ir.VectorType(_F32, LANES)


def _data(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value


def _at(builder: Any, pointer: Any, *offsets: Any) -> Any:
    for offset in offsets:
        pointer = builder.gep(pointer, [offset if not isinstance(offset, int) else _I64(offset)])
    return pointer


def _load(builder: Any, pointer: Any, kind: Any) -> Any:
    alignment = 2 if str(pointer.type.pointee) == "i16" else 4
    return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=alignment)


def _prefetch(builder: Any, pointer: Any) -> None:
    raw = builder.bitcast(pointer, ir.IntType(8).as_pointer())
    call_llvm(builder, "llvm.prefetch.p0", ir.VoidType(), [raw, _I32(0), _I32(3), _I32(1)])


def multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Emit ``a * b + c`` of fp32 lanes."""
    name = "fma" if has_fma() else "fmuladd"
    return call_llvm(builder, f"llvm.{name}.{llvm_suffix(c.type)}", c.type, [a, b, c])


def multiply_add_pairs(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Emit the sum of both products of the bf16 pairs in each 32-bit lane, added to the fp32 lane."""
    lanes = c.type.count
    a, b = (builder.bitcast(x, ir.VectorType(_I32, lanes)) for x in (a, b))
    return call_llvm(builder, f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}", c.type, [c, a, b])


def _accumulators(builder: Any, count: int) -> list[Any]:
    """Return places for vectors, which the optimiser turns into registers."""
    return [cgutils.alloca_once(builder, _VECTOR) for _ in range(count)]


def _as_given(*kinds: Any) -> list[Any]:
    return [kind if isinstance(kind, types.Array) else types.int64 for kind in kinds]


@cache
def panel_tile(vectors: int, pairs: bool) -> Any:
    """``tile(x, at, w, length, out, to, first, source, ahead, pitch, lines)``.

    Adds to `HEIGHT` rows of ``vectors`` vectors at ``out[to]``, one below the other, the products of the weights
    ``w[r * PITCH + k]`` with the vectors at ``x[at + k * vectors * LANES]``, ``k < length``; with ``first`` nonzero it
    starts from 0. Meanwhile it asks for ``length`` elements of each of ``lines`` rows at
    ``source[ahead]``, ``source[ahead + pitch]``...
    """
    add = multiply_add_pairs if pairs else multiply_add

    @intrinsic
    def tile(typingctx: Any, x: Any, at: Any, w: Any, length: Any, out: Any, to: Any, first: Any,
             source: Any, ahead: Any, pitch: Any, lines: Any) -> Any:  # fmt: skip
        kinds = (x, at, w, length, out, to, first, source, ahead, pitch, lines)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            values = [_data(context, builder, kind, value) for kind, value in zip(sig.args, args, strict=True)]
            x, at, w, length, out, to, first, source, ahead, pitch, lines = values
            places = _accumulators(builder, HEIGHT * vectors)
            results = [_at(builder, out, to, i * LANES) for i in range(HEIGHT * vectors)]
            _start(builder, places, results, first)
            panel, next_rows = _at(builder, x, at), _at(builder, source, ahead)
            rows = [_at(builder, w, r * PITCH) for r in range(HEIGHT)]

            def step(k: Any) -> None:
                line = _at(builder, panel, builder.mul(k, _I64(vectors * LANES)))
                kind = ir.VectorType(x.type.pointee, LANES)
                x_lanes = [_load(builder, _at(builder, line, i * LANES), kind) for i in range(vectors)]
                for r, row in enumerate(rows):
                    weight = splat(builder, builder.load(_at(builder, row, k)), LANES)
                    for i in range(vectors):
                        place = places[r * vectors + i]
                        builder.store(add(builder, weight, x_lanes[i], builder.load(place)), place)

            with cgutils.for_range_slice(builder, _I64(0), length, _I64(_AHEAD), _I64) as (part, _):
                with cgutils.for_range(builder, lines) as loop:
                    _prefetch(builder, _at(builder, next_rows, builder.mul(loop.index, pitch), part))
                stop = builder.add(part, _I64(_AHEAD))
                stop = builder.select(builder.icmp_signed("<", stop, length), stop, length)
                with cgutils.for_range_slice(builder, part, stop, _I64(EVEN), _I64) as (k, _):
                    for i in range(EVEN):
                        step(builder.add(k, _I64(i)))
            for place, result in zip(places, results, strict=True):
                builder.store(builder.load(place), builder.bitcast(result, _VECTOR.as_pointer()), align=4)
            return context.get_dummy_value()

        return types.void(*_as_given(*kinds)), generate

    return tile


def _start(builder: Any, places: list[Any], results: list[Any], first: Any) -> None:
    with builder.if_else(builder.icmp_signed("!=", first, _I64(0))) as (fresh, more):
        with fresh:
            for place in places:
                builder.store(constant(_F32, 0.0, LANES), place)
        with more:
            for place, result in zip(places, results, strict=True):
                builder.store(_load(builder, result, _VECTOR), place)


@cache
def dot_tile(rows: int, tokens: int, pairs: bool) -> Any:
    """``tile(w, at, x, to_x, length, out, to, stride)``.

    Stores to ``out[to + t * stride + r]`` the products of the weight rows at ``w[at]``, ``w[at + length]``... with the
    rows at ``x[to_x]``, ``x[to_x + length]``... Both are fp32 or bf16 held as uint16. Meanwhile it asks for the
    weights that follow in memory.
    """

    @intrinsic
    def tile(typingctx: Any, w: Any, at: Any, x: Any, to_x: Any, length: Any, out: Any, to: Any, stride: Any) -> Any:
        kinds = (w, at, x, to_x, length, out, to, stride)
        step = 2 * LANES if pairs else LANES
        line = 64 * 8 // w.dtype.bitwidth
        chains = max(1, _CHAINS // (rows * tokens))
        stride_k = max(chains * step, line)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            values = [_data(context, builder, kind, value) for kind, value in zip(sig.args, args, strict=True)]
            w, at, x, to_x, length, out, to, stride = values
            places = _accumulators(builder, rows * tokens * chains)
            for place in places:
                builder.store(constant(_F32, 0.0, LANES), place)
            w_rows = [_at(builder, w, at, builder.mul(length, _I64(r))) for r in range(rows)]
            x_rows = [_at(builder, x, to_x, builder.mul(length, _I64(t))) for t in range(tokens)]

            def multiply(read: Callable[[Any], Any], chain: int) -> None:
                add = multiply_add_pairs if pairs else multiply_add
                w_lanes = [read(row) for row in w_rows]
                for t, row in enumerate(x_rows):
                    x_lanes = read(row)
                    for r in range(rows):
                        place = places[(r * tokens + t) * chains + chain]
                        builder.store(add(builder, w_lanes[r], x_lanes, builder.load(place)), place)

            whole = builder.and_(length, _I64(-stride_k))
            with cgutils.for_range_slice(builder, _I64(0), whole, _I64(stride_k), _I64) as (k, _):
                for row in w_rows:
                    for part in range(0, stride_k, line):
                        _prefetch(builder, _at(builder, row, k, part + _AHEAD_BYTES * line // 64))
                for i, part in enumerate(range(0, stride_k, step)):
                    chain = i % chains
                    multiply(lambda row, k=k, part=part: _lanes(builder, _at(builder, row, k, part), pairs), chain)
            with cgutils.for_range_slice(builder, whole, length, _I64(step), _I64) as (k, _):
                left = builder.sub(length, k)
                multiply(lambda row, k=k: _lanes_left(builder, _at(builder, row, k), left, pairs), 0)
            for r in range(rows):
                for t in range(tokens):
                    first = (r * tokens + t) * chains
                    total = builder.load(places[first])
                    for place in places[first + 1 : first + chains]:
                        total = builder.fadd(total, builder.load(place))
                    name = f"llvm.vector.reduce.fadd.{llvm_suffix(_VECTOR)}"
                    total = call_llvm(builder, name, _F32, [ir.Constant(_F32, -0.0), total], flags=("reassoc",))
                    builder.store(total, _at(builder, out, to, builder.mul(stride, _I64(t)), r))
            return context.get_dummy_value()

        return types.void(*_as_given(*kinds)), generate

    return tile


def _lanes(builder: Any, pointer: Any, pairs: bool) -> Any:
    """Load fp32 lanes, bf16 as fp32 lanes, or pairs of bf16."""
    element = pointer.type.pointee
    value = _load(builder, pointer, ir.VectorType(element, 2 * LANES if pairs else LANES))
    if pairs:
        return builder.bitcast(value, ir.VectorType(_I32, LANES))
    return value if element == _F32 else widen_bits(builder, value)


def _lanes_left(builder: Any, pointer: Any, left: Any, pairs: bool) -> Any:
    """As `_lanes`, with 0 in the place of elements after the last ``left``."""
    element, lanes = pointer.type.pointee, 2 * LANES if pairs else LANES
    indices = ir.Constant(ir.VectorType(_I64, lanes), list(range(lanes)))
    mask = builder.icmp_signed("<", indices, splat(builder, left, lanes))
    kind = ir.VectorType(element, lanes)
    name = f"llvm.masked.load.{llvm_suffix(kind)}.p0"
    alignment = _I32(4 if element == _F32 else 2)
    raw = builder.bitcast(pointer, kind.as_pointer())
    value = call_llvm(builder, name, kind, [raw, alignment, mask, ir.Constant(kind, None)])
    if pairs:
        return builder.bitcast(value, ir.VectorType(_I32, LANES))
    return value if element == _F32 else widen_bits(builder, value)
