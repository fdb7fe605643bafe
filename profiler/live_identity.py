"""Match the devices of this machine with hardware profiles, or measure a profile of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..hwprofiles import DeviceProfile, load, names, user_directory
from ..hwprofiles.identity import Identification, ObservedCpu, identify_cpu, identify_gpu
from ..hwprofiles.probe import profile_from_measurements, slug, write_profile
from .live_gpu import observe_gpus
from .machine import Machine, inspect_machine
from .times import utc_now

_VENDORS = {"GenuineIntel": "intel", "AuthenticAMD": "amd"}


@dataclass(frozen=True)
class Identity:
    """A device of this machine and its identification."""

    device: str
    found: Identification

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as plain JSON values."""
        return {
            "device": self.device,
            "status": self.found.status,
            "profile": self.found.profile.name if self.found.profile else None,
            "seen": self.found.seen,
            "words": list(self.found.words),
            "ceilings": {name: figure.as_dict() for name, figure in self.found.ceilings().items()},
        }


def identify_machine(machine: Machine | None = None, nvml: Any = None) -> list[Identity]:
    """Return the identity of the CPU and of every NVIDIA GPU or MIG slice of this machine."""
    machine = machine or inspect_machine()
    gpus = [Identity(gpu.uuid or "gpu", identify_gpu(gpu)) for gpu in observe_gpus(nvml)]
    return [Identity("cpu", identify_cpu(observed_cpu(machine))), *gpus]


def observed_cpu(machine: Machine) -> ObservedCpu:
    """Return what the profiles are matched by: model, and the cores that affinity and quota leave."""
    usable = min(float(machine.affinity_cores), machine.quota_cores or float("inf"))
    cores = machine.physical_cores or machine.logical_cores
    # Two hardware threads of one core add little arithmetic, so they count as one core.
    threads_per_core = max(1, machine.logical_cores // cores)
    fast = sum(kind.count for kind in machine.core_kinds[:1]) if len(machine.core_kinds) > 1 else None
    return ObservedCpu(
        name=machine.cpu_model, cores=cores, usable_cores=usable / threads_per_core, performance_cores=fast
    )


def probe_device(
    device: str = "cpu",
    *,
    name: str | None = None,
    directory: Path | None = None,
    replace: bool = False,
    full: bool = False,
    progress: Callable[[str], object] | None = None,
) -> Path:
    """Measure a device's ceilings, write them as a profile and return its path.

    Raises
    ------
    FileExistsError
        If there is a profile of that name in the directory and ``replace`` is false; nothing is measured then.
    DeviceError
        If there is no such device.
    """
    from .ceilings import ceiling_names, measure_ceilings

    machine = inspect_machine()
    facts = dict(_facts(device, machine))
    name = slug(name or facts["title"])
    directory = directory or user_directory()
    if (directory / f"{name}.yaml").exists() and not replace:
        raise FileExistsError(
            17, "exists already; give --replace to overwrite it or --name for another", str(directory / f"{name}.yaml")
        )
    wanted = ceiling_names(device, full=full, machine=machine)
    rows = list(measure_ceilings(device, names=wanted, progress=progress, machine=machine))
    text = profile_from_measurements(rows, name=name, date=utc_now()[:10], **facts)
    return write_profile(text, directory, name, replace=replace)


def architecture_of(compile_target: str) -> str:
    """Return the architecture that the shipped GPUs of a compile target have, or ``unknown``."""
    gpus = (load(name) for name in names("gpu"))
    found = (gpu for gpu in gpus if isinstance(gpu, DeviceProfile) and gpu.compile_target == compile_target)
    return next((gpu.architecture for gpu in found), "unknown")


def _facts(device: str, machine: Machine) -> Iterator[tuple[str, Any]]:
    if device == "cpu":
        yield from {
            "title": f"{machine.cpu_model} ({machine.allowed_cores} cores)",
            "kind": "cpu",
            "vendor": _VENDORS.get(machine.cpu_vendor, machine.cpu_vendor.lower() or "unknown"),
            "architecture": machine.microarchitecture.lower().replace(" ", "") or "unknown",
            "cores": machine.allowed_cores,
            "memory_bytes": machine.usable_memory_bytes,
            "llc_bytes": machine.last_level_bytes(),
            "device_name": machine.cpu_model,
        }.items()
        return
    import torch

    shown = torch.cuda.get_device_properties(device)
    cuda = torch.version.cuda is not None
    target = f"sm_{shown.major}{shown.minor}" if cuda else getattr(shown, "gcnArchName", "").split(":")[0]
    yield from {
        "title": shown.name,
        "kind": "gpu",
        "vendor": "nvidia" if cuda else "amd",
        "architecture": architecture_of(target),
        "compile_target": target,
        "sms": shown.multi_processor_count,
        "memory_bytes": shown.total_memory,
        "device_name": shown.name,
    }.items()
