"""A counter that threads share."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from .vector_type import intrinsic


@intrinsic
def take_next(typingctx: Any, counter: Any) -> Any:
    """``take_next(counter)``: add one to the first element of an int64 array, atomically; return what it was.

    Threads that take numbered tasks so keep busy until none is left, whatever a task or a core costs.
    """
    if not isinstance(counter, types.Array) or counter.dtype != types.int64:
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        first = cgutils.gep(builder, data, 0)
        return builder.atomic_rmw("add", first, ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(counter), generate
