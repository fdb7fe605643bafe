"""Loops that stay in registers: the same vector instruction on many independent accumulators.

Written as LLVM code because the number of accumulators depends on the CPU: enough to hide the instruction's latency,
few enough that none leaves the registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, prange, set_num_threads
from numba.core import types

from ...kernels.simd import host_features
from ...kernels.simd.vector_type import call_llvm, intrinsic, llvm_suffix, splat
from .candidates import Candidate

_I64 = ir.IntType(64)
_UNROLL = 4

# From the builder, all accumulators, two operands and the number of the step within a round to the new accumulators.
Step = Callable[[Any, list[Any], Any, Any, int], list[Any]]


def vector_bits() -> int:
    """Return the width of the vector registers that Numba compiles for."""
    if "avx512f" in host_features():
        return 512
    return 256 if "avx" in host_features() else 128


def accumulators() -> int:
    """Return how many accumulators hide a latency of four cycles on up to four pipes and still fit.

    AVX-512, NEON and SVE have 32 registers, AVX and SSE 16; some are needed for the operands.
    """
    many_registers = "avx512f" in host_features() or "neon" in host_features()
    return 24 if many_registers else 12


def register_kernel(element: Any, lanes: int, step: Step, operand: Any = None) -> Callable[..., None]:
    """Compile a loop whose every round applies ``step`` a few times to all accumulators.

    Parameters
    ----------
    element
        LLVM type of the accumulators' lanes.
    lanes
        Lanes of a vector.
    step
        Emits one instruction per accumulator; two operands do not change in the loop.
    operand
        LLVM type of the operands' lanes, of the same width; default: that of the accumulators.

    Returns
    -------
    A function ``(rounds, x, y, sink)`` with one task per row of ``sink``; a round is `_UNROLL` steps of each
    accumulator. ``x`` and ``y`` are numbers unknown at compile time, so that nothing is folded away.
    """
    count = accumulators()
    is_float = not isinstance(operand or element, ir.IntType)
    scalar = types.float64 if is_float else types.int64

    @intrinsic
    def loop(typingctx: Any, rounds: Any, x: Any, y: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return emit_loop(builder, element, lanes, step, args, operand or element, count)

        return types.float64(types.int64, scalar, scalar), generate

    @njit(parallel=True)
    def kernel(rounds: int, x: Any, y: Any, sink: Any) -> None:
        for task in prange(sink.shape[0]):
            sink[task, 0] = loop(rounds, x, y)

    return kernel


def emit_loop(
    builder: Any, element: Any, lanes: int, step: Step, args: Any, operand: Any, count: int, unroll: int = _UNROLL
) -> Any:
    """Emit the loop and return a double that depends on every lane of every accumulator."""
    rounds, *numbers = args
    x, y = (splat(builder, _narrow(builder, number, operand), lanes) for number in numbers)
    vector = ir.VectorType(element, lanes)
    is_float = not isinstance(element, ir.IntType)
    starts = [ir.Constant(vector, [(1.0 + 0.01 * k) if is_float else k] * lanes) for k in range(count)]
    before = builder.block
    body, after = builder.append_basic_block("rounds"), builder.append_basic_block("after")
    builder.branch(body)
    builder.position_at_end(body)
    index = builder.phi(_I64)
    index.add_incoming(ir.Constant(_I64, 0), before)
    phis = [builder.phi(vector) for _ in range(count)]
    values: list[Any] = list(phis)
    for turn in range(unroll):
        values = step(builder, values, x, y, turn)
    following = builder.add(index, ir.Constant(_I64, 1))
    index.add_incoming(following, body)
    for phi, start, value in zip(phis, starts, values, strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(value, body)
    builder.cbranch(builder.icmp_signed("<", following, rounds), body, after)
    builder.position_at_end(after)
    total = values[0]
    for value in values[1:]:
        total = builder.fadd(total, value) if is_float else builder.add(total, value)
    if not is_float:
        return builder.sitofp(_reduce(builder, "add", total, []), ir.DoubleType())
    result = _reduce(builder, "fadd", total, [ir.Constant(element, -0.0)])
    return result if isinstance(element, ir.DoubleType) else builder.fpext(result, ir.DoubleType())


def _reduce(builder: Any, name: str, vector: Any, start: list[Any]) -> Any:
    full_name = f"llvm.vector.reduce.{name}.{llvm_suffix(vector.type)}"
    flags = ("reassoc",) if start else ()
    return call_llvm(builder, full_name, vector.type.element, [*start, vector], flags=flags)


def _narrow(builder: Any, number: Any, element: Any) -> Any:
    if number.type == element:
        return number
    return builder.trunc(number, element) if isinstance(element, ir.IntType) else builder.fptrunc(number, element)


def register_candidate(
    label: str, kernel: Callable[..., None], per_step: float, operands: tuple[Any, Any], threads: int, rounds: int
) -> Candidate:
    """Return a candidate whose every step of one accumulator does ``per_step`` operations."""
    sink = np.zeros((threads, 16), dtype=np.float64)
    work = per_step * accumulators() * _UNROLL * rounds * threads

    def run() -> None:
        set_num_threads(threads)
        kernel(rounds, operands[0], operands[1], sink)

    return Candidate(label, run, work)
