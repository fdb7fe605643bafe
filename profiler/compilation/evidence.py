"""Compile every Triton kernel of an operator for targets that are absent."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ...kernels import UnsupportedError, operator_names
from ...kernels.registry import backend_module, backend_names
from ...kernels.triton_support import KernelSpec, compile_ahead, is_interpreting
from .amd import read_amdgcn
from .limits import sm_limits
from .nvidia import read_cubin
from .resources import Occupancy, Resources, occupancy


@dataclass(frozen=True)
class Evidence:
    """One kernel compiled for one target: its resources, or the reason why there are none."""

    operator: str
    kernel: str
    target: str
    num_warps: int
    num_stages: int
    constexprs: dict[str, object]
    resources: Resources | None
    occupancy: Occupancy | None
    message: str = ""

    def as_row(self) -> dict[str, Any]:
        """Return a flat row for tables and JSON."""
        found, filled = self.resources, self.occupancy
        return {
            "operator": self.operator,
            "kernel": self.kernel,
            "target": self.target,
            "num_warps": self.num_warps,
            "num_stages": self.num_stages,
            "constexprs": {name: str(value) for name, value in self.constexprs.items()},
            "registers": found and found.registers,
            "spills": found and found.spills,
            "shared_bytes": found and found.shared_bytes,
            "tensor_memory_columns": found and found.tensor_memory_columns,
            "matrix_instruction": found and found.matrix_instruction,
            "blocks_per_sm": filled and filled.blocks,
            "occupancy": filled and filled.fraction,
            "limited_by": filled and filled.limited_by,
            "instructions": found.mix.top(12) if found and found.mix else None,
            "message": self.message or (found.note if found else ""),
        }


def triton_operators() -> list[str]:
    """Return the operators that have Triton kernels."""
    return [name for name in operator_names() if "triton" in backend_names(name)]


def compile_evidence(operators: Iterable[str], targets: Iterable[str]) -> Iterator[Evidence]:
    """Compile the kernels of operators, each with the configuration it chooses for a target.

    Raises
    ------
    UnsupportedError
        If Triton's interpreter is switched on, in which nothing can be compiled.
    """
    if is_interpreting():
        raise UnsupportedError("TRITON_INTERPRET=1 is set, and the interpreter compiles nothing; unset it")
    targets = list(targets)
    for operator in operators:
        module = importlib.import_module(backend_module(operator, "triton"))
        for target in targets:
            for spec in module.compile_specs(target):
                yield _compile(operator, spec, target)


def _compile(operator: str, spec: KernelSpec, target: str) -> Evidence:
    known = (operator, spec.name, target, spec.num_warps, spec.num_stages, dict(spec.constexprs))
    try:
        compiled = compile_ahead(spec, target)
    except UnsupportedError as error:
        return Evidence(*known, resources=None, occupancy=None, message=str(error))
    if not target.startswith("sm_"):
        return Evidence(*known, resources=read_amdgcn(compiled), occupancy=None)
    resources = read_cubin(compiled)
    limits = sm_limits(target)
    if limits is None:
        return Evidence(*known, resources, None, f"no hardware profile states the SM limits of {target}")
    return Evidence(*known, resources, occupancy(resources, spec.num_warps, limits))
