"""Compile Triton kernels ahead of time for GPUs that are absent."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .contract import UnsupportedError

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_103", "sm_107", "sm_120", "gfx942", "gfx950")

# Triton 3.9 asks once which default it should take; kernels here were checked with fused multiply-add.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")


@dataclass(frozen=True)
class KernelSpec:
    """A Triton kernel with the configuration chosen for a target.

    Parameters
    ----------
    name
        Name shown to users, unique within the operator.
    kernel
        The function decorated with ``@triton.jit``.
    signature
        Triton type by run-time parameter, such as ``{"x": "*fp32", "rows": "i32"}``.
    constexprs
        Value by compile-time parameter.
    num_warps, num_stages
        Launch options.
    divisible_by_16
        Run-time parameters that the launcher guarantees to be multiples of 16 (pointers are so by default).
    """

    name: str
    kernel: Any
    signature: Mapping[str, str]
    constexprs: Mapping[str, object]
    num_warps: int = 4
    num_stages: int = 2
    divisible_by_16: tuple[str, ...] = field(default=())


def is_interpreting() -> bool:
    """Return whether Triton's interpreter runs the kernels (``TRITON_INTERPRET=1``)."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def gpu_target(target: str) -> Any:
    """Return Triton's description of a compile target such as ``sm_100`` or ``gfx950``.

    Raises
    ------
    UnsupportedError
        If the name is not of that form.
    """
    from triton.backends.compiler import GPUTarget

    if match := re.fullmatch(r"sm_(\d+)a?", target):
        return GPUTarget("cuda", int(match[1]), 32)
    if re.fullmatch(r"gfx[0-9a-f]+", target):
        return GPUTarget("hip", target, 64 if target.startswith("gfx9") else 32)
    raise UnsupportedError(f"unknown compile target {target!r}; known: {', '.join(TARGETS)}")


def compile_ahead(spec: KernelSpec, target: str) -> Any:
    """Compile one kernel for a target without a GPU and return Triton's compiled kernel.

    Raises
    ------
    UnsupportedError
        If this Triton cannot compile for the target; the message names the version that is installed.
    """
    import triton
    from triton.compiler import ASTSource

    signature = {name: spec.signature.get(name, "constexpr") for name in spec.kernel.arg_names}
    pointers = [name for name, kind in spec.signature.items() if kind.startswith("*")]
    aligned = {*pointers, *spec.divisible_by_16}
    attributes = {
        (index,): [["tt.divisibility", 16]] for index, name in enumerate(spec.kernel.arg_names) if name in aligned
    }
    source = ASTSource(fn=spec.kernel, signature=signature, constexprs=dict(spec.constexprs), attrs=attributes)
    options = {"num_warps": spec.num_warps, "num_stages": spec.num_stages}
    try:
        return triton.compile(source, target=gpu_target(target), options=options)
    except Exception as error:
        if _lacks_target(error):
            raise UnsupportedError(
                f"triton {triton.__version__} cannot compile for {target}; triton 3.9 or newer can"
            ) from error
        raise


def _lacks_target(error: Exception) -> bool:
    text = str(error)
    return bool(re.search(r"(is not defined for option 'gpu-name'|[Uu]nsupported.*(arch|target)|unknown target)", text))
