"""Numba's type of a vector, and the operators on it."""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic as _numba_intrinsic
from numba.extending import lower_builtin, models, register_model

# Numba's decorators are untyped.
intrinsic: Any = _numba_intrinsic
_infer_global: Any = infer_global


class Vector(types.Type):
    """A vector of ``lanes`` elements of a Numba scalar type; boolean lanes make a mask."""

    def __init__(self, dtype: Any, lanes: int) -> None:
        self.dtype = dtype
        self.lanes = lanes
        super().__init__(name=f"Vector({dtype}, {lanes})")

    @property
    def is_float(self) -> bool:
        """Whether the lanes are floating-point numbers."""
        return isinstance(self.dtype, types.Float)

    @property
    def is_mask(self) -> bool:
        """Whether the lanes are booleans."""
        return isinstance(self.dtype, types.Boolean)

    def with_dtype(self, dtype: Any) -> Vector:
        """Return the type of as many lanes of another element type."""
        return Vector(dtype, self.lanes)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Vector) -> None:
        element = ir.IntType(1) if fe_type.is_mask else manager.lookup(fe_type.dtype).get_value_type()
        super().__init__(manager, fe_type, ir.VectorType(element, fe_type.lanes))


def splat(builder: Any, scalar: Any, lanes: int) -> Any:
    """Emit a vector whose lanes all hold an LLVM scalar."""
    one = ir.Constant(ir.VectorType(scalar.type, lanes), ir.Undefined)
    first = builder.insert_element(one, scalar, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    return builder.shuffle_vector(first, one, zeros)


def constant(element: Any, value: float, lanes: int) -> Any:
    """Return an LLVM constant vector whose lanes all hold a value."""
    return ir.Constant(ir.VectorType(element, lanes), [value] * lanes)


def as_vector(context: Any, builder: Any, value: Any, kind: types.Type, vector: Vector) -> Any:
    """Emit an operand as a vector: unchanged if it is one, cast and copied to all lanes if it is a scalar."""
    if isinstance(kind, Vector):
        return value
    scalar = context.cast(builder, value, kind, vector.dtype)
    return splat(builder, builder.trunc(scalar, ir.IntType(1)) if vector.is_mask else scalar, vector.lanes)


def common_vector(*kinds: types.Type) -> Vector | None:
    """Return the one vector type among operands whose others are scalars; None if there is none or several."""
    vectors = {kind for kind in kinds if isinstance(kind, Vector)}
    rest = [kind for kind in kinds if not isinstance(kind, Vector)]
    if len(vectors) == 1 and all(isinstance(kind, types.Number | types.Boolean) for kind in rest):
        return vectors.pop()
    return None


def call_llvm(builder: Any, name: str, result: Any, arguments: list[Any], *, flags: tuple[str, ...] = ()) -> Any:
    """Emit a call of an LLVM intrinsic by its full name."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments, fastmath=flags)


def llvm_suffix(vector: Any) -> str:
    """Return how LLVM's intrinsics name a vector type, such as ``v16f32``."""
    element = vector.element
    name = {"float": "f32", "double": "f64", "half": "f16"}.get(str(element), str(element))
    return f"v{vector.count}{name}"


def _arithmetic(float_op: str | None, signed_op: str | None, unsigned_op: str | None = None) -> Any:
    def emit(builder: Any, vector: Vector, a: Any, b: Any) -> Any:
        name = float_op if vector.is_float else signed_op
        if not vector.is_float and unsigned_op and not getattr(vector.dtype, "signed", False):
            name = unsigned_op
        return getattr(builder, str(name))(a, b)

    return emit, lambda v: (float_op if v.is_float else signed_op) is not None, lambda v: v


def _comparison(symbol: str) -> Any:
    def emit(builder: Any, vector: Vector, a: Any, b: Any) -> Any:
        if vector.is_float:
            return (builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered)(symbol, a, b)
        signed = getattr(vector.dtype, "signed", False)
        return (builder.icmp_signed if signed else builder.icmp_unsigned)(symbol, a, b)

    return emit, lambda v: True, lambda v: v.with_dtype(types.boolean)


_BINARY = {
    ("add", "iadd"): _arithmetic("fadd", "add"),
    ("sub", "isub"): _arithmetic("fsub", "sub"),
    ("mul", "imul"): _arithmetic("fmul", "mul"),
    ("truediv", "itruediv"): _arithmetic("fdiv", None),
    ("and_", "iand"): _arithmetic(None, "and_"),
    ("or_", "ior"): _arithmetic(None, "or_"),
    ("xor", "ixor"): _arithmetic(None, "xor"),
    ("lshift", "ilshift"): _arithmetic(None, "shl"),
    ("rshift", "irshift"): _arithmetic(None, "ashr", "lshr"),
    ("lt",): _comparison("<"),
    ("le",): _comparison("<="),
    ("gt",): _comparison(">"),
    ("ge",): _comparison(">="),
    ("eq",): _comparison("=="),
    ("ne",): _comparison("!="),
}


def _register_binary(function: Any, emit: Any, applies: Any, result: Any) -> None:
    class Template(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            vector = common_vector(*args) if len(args) == 2 else None
            return signature(result(vector), *args) if vector is not None and applies(vector) else None

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = common_vector(*sig.args)
        assert vector is not None
        a, b = (as_vector(context, builder, x, k, vector) for x, k in zip(args, sig.args, strict=True))
        return emit(builder, vector, a, b)

    _infer_global(function)(Template)
    for kinds in ((Vector, Vector), (Vector, types.Number), (types.Number, Vector)):
        lower_builtin(function, *kinds)(lower)


def _register_unary(function: Any, emit: Any, applies: Any) -> None:
    class Template(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            fits = len(args) == 1 and isinstance(args[0], Vector) and applies(args[0])
            return signature(args[0], args[0]) if fits else None

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return emit(builder, sig.args[0], args[0])

    _infer_global(function)(Template)
    lower_builtin(function, Vector)(lower)


for _names, _rule in _BINARY.items():
    for _name in _names:
        _register_binary(getattr(operator, _name), *_rule)
_register_unary(operator.neg, lambda b, v, x: b.fneg(x) if v.is_float else b.neg(x), lambda v: not v.is_mask)
_register_unary(operator.invert, lambda b, v, x: b.not_(x), lambda v: not v.is_float)
