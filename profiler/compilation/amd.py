"""Read what the AMD backend wrote about a kernel: the metadata and instructions of its assembly."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from .resources import InstructionMix, Resources

_INSTRUCTION = re.compile(r"^\s+((?:v|s|ds|buffer|global|flat|scratch)_\w+)", re.MULTILINE)


def read_amdgcn(compiled: Any) -> Resources:
    """Return the resources of a kernel compiled for an AMD target (registers are vector registers per lane)."""
    text = compiled.asm["amdgcn"]
    numbers = {key: int(value) for key, value in re.findall(r"\.(\w+_count):\s+(\d+)", text)}
    mix = InstructionMix(dict(Counter(_INSTRUCTION.findall(text))))
    mfma = mix.count_prefix("v_mfma") + mix.count_prefix("v_smfmac")
    return Resources(
        registers=numbers["vgpr_count"],
        spills=numbers["vgpr_spill_count"] + numbers["sgpr_spill_count"],
        shared_bytes=compiled.metadata.shared,
        tensor_memory_columns=0,
        matrix_instruction="mfma" if mfma else "",
        mix=mix,
    )
