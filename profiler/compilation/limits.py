"""The SM limits of a compile target, from the hardware profiles."""

from __future__ import annotations

from functools import cache

from ...hwprofiles import DeviceProfile, load, names
from .resources import SmLimits

_REGISTER_BYTES = 4
# A column of tensor memory is 128 lanes of 32 bits (NVIDIA, PTX ISA, "Tensor Memory").
_COLUMN_BYTES = 128 * 4


@cache
def sm_limits(target: str) -> SmLimits | None:
    """Return the limits of one SM of the first profile with this compile target, or None if no profile states them."""
    for name in names("gpu"):
        profile = load(name)
        if isinstance(profile, DeviceProfile) and profile.compile_target == target:
            found = {limit: figure.value for limit, figure in profile.limits().items()}
            if {"warps", "blocks", "registers", "shared_memory"} <= found.keys():
                return SmLimits(
                    warps=int(found["warps"]),
                    blocks=int(found["blocks"]),
                    registers=int(found["registers"] / _REGISTER_BYTES),
                    shared_bytes=int(found["shared_memory"]),
                    tensor_memory_columns=int(found.get("tensor_memory", 0) / _COLUMN_BYTES),
                )
    return None
