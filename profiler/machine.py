"""What this machine is, as plain values: the frame in which every measured row stands."""

from __future__ import annotations

import dataclasses
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cgroup import affinity_cores, allowed_cores, cpu_quota, memory_limit_bytes
from .cpu_facts import clocks_hz, cpu_identity, cpuinfo_fields, governor, hypervisor, simd_bits, simd_flags
from .cpu_topology import Cache, CoreKind, caches, core_kinds
from .gpu_facts import Gpu, find_gpus
from .microarchitecture import Microarchitecture, identify
from .software import code_commit, software_versions
from .times import host_name

__all__ = ["Cache", "CoreKind", "Gpu", "Machine", "allowed_cores", "inspect_machine"]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine; None is "the system does not tell".

    Parameters
    ----------
    allowed_cores
        Threads to measure with: cores by affinity, at most the control group's CPU quota, at least one.
    quota_cores
        The quota itself, in cores; None without one.
    core_kinds
        Kinds of core of a hybrid CPU, fastest first; empty if all are alike.
    caches
        Data and unified caches of one core, innermost first.
    simd_bits, simd_flags
        Width of the vector registers, and the extensions of interest (``avx2``, ``avx512``, ``avx512_bf16``,
        ``amx``, ``neon``, ``sve``, ...).
    clock_hz, clock_max_hz
        As the system tells them; in a virtual machine that is often not the real clock.
    memory_limit_bytes
        Limit of the control group; None without one.
    hypervisor
        Name, "unknown", or None on bare metal.
    gpu_note
        Why there is no GPU in the list, if there is none.
    commit
        Commit of this code, ``+dirty`` with changes; "" if it is not a git checkout.
    """

    host: str
    system: str
    architecture: str
    cpu_model: str
    cpu_vendor: str
    cpu_family: int | None = None
    cpu_model_number: int | None = None
    microarchitecture: str = ""
    fma_pipes: int | None = None
    fma_pipe_bits: int | None = None
    logical_cores: int
    physical_cores: int | None = None
    affinity_cores: int
    quota_cores: float | None = None
    allowed_cores: int
    core_kinds: tuple[CoreKind, ...] = ()
    caches: tuple[Cache, ...] = ()
    simd_bits: int
    simd_flags: tuple[str, ...] = ()
    clock_hz: float | None = None
    clock_max_hz: float | None = None
    governor: str | None = None
    hypervisor: str | None = None
    memory_bytes: int
    memory_limit_bytes: int | None = None
    gpus: tuple[Gpu, ...] = ()
    gpu_note: str = ""
    software: dict[str, str] = field(default_factory=dict)
    commit: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values, as the manifest of a run stores them."""
        plain = dataclasses.asdict(self)
        return {key: list(value) if isinstance(value, tuple) else value for key, value in plain.items()}

    def cache_bytes(self, level: int) -> int | None:
        """Return the size of one cache of a level, in bytes, or None if it is not known."""
        return next((cache.size_bytes for cache in self.caches if cache.level == level), None)

    @property
    def last_level_cache(self) -> Cache | None:
        """The outermost cache of a core."""
        return self.caches[-1] if self.caches else None

    def last_level_bytes(self, threads: int | None = None) -> int | None:
        """Return the bytes of all last-level caches that some threads reach (default: the allowed cores).

        Threads may run on any cores, so as many caches are counted as there are sharers to fill: never too few.
        """
        cache = self.last_level_cache
        if cache is None:
            return None
        total = -(-self.logical_cores // max(1, cache.shared_by))
        return cache.size_bytes * min(threads or self.allowed_cores, total)

    @property
    def usable_memory_bytes(self) -> int:
        """Memory of the machine, or the control group's limit if that is smaller."""
        return min(self.memory_bytes, self.memory_limit_bytes or self.memory_bytes)


def inspect_machine(root: Path = Path("/")) -> Machine:
    """Look at this machine; nothing is started and no GPU context is made.

    Parameters
    ----------
    root
        Where ``proc`` and ``sys`` are; another folder in tests.
    """
    import psutil

    fields = cpuinfo_fields(root)
    identity = cpu_identity(fields)
    flags = simd_flags(fields)
    architecture = platform.machine()
    clock, clock_max = clocks_hz(fields, root)
    gpus, gpu_note = find_gpus(root)
    known = identify(identity, flags) or Microarchitecture("", None, None)
    return Machine(
        host=host_name(),
        system=f"{platform.system()} {platform.release()}",
        architecture=architecture,
        cpu_model=identity.model,
        cpu_vendor=identity.vendor,
        cpu_family=identity.family,
        cpu_model_number=identity.model_number,
        microarchitecture=known.name,
        fma_pipes=known.fma_pipes,
        fma_pipe_bits=known.fma_pipe_bits,
        logical_cores=os.cpu_count() or 1,
        physical_cores=psutil.cpu_count(logical=False),
        affinity_cores=affinity_cores(),
        quota_cores=cpu_quota(root),
        allowed_cores=allowed_cores(root),
        core_kinds=core_kinds(root),
        caches=caches(root),
        simd_bits=simd_bits(flags, architecture, root),
        simd_flags=flags,
        clock_hz=clock,
        clock_max_hz=clock_max,
        governor=governor(root),
        hypervisor=hypervisor(fields, root),
        memory_bytes=psutil.virtual_memory().total,
        memory_limit_bytes=memory_limit_bytes(root),
        gpus=gpus,
        gpu_note=gpu_note,
        software=software_versions(),
        commit=code_commit(),
    )
