"""Sort in every lane at once: each column of a block of vectors, by a network of comparisons.

Sixteen sorts cost what one would, and no step waits for a shuffle. The network is Batcher's odd-even merge sort (Knuth,
The Art of Computer Programming 3, 5.2.2 M); what the rows asked for do not depend on is not computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numba.core import types

from .host import LANES
from .memory import _address, _addressable, _alignment
from .vector_type import Vector, intrinsic


def network(count: int) -> Iterator[tuple[int, int]]:
    """Yield the comparisons ``(i, j)``, ``i < j``, that sort so many items; the larger goes to ``i``."""
    run = 1
    while run < count:
        step = run
        while step >= 1:
            for first in range(step % run, count - step, 2 * step):
                for i in range(first, min(first + step, count - step)):
                    if i // (2 * run) == (i + step) // (2 * run):
                        yield i, i + step
            step //= 2
        run *= 2


def _column(context: Any, builder: Any, kind: Any, array: Any, rows: int) -> list[Any]:
    """Emit the addresses of the first rows of a 2-D array as vectors."""
    zero = context.get_constant(types.intp, 0)
    pair = types.UniTuple(types.intp, 2)
    addresses = []
    for row in range(rows):
        index = context.make_tuple(builder, pair, [context.get_constant(types.intp, row), zero])
        addresses.append(_address(context, builder, (kind, pair), (array, index), LANES))
    return addresses


def _is_block(array: Any) -> bool:
    return _addressable(array, types.UniTuple(types.intp, 2))


@intrinsic(prefer_literal=True)
def sort_columns(typingctx: Any, keys: Any, count: Any, keep: Any) -> Any:
    """``sort_columns(keys, count, keep)``: sort the first ``count`` rows of `LANES` columns, each column descending.

    Only the first ``keep`` rows are written. Both are constants of the program; keys are numbers, not NaN.
    """
    if not isinstance(count, types.IntegerLiteral) or not isinstance(keep, types.IntegerLiteral) or not _is_block(keys):
        return None
    rows, kept = count.literal_value, keep.literal_value

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        addresses = _column(context, builder, sig.args[0], args[0], rows)
        values = [builder.load(a, align=_alignment(keys)) for a in addresses]
        for i, j in network(rows):
            first = _greater(builder, keys.dtype, values[i], values[j])
            values[i], values[j] = (
                builder.select(first, values[i], values[j]),
                builder.select(first, values[j], values[i]),
            )
        for address, value in zip(addresses[:kept], values[:kept], strict=True):
            builder.store(value, address, align=_alignment(keys))
        return context.get_dummy_value()

    return types.void(keys, count, keep), generate


@intrinsic(prefer_literal=True)
def sort_columns_by(typingctx: Any, keys: Any, numbers: Any, count: Any, keep: Any) -> Any:
    """``sort_columns_by(keys, numbers, count, keep)``: as `sort_columns`, moving ``numbers`` along with the keys.

    ``numbers`` are integers of the keys' width; among equal keys the lowest comes first.
    """
    if not isinstance(count, types.IntegerLiteral) or not isinstance(keep, types.IntegerLiteral):
        return None
    if not (_is_block(keys) and _is_block(numbers) and isinstance(numbers.dtype, types.Integer)):
        return None
    rows, kept = count.literal_value, keep.literal_value

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        key_at = _column(context, builder, sig.args[0], args[0], rows)
        number_at = _column(context, builder, sig.args[1], args[1], rows)
        k = [builder.load(a, align=_alignment(keys)) for a in key_at]
        n = [builder.load(a, align=_alignment(numbers)) for a in number_at]
        for i, j in network(rows):
            greater = _greater(builder, keys.dtype, k[i], k[j])
            tie = builder.and_(_equal(builder, keys.dtype, k[i], k[j]), _greater(builder, numbers.dtype, n[j], n[i]))
            first = builder.or_(greater, tie)
            k[i], k[j] = builder.select(greater, k[i], k[j]), builder.select(greater, k[j], k[i])
            n[i], n[j] = builder.select(first, n[i], n[j]), builder.select(first, n[j], n[i])
        for at, values, kind in ((key_at, k, keys), (number_at, n, numbers)):
            for address, value in zip(at[:kept], values[:kept], strict=True):
                builder.store(value, address, align=_alignment(kind))
        return context.get_dummy_value()

    return types.void(keys, numbers, count, keep), generate


def _greater(builder: Any, dtype: Any, a: Any, b: Any) -> Any:
    if Vector(dtype, LANES).is_float:
        return builder.fcmp_ordered(">", a, b)
    return (builder.icmp_signed if dtype.signed else builder.icmp_unsigned)(">", a, b)


def _equal(builder: Any, dtype: Any, a: Any, b: Any) -> Any:
    is_float = Vector(dtype, LANES).is_float
    return builder.fcmp_ordered("==", a, b) if is_float else builder.icmp_signed("==", a, b)
