"""What one compiled kernel uses, and how many of its blocks fit on one SM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class InstructionMix:
    """Static instruction counts by opcode."""

    opcodes: Mapping[str, int]

    def count(self, *names: str) -> int:
        """Return how many instructions have one of these opcodes."""
        return sum(self.opcodes.get(name, 0) for name in names)

    def count_prefix(self, prefix: str) -> int:
        """Return how many instructions have an opcode that starts so."""
        return sum(count for name, count in self.opcodes.items() if name.startswith(prefix))

    def top(self, n: int) -> dict[str, int]:
        """Return the ``n`` most frequent opcodes."""
        return dict(sorted(self.opcodes.items(), key=lambda item: -item[1])[:n])


@dataclass(frozen=True)
class Resources:
    """Per-thread and per-block resources of one compiled kernel.

    ``shared_bytes`` holds the driver's reservation; ``spills`` counts spill instructions and is None where the
    target cannot be disassembled; ``matrix_instruction`` is ``mma``, ``wgmma``, ``tcgen05``, ``mfma`` or empty.
    """

    registers: int
    spills: int | None
    shared_bytes: int
    tensor_memory_columns: int
    matrix_instruction: str
    mix: InstructionMix | None
    note: str = ""


@dataclass(frozen=True)
class SmLimits:
    """What one SM holds."""

    warps: int
    blocks: int
    registers: int
    shared_bytes: int
    tensor_memory_columns: int = 0


@dataclass(frozen=True)
class Occupancy:
    """Resident blocks and warps per SM, the fraction of the SM's warps, and what limits it."""

    blocks: int
    warps: int
    fraction: float
    limited_by: str


# A warp's registers are allocated in units of 256 from the quarter of the SM that runs it
# (NVIDIA, CUDA Occupancy Calculator, compute capability 8.0 and later).
_REGISTER_UNIT = 256
_QUARTERS = 4
_THREADS_PER_WARP = 32


def occupancy(resources: Resources, num_warps: int, limits: SmLimits) -> Occupancy:
    """Return how many blocks of a kernel fit on one NVIDIA SM at once.

    Where two limits tie, the one named is the first of: warps, blocks, registers, shared memory, tensor memory.
    """
    per_warp = -(-resources.registers * _THREADS_PER_WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    fits = {"warps": limits.warps // num_warps, "blocks": limits.blocks}
    if per_warp:
        fits["registers"] = limits.registers // _QUARTERS // per_warp * _QUARTERS // num_warps
    if resources.shared_bytes:
        fits["shared memory"] = limits.shared_bytes // resources.shared_bytes
    if resources.tensor_memory_columns and limits.tensor_memory_columns:
        fits["tensor memory"] = limits.tensor_memory_columns // resources.tensor_memory_columns
    limited_by = min(fits, key=lambda name: fits[name])
    blocks = fits[limited_by]
    return Occupancy(blocks, blocks * num_warps, blocks * num_warps / limits.warps, limited_by)
