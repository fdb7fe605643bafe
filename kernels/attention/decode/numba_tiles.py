"""Register tiles of decode attention: scores of some query rows with some keys, and weights times values.

A tile is emitted as LLVM code with its accumulators in registers. Query rows share every load of a key or value. Keys
and values are rows of ``head_dim`` elements at any offset of a 1-D array, so that pages may have any size. Every tile
asks for rows further on while it works on its own, since a hardware prefetcher follows neither a page table nor rows
that are read side by side.

With AVX512-BF16 a tile multiplies pairs of bf16 and adds them in fp32; elsewhere bf16 is widened.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from ...simd.host import LANES
from ...simd.vector_type import constant, intrinsic, splat
from .numba_emitter import Emitter

TILE_ROWS = 4 if LANES >= 8 else 2
"""Most query rows of a tile."""

_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
_SUBLANE = 4  # fp32 lanes of the 128-bit part within which shuffles are cheap


def _sum_each(emit: Emitter, vectors: list[Any]) -> Any:
    """Return the sum over lanes of each vector, the first in lane 0: a tree whose shuffles stay cheap."""
    zero = constant(_F32, 0.0, LANES)
    vectors = vectors + [zero] * (LANES - len(vectors))

    def halve(low: list[int], high: list[int]) -> None:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors[:] = [emit.builder.fadd(emit.shuffle(a, b, low), emit.shuffle(a, b, high)) for a, b in pairs]

    starts = range(0, LANES, _SUBLANE)
    halve(*[[s + i + o for s in starts for i in (at, at + 1) for o in (0, LANES)] for at in (0, 2)])
    halve(*[[s + i + o for s in starts for o in (0, LANES) for i in (at, at + 1)] for at in (0, 2)])
    while len(vectors) > 1:
        halve(*[[s + i + o for o in (0, LANES) for s in starts[odd::2] for i in range(_SUBLANE)] for odd in (0, 1)])
    return vectors[0]


def keys_of_tile(rows: int) -> int:
    """Return how many keys a score tile of so many query rows takes."""
    return LANES // (1 << (rows - 1).bit_length())


@cache
def score_tile(rows: int, dot: bool) -> Any:
    """``tile(q, at, k, offsets, skip, count, head_dim, scores, to, stride)``.

    Stores the products of the query rows at ``q[at], q[at + head_dim] ...`` with the ``count`` keys at
    ``k[offsets[0]], k[offsets[1]] ...`` to ``scores[to], scores[to + stride] ...``, and prefetches the row that stands
    ``skip`` places later in ``offsets``. Goes up to the next whole tile of keys, if ``count`` is none.
    """
    keys, step = keys_of_tile(rows), 2 * LANES if dot else LANES

    @intrinsic
    def tile(typingctx: Any, q: Any, at: Any, k: Any, offsets: Any, skip: Any, count: Any, head_dim: Any,
             scores: Any, to: Any, stride: Any) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            e = Emitter(context, builder, sig, args)
            accumulators = e.accumulators(rows * keys)
            query = [e.pointer(e[0], e[1], builder.mul(e[6], ir.Constant(_I64, h))) for h in range(rows)]
            with cgutils.for_range_slice(builder, _I64(0), e[5], _I64(keys), _I64) as (first, _):
                for place in accumulators:
                    builder.store(constant(_F32, 0.0, LANES), place)
                own = [e.pointer(e[2], e.load(e[3], first, t)) for t in range(keys)]
                with cgutils.for_range_slice(builder, _I64(0), e[6], _I64(step), _I64) as (d, _):
                    done = builder.add(builder.mul(first, e[6]), builder.mul(d, ir.Constant(_I64, keys)))
                    e.prefetch_rows(e[2], e[3], e[4], done, e[6], keys * step)
                    lanes = [e.pointer(p, d) for p in own]
                    k_lanes = [e.load_vector(p, step) if dot else e.load_f32(p) for p in lanes]
                    for h in range(rows):
                        q_lanes = e.load_vector(e.pointer(query[h], d), step)
                        for t in range(keys):
                            place = accumulators[h * keys + t]
                            add = e.dot_pairs if dot else e.fma
                            builder.store(add(q_lanes, k_lanes[t], builder.load(place)), place)
                sums = _sum_each(e, [builder.load(place) for place in accumulators])
                for h in range(rows):
                    part = e.shuffle(sums, sums, range(h * keys, (h + 1) * keys))
                    row = builder.add(e[8], builder.mul(e[9], ir.Constant(_I64, h)))
                    e.store_vector(part, e.pointer(e[7], row, first))
            return context.get_dummy_value()

        return types.void(*_as_given(q, at, k, offsets, skip, count, head_dim, scores, to, stride)), generate

    return tile


@cache
def value_tile(rows: int, vectors: int, dot: bool) -> Any:
    """``tile(p, at, stride, factors, row, v, offsets, skip, count, d, head_dim, out, to)``.

    Multiplies ``vectors`` vectors of the accumulators at ``out[to + d], out[to + d + head_dim] ...`` by their row's
    factor, ``factors[row], factors[row + 1] ...``, and adds the weights ``p[at], p[at + stride] ...`` times ``count``
    values at ``v[offsets[j] + d]``; prefetches the row that stands ``skip`` places later. With ``dot`` weights are
    bf16, keys are taken in pairs and an odd count reads one weight more, which has to be 0.
    """
    step = 2 if dot else 1

    @intrinsic
    def tile(typingctx: Any, p: Any, at: Any, stride: Any, factors: Any, row: Any, v: Any, offsets: Any, skip: Any,
             count: Any, d: Any, head_dim: Any, out: Any, to: Any) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            e = Emitter(context, builder, sig, args)
            accumulators = e.accumulators(rows * vectors)
            results = []
            for h in range(rows):
                factor = splat(builder, e.load(e[3], e[4], h), LANES)
                line = e.pointer(e[11], e[12], e[9], builder.mul(e[10], ir.Constant(_I64, h)))
                results += [e.pointer(line, i * LANES) for i in range(vectors)]
                values = [builder.fmul(factor, e.load_f32(pointer)) for pointer in results[h * vectors :]]
                values = _interleaved(e, values) if dot else values
                for place, value in zip(accumulators[h * vectors :], values, strict=False):
                    builder.store(value, place)
            weights = [e.pointer(e[0], e[1], builder.mul(e[2], ir.Constant(_I64, h))) for h in range(rows)]
            with cgutils.for_range_slice(builder, _I64(0), e[8], _I64(step), _I64) as (j, _):
                own = [e.pointer(e[5], e.load(e[6], j), e[9])]
                if dot:
                    # The partner of the last of an odd count is itself: any other might hold a NaN.
                    partner = builder.add(j, ir.Constant(_I64, 1))
                    partner = builder.select(builder.icmp_signed("<", partner, e[8]), partner, j)
                    own.append(e.pointer(e[5], e.load(e[6], partner), e[9]))
                passed = builder.add(builder.mul(e[9], e[8]), builder.mul(j, ir.Constant(_I64, vectors * LANES)))
                e.prefetch_rows(e[5], e[6], e[7], passed, e[10], vectors * LANES * step)
                if dot:
                    p_lanes = [splat(builder, _pair(e, e.pointer(line, j)), LANES) for line in weights]
                    v_lanes = _value_pairs(e, own, vectors)
                else:
                    p_lanes = [splat(builder, e.load(line, j), LANES) for line in weights]
                    v_lanes = [e.load_f32(e.pointer(own[0], i * LANES)) for i in range(vectors)]
                for i in range(vectors):
                    for h in range(rows):
                        place = accumulators[h * vectors + i]
                        add = e.dot_pairs if dot else e.fma
                        builder.store(add(p_lanes[h], v_lanes[i], builder.load(place)), place)
            for h in range(rows):
                values = [builder.load(place) for place in accumulators[h * vectors : (h + 1) * vectors]]
                values = _in_order(e, values) if dot else values
                for value, pointer in zip(values, results[h * vectors :], strict=False):
                    e.store_vector(value, pointer)
            return context.get_dummy_value()

        kinds = (p, at, stride, factors, row, v, offsets, skip, count, d, head_dim, out, to)
        return types.void(*_as_given(*kinds)), generate

    return tile


def _as_given(*kinds: Any) -> list[Any]:
    return [kind if isinstance(kind, types.Array) else types.int64 for kind in kinds]


def _pair(emit: Emitter, pointer: Any) -> Any:
    return emit.builder.load(emit.builder.bitcast(pointer, _I32.as_pointer()), align=2)


def _value_pairs(emit: Emitter, pointers: list[Any], vectors: int) -> list[Any]:
    """Load two rows of bf16 and interleave them within 128-bit parts: lanes 0-3, 8-11 ... and 4-7, 12-15 ..."""
    result = []
    half, parts = _SUBLANE, range(0, 2 * LANES, 2 * _SUBLANE)
    for i in range(0, vectors, 2):
        a, b = (emit.load_vector(emit.pointer(p, i * LANES), 2 * LANES) for p in pointers)
        for start in (0, half):
            lanes = [s + start + n + o for s in parts for n in range(half) for o in (0, 2 * LANES)]
            result.append(emit.shuffle(a, b, lanes))
    return result


def _interleaved(emit: Emitter, values: list[Any]) -> list[Any]:
    """Put pairs of vectors into the order of lanes in which `_value_pairs` leaves a row."""
    result = []
    for a, b in zip(values[::2], values[1::2], strict=True):
        for start in (0, _SUBLANE):
            starts = range(start, 2 * LANES, 2 * _SUBLANE)
            result.append(emit.shuffle(a, b, [s + n for s in starts for n in range(_SUBLANE)]))
    return result


def _in_order(emit: Emitter, values: list[Any]) -> list[Any]:
    """Undo `_interleaved`."""
    result = []
    parts = LANES // _SUBLANE
    for low, high in zip(values[::2], values[1::2], strict=True):
        for first in (0, parts // 2):
            lanes = []
            for part in range(first, first + parts // 2):
                lanes += [part * _SUBLANE + n + o for o in (0, LANES) for n in range(_SUBLANE)]
            result.append(emit.shuffle(low, high, lanes))
    return result
