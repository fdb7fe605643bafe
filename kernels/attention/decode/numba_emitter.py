"""Emit the LLVM code of register tiles: addresses, loads, prefetches and arithmetic on vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from ...simd.arithmetic import has_fma
from ...simd.host import LANES
from ...simd.lanes import widen_bits
from ...simd.vector_type import call_llvm, llvm_suffix

_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
_VECTOR = ir.VectorType(_F32, LANES)
_LINE_BYTES = 64


class _BFloat(ir.Type):
    """LLVM's bfloat, which llvmlite does not name."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


class Emitter:
    """Addresses, loads and arithmetic of a tile."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.builder = builder
        self._data = [
            context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args, arguments, strict=True)
        ]

    def __getitem__(self, position: int) -> Any:
        """Return an argument: a pointer to the data of an array, or a number."""
        return self._data[position]

    def pointer(self, base: Any, *offsets: Any) -> Any:
        for offset in offsets:
            base = self.builder.gep(base, [offset if not isinstance(offset, int) else ir.Constant(_I64, offset)])
        return base

    def load(self, base: Any, *offsets: Any) -> Any:
        return self.builder.load(self.pointer(base, *offsets))

    def load_vector(self, pointer: Any, lanes: int = LANES) -> Any:
        element = pointer.type.pointee
        wide = self.builder.bitcast(pointer, ir.VectorType(element, lanes).as_pointer())
        return self.builder.load(wide, align=4 if element == _F32 else 2)

    def load_f32(self, pointer: Any) -> Any:
        """Load lanes of fp32, or of bf16 as fp32."""
        value = self.load_vector(pointer)
        return value if pointer.type.pointee == _F32 else widen_bits(self.builder, value)

    def store_vector(self, value: Any, pointer: Any) -> None:
        self.builder.store(value, self.builder.bitcast(pointer, value.type.as_pointer()), align=4)

    def prefetch(self, pointer: Any) -> None:
        raw = self.builder.bitcast(pointer, ir.IntType(8).as_pointer())
        read, second, data = (ir.Constant(_I32, n) for n in (0, 2, 1))
        call_llvm(self.builder, "llvm.prefetch.p0", ir.VoidType(), [raw, read, second, data])

    def prefetch_rows(self, base: Any, offsets: Any, skip: Any, done: Any, head_dim: Any, elements: int) -> None:
        """Ask for so many elements more of the rows after the first ``skip``, of which ``done`` were asked for."""
        row, element = (op(done, head_dim) for op in (self.builder.udiv, self.builder.urem))
        start = self.pointer(base, self.load(offsets, skip, row), element)
        for i in range(0, elements, _LINE_BYTES // (4 if start.type.pointee == _F32 else 2)):
            self.prefetch(self.pointer(start, i))

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        name = "fma" if has_fma() else "fmuladd"
        return call_llvm(self.builder, f"llvm.{name}.{llvm_suffix(c.type)}", c.type, [a, b, c])

    def dot_pairs(self, a: Any, b: Any, c: Any) -> Any:
        """Add the products of both bf16 of every 32-bit lane to its fp32 lane."""
        pairs = ir.VectorType(_BFloat(), 2 * LANES)
        a, b = (self.builder.bitcast(x, pairs) for x in (a, b))
        return call_llvm(self.builder, f"llvm.x86.avx512bf16.dpbf16ps.{32 * LANES}", c.type, [c, a, b])

    def shuffle(self, a: Any, b: Any, lanes: Sequence[int]) -> Any:
        kind = ir.VectorType(_I32, len(lanes))
        return self.builder.shuffle_vector(a, b, ir.Constant(kind, list(lanes)))

    def accumulators(self, count: int) -> list[Any]:
        """Return places for vectors, which the optimiser turns into registers."""
        return [cgutils.alloca_once(self.builder, _VECTOR) for _ in range(count)]
