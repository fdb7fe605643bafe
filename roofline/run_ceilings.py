"""The measured ceilings of every device of a run, with what the manifest knows of the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..profiler.store import Run
from .ceilings import Ceilings, from_rows, machine_capacities

# Architecture by compile target, as hardware profiles name it (NVIDIA compute capabilities, AMD gfx numbers).
_ARCHITECTURES = {
    "sm_70": "volta",
    "sm_75": "turing",
    "sm_80": "ampere",
    "sm_86": "ampere",
    "sm_89": "ada",
    "sm_90": "hopper",
    "sm_100": "blackwell",
    "sm_103": "blackwell_ultra",
    "sm_107": "rubin",
    "sm_120": "rtx_blackwell",
    "gfx90a": "cdna2",
    "gfx942": "cdna3",
    "gfx950": "cdna4",
}


def ceilings_of_run(run: Run) -> dict[str, Ceilings]:
    """Return the measured ceilings by device name, for every device that a row of the run names."""
    devices = dict.fromkeys(row.device for row in [*run.measurement_rows, *run.ceiling_rows])
    return {device: _ceilings(run, device) for device in devices}


def _ceilings(run: Run, device: str) -> Ceilings:
    machine = run.manifest.machine
    titles = [row.device_name for row in [*run.measurement_rows, *run.ceiling_rows] if row.device == device]
    title = next((t for t in titles if t), device)
    return from_rows(
        run.ceiling_rows,
        device=device,
        capacities=machine_capacities(machine, device),
        title=title,
        architecture=_architecture(machine, device),
    )


def _architecture(machine: Mapping[str, Any], device: str) -> str:
    if device.startswith("cpu"):
        return str(machine.get("microarchitecture") or machine.get("architecture") or "")
    gpus = machine.get("gpus") or []
    index = int(device.partition(":")[2] or 0)
    target = gpus[index].get("compile_target", "") if index < len(gpus) else ""
    return _ARCHITECTURES.get(str(target).rstrip("af"), "")
