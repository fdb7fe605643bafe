"""Read a cubin: registers and shared memory by cuobjdump, instructions by nvdisasm."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from .resources import InstructionMix, Resources

# From compute capability 8.0 on the driver reserves 1 KiB of shared memory for each block
# (NVIDIA, CUDA C++ Programming Guide, "Shared Memory" of compute capability 8.x and 9.0).
_RESERVED_SHARED_BYTES = 1024
_MATRIX_INSTRUCTIONS = (
    ("tcgen05", r"tcgen05\.mma"),
    ("wgmma", r"wgmma\.mma_async"),
    ("mma", r"\bw?mma\.sync"),
)
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)", re.MULTILINE)


def read_cubin(compiled: Any) -> Resources:
    """Return the resources of a kernel compiled for an NVIDIA target.

    Spills are the local loads and stores in the disassembly; they are null where nvdisasm cannot read the target.
    """
    cubin, ptx = compiled.asm["cubin"], compiled.asm["ptx"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        usage = _run(_triton_tool("cuobjdump"), "--dump-resource-usage", str(path)).stdout
        mix, note = _disassemble(path)
    numbers = {key: int(value) for key, value in re.findall(r"\b(REG|STACK|SHARED|LOCAL):(\d+)", usage)}
    shared = compiled.metadata.shared + max(numbers["SHARED"], _RESERVED_SHARED_BYTES)
    return Resources(
        registers=numbers["REG"],
        spills=None if mix is None else mix.count("LDL", "STL"),
        shared_bytes=shared,
        tensor_memory_columns=compiled.metadata.tmem_size or 0,
        matrix_instruction=next((name for name, pattern in _MATRIX_INSTRUCTIONS if re.search(pattern, ptx)), ""),
        mix=mix,
        note=note,
    )


def _disassemble(path: Path) -> tuple[InstructionMix | None, str]:
    done = _run(_nvdisasm(), "-c", "-ndf", str(path))  # instructions alone, without the analysis of data flow
    opcodes = Counter(_INSTRUCTION.findall(done.stdout))
    if not opcodes:
        reason = next((line.strip() for line in done.stderr.splitlines() if line.strip()), "no output")
        return None, f"not disassembled ({reason}); the extra roofcast[sass] brings an nvdisasm that can"
    return InstructionMix(dict(opcodes)), ""


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


@cache
def _triton_tool(name: str) -> str:
    import triton

    return str(Path(triton.__file__).parent / "backends/nvidia/bin" / name)


@cache
def _nvdisasm() -> str:
    """Prefer the package's nvdisasm: the one that Triton 3.9 ships stops before sm_107."""
    try:
        files = metadata.files("nvidia-cuda-nvdisasm") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name in {"nvdisasm", "nvdisasm.exe"}:
            return str(file.locate())
    return _triton_tool("nvdisasm")
