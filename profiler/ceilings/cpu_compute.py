"""Arithmetic rates of the CPU's vector units: FMA, dot products, comparisons, exponentials."""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, prange, set_num_threads

from ...kernels import simd
from ...kernels.contract import UnsupportedError
from ...kernels.simd.vector_type import call_llvm, llvm_suffix
from .candidates import Candidate
from .register_loop import register_candidate, register_kernel, vector_bits

_F32, _F64, _I32 = ir.FloatType(), ir.DoubleType(), ir.IntType(32)
_ROUNDS = 60_000
# Buffers of the exponentials: both fit the smallest first-level cache.
_EXP_ELEMENTS = 2048
_EXP_PASSES = 4000
# FMA must neither grow nor shrink to subnormal numbers: x * a + y has the fixed point y / (1 - x) = 1.
_FMA_OPERANDS = (0.999, 0.001)


def _fma(builder: Any, values: list[Any], x: Any, y: Any, turn: int) -> list[Any]:
    name = f"llvm.fma.{llvm_suffix(x.type)}"
    return [call_llvm(builder, name, x.type, [value, x, y]) for value in values]


@cache
def _fma_kernel(precision: str) -> Callable[..., None]:
    element, bits = {"fp32": (_F32, 32), "fp64": (_F64, 64)}[precision]
    return register_kernel(element, vector_bits() // bits, _fma)


def fma_candidates(precision: str, threads: int) -> list[Candidate]:
    """Return fused multiply-adds in registers, 2 FLOP per lane, for ``fp32`` or ``fp64``."""
    lanes = vector_bits() // {"fp32": 32, "fp64": 64}[precision]
    label = f"fused multiply-adds in registers, {vector_bits()}-bit vectors; 2 FLOP per lane"
    return [register_candidate(label, _fma_kernel(precision), 2.0 * lanes, _FMA_OPERANDS, threads, _ROUNDS)]


def _x86_dot(name: str, element: Any) -> Callable[..., None]:
    def step(builder: Any, values: list[Any], x: Any, y: Any, turn: int) -> list[Any]:
        return [call_llvm(builder, name, value.type, [value, x, y]) for value in values]

    return register_kernel(element, 16, step, _I32)


def arm_int8_dot(builder: Any, values: list[Any], x: Any, y: Any, turn: int) -> list[Any]:
    """Emit Arm's dot product of four signed bytes per 32-bit lane."""
    name, kind = "llvm.aarch64.neon.sdot.v4i32.v16i8", ir.VectorType(ir.IntType(8), 16)
    x, y = builder.bitcast(x, kind), builder.bitcast(y, kind)
    return [call_llvm(builder, name, value.type, [value, x, y]) for value in values]


@cache
def _dot_kernel(precision: str) -> tuple[Callable[..., None], int, str]:
    """Return the kernel of the CPU's dot-product instruction, its products per instruction, and its name."""
    features = simd.host_features()
    if precision == "bf16" and simd.has_bf16_dot():
        return _x86_dot("llvm.x86.avx512bf16.dpbf16ps.512", _F32), 32, "vdpbf16ps"
    if precision == "int8" and {"avx512vnni", "avx512f"} <= features:
        return _x86_dot("llvm.x86.avx512.vpdpbusd.512", _I32), 64, "vpdpbusd"
    if precision == "int8" and platform.machine() in ("aarch64", "arm64") and "dotprod" in features:
        return register_kernel(_I32, 4, arm_int8_dot), 16, "sdot"
    raise UnsupportedError(
        f"no {precision} dot-product instruction that this measures "
        "(AVX512-BF16 or AVX512-VNNI on x86, int8 sdot on Arm); "
        f"matrix.{precision} through torch is the ceiling for that work"
    )


def dot_candidates(precision: str, threads: int) -> list[Candidate]:
    """Return dot-product instructions in registers, 2 operations per product, for ``bf16`` or ``int8``.

    Raises
    ------
    UnsupportedError
        If the CPU has no such instruction.
    """
    kernel, products, name = _dot_kernel(precision)
    # 1.0 twice in bf16, or the bytes 1 to 4.
    operands = (0x3F803F80, 0x3F803F80) if precision == "bf16" else (0x01020304, 0x01010101)
    label = f"{name} in registers; 2 operations per product"
    return [register_candidate(label, kernel, 2.0 * products, operands, threads, _ROUNDS)]


def _compare(builder: Any, values: list[Any], x: Any, y: Any, turn: int) -> list[Any]:
    """Emit maxima and minima of neighbours in turn: repeated maxima alone would be merged by the compiler."""
    symbol, is_float = "<" if turn % 2 else ">", isinstance(x.type.element, ir.FloatType)
    compare = builder.fcmp_ordered if is_float else builder.icmp_unsigned
    neighbours = values[1:] + values[:1]
    return [builder.select(compare(symbol, a, b), a, b) for a, b in zip(values, neighbours, strict=True)]


@cache
def _compare_kernel(kind: str) -> Callable[..., None]:
    return register_kernel(_F32 if kind == "float" else _I32, vector_bits() // 32, _compare)


def compare_candidates(threads: int) -> list[Candidate]:
    """Return maxima of 32-bit keys in registers, one comparison per lane: as floats, and as sortable integers."""
    lanes = float(vector_bits() // 32)
    return [
        register_candidate(
            "maxima and minima of fp32 in registers; 1 per lane",
            _compare_kernel("float"),
            lanes,
            (0.5, 0.5),
            threads,
            _ROUNDS,
        ),
        register_candidate(
            "maxima and minima of fp32 as sortable integers; 1 per lane",
            _compare_kernel("int"),
            lanes,
            (5, 5),
            threads,
            _ROUNDS,
        ),
    ]


@cache
def _exp_kernel() -> Callable[..., None]:
    @njit(parallel=True)
    def exponentials(x: Any, y: Any, passes: int) -> None:
        for task in prange(x.shape[0]):
            source, target = x[task], y[task]
            for _ in range(passes):
                for i in range(0, _EXP_ELEMENTS, 4 * simd.LANES):
                    for j in range(i, i + 4 * simd.LANES, simd.LANES):
                        simd.store(target, j, simd.exp2_in_range(simd.load(source, j)))

    return exponentials


def exp_candidates(threads: int) -> list[Candidate]:
    """Return base-2 exponentials by the polynomial that the kernels share, over a set in the first-level cache."""
    kernel = _exp_kernel()
    x = simd.aligned_empty((threads, _EXP_ELEMENTS), np.float32)
    x[:] = np.random.default_rng(0).uniform(-20, 0, x.shape)
    y = simd.aligned_empty((threads, _EXP_ELEMENTS), np.float32)

    def run() -> None:
        set_num_threads(threads)
        kernel(x, y, _EXP_PASSES)

    label = "2**x by polynomial (kernels.simd.exp2_in_range), operands in the first-level cache; 1 per element"
    return [Candidate(label, run, float(x.size * _EXP_PASSES), 2 * x.nbytes)]
