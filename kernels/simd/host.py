"""What vectors the host has."""

from __future__ import annotations

import platform
from functools import cache
from typing import Any

from llvmlite import binding
from numba.core import config as _config

# Numba sets its options with setattr, out of sight of type checkers.
config: Any = _config


@cache
def host_features() -> frozenset[str]:
    """Return the CPU features Numba compiles for, as LLVM names them (``avx512f``, ``neon`` ...)."""
    if config.CPU_FEATURES is not None:
        return frozenset(f[1:] for f in config.CPU_FEATURES.split(",") if f.startswith("+"))
    if config.CPU_NAME == "generic":
        return frozenset()
    return frozenset(name for name, on in binding.get_host_cpu_features().items() if on)


def _fp32_lanes() -> int:
    if "avx512f" in host_features():
        return 16
    return 8 if "avx" in host_features() else 4


LANES = _fp32_lanes()
"""Lanes of one register of fp32: 16 with AVX-512, 8 with AVX, 4 with SSE or NEON.

Vectors of other element types have as many lanes, so that they convert lane by lane; LLVM uses a part of a register
or several.
"""


def has_fma() -> bool:
    """Return whether the CPU has fused multiply-add in hardware."""
    return "fma" in host_features() or platform.machine().lower() in ("aarch64", "arm64")


def has_bf16_dot() -> bool:
    """Return whether the CPU has AVX512-BF16's dot product on 512-bit vectors."""
    return {"avx512bf16", "avx512f"} <= host_features()
