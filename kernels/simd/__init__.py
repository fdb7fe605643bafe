"""Explicit vectors for Numba kernels.

Numba leaves vectorising to LLVM, which refuses most reductions, maxima and exponentials. Here a vector is a value of
its own, held in registers, so that a kernel says what it means::

    acc = simd.full(0.0, np.float32)
    for i in range(0, n, simd.LANES):
        acc = simd.fma(simd.load(p, i), simd.load(q, i), acc)
    total = simd.sum_lanes(acc)

Vectors live inside compiled functions only: they cannot be passed to or returned to Python. All functions here are
called from code compiled by Numba. ``+ - * / & | ^ << >> < <= > >= == !=``, unary ``-`` and ``~`` work on vectors of
one type, and of a vector with a scalar, which is cast to the lanes' type. No operation is reassociated or contracted,
whatever ``fastmath`` says.
"""

from .arithmetic import absolute, fma, maximum, minimum, round_even, select, sqrt
from .counter import take_next
from .exponential import exp, exp2, exp2_in_range, exp2_product
from .host import LANES, has_bf16_dot, host_features
from .lanes import (
    all_lanes,
    any_lane,
    bitcast,
    convert,
    count_lanes,
    first_lanes,
    full,
    lane,
    lane_indices,
    mask_bits,
    max_lanes,
    min_lanes,
    narrow_bf16,
    sum_lanes,
    widen_bf16,
)
from .leaf import inlined, leaf
from .memory import (
    aligned_empty,
    gather,
    load,
    load_f32,
    load_f32_masked,
    load_lanes,
    load_masked,
    prefetch,
    store,
    store_masked,
    store_streaming,
)
from .sorting import sort_columns, sort_columns_by
from .tiles import store_compressed, transpose_tile
from .vector_type import Vector

__all__ = [
    "LANES",
    "Vector",
    "absolute",
    "aligned_empty",
    "all_lanes",
    "any_lane",
    "bitcast",
    "convert",
    "count_lanes",
    "exp",
    "exp2",
    "exp2_in_range",
    "exp2_product",
    "first_lanes",
    "fma",
    "full",
    "gather",
    "has_bf16_dot",
    "host_features",
    "inlined",
    "lane",
    "lane_indices",
    "leaf",
    "load",
    "load_f32",
    "load_f32_masked",
    "load_lanes",
    "load_masked",
    "mask_bits",
    "max_lanes",
    "maximum",
    "min_lanes",
    "minimum",
    "narrow_bf16",
    "prefetch",
    "round_even",
    "select",
    "sort_columns",
    "sort_columns_by",
    "sqrt",
    "store",
    "store_compressed",
    "store_masked",
    "store_streaming",
    "sum_lanes",
    "take_next",
    "transpose_tile",
    "widen_bf16",
]
