"""Show what this machine is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._output import console, table

if TYPE_CHECKING:
    from ..profiler.machine import Machine

_GIB = 2**30


def show_machine(machine: Machine) -> None:
    """Print CPU, cores that may be used, caches, vector width, memory and GPUs."""
    caches = ", ".join(f"L{cache.level} {_size(cache.size_bytes)}" for cache in machine.caches)
    quota = "" if machine.quota_cores is None else f", cgroup quota {machine.quota_cores:g}"
    virtual = f", in a virtual machine ({machine.hypervisor})" if machine.hypervisor else ""
    gpus = ", ".join(gpu.name for gpu in machine.gpus) or f"none ({machine.gpu_note})"
    cells = [
        ("CPU", f"{machine.cpu_model} ({machine.microarchitecture or machine.architecture}){virtual}"),
        ("cores", f"{machine.allowed_cores} of {machine.logical_cores} (affinity {machine.affinity_cores}{quota})"),
        ("caches", f"{caches} (per core, as seen by it)"),
        ("vectors", f"{machine.simd_bits} bit ({', '.join(machine.simd_flags)})"),
        ("memory", f"{machine.usable_memory_bytes / _GIB:.1f} GiB"),
        ("GPUs", gpus),
    ]
    console().print(table("This machine", ("what", "seen"), cells))


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:g} MiB" if size_bytes >= 2**20 else f"{size_bytes / 2**10:g} KiB"
