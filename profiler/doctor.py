"""What works on this machine, and what to do about what does not."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

Level = Literal["ok", "note", "missing"]


@dataclass(frozen=True)
class Finding:
    """One thing looked at: its state, what was seen, and a remedy where there is one."""

    name: str
    level: Level
    seen: str
    remedy: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def examine() -> list[Finding]:
    """Look at everything a run needs or gains from; nothing raises, a fault becomes a finding."""
    return [_guarded(name, look) for name, look in _LOOKS.items()]


def _guarded(name: str, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except Exception as error:
        return Finding(name, "missing", f"{type(error).__name__}: {error}")


def _python() -> Finding:
    return Finding("python", "ok", f"{platform.python_version()} at {sys.executable}")


def _numba() -> Finding:
    numba = importlib.import_module("numba")
    compiled = numba.njit(lambda x: x + 1)
    if compiled(1) != 2:
        return Finding("numba", "missing", f"numba {numba.__version__} compiles wrong code", "reinstall numba")
    return Finding("numba", "ok", f"{numba.__version__}, compiles for {platform.machine()}")


def _torch() -> Finding:
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return Finding("torch", "note", "not installed: no torch baselines", "pip install 'roofcast[torch]'")
    torch = importlib.import_module("torch")
    build = torch.version.cuda or torch.version.hip or "CPU"
    has_gpu = torch.cuda.is_available()
    if build == "CPU" and Path("/dev/nvidiactl").exists():
        remedy = "install torch's CUDA build: README, Installation, TORCH_FLAGS"
        return Finding("torch", "note", f"{version} is a CPU build, but this machine has an NVIDIA driver", remedy)
    return Finding("torch", "ok", f"{version} ({build} build), GPU {'usable' if has_gpu else 'none'}")


def _triton() -> Finding:
    try:
        version = metadata.version("triton")
    except metadata.PackageNotFoundError:
        return Finding("triton", "note", "not installed: no Triton kernels", "pip install 'roofcast[triton]'")
    if tuple(int(part) for part in version.split(".")[:2]) < (3, 9):
        remedy = "upgrade triton to 3.9 or newer to compile for Rubin"
        return Finding("triton", "note", f"{version}: cannot compile for sm_107", remedy)
    return Finding("triton", "ok", f"{version}, compiles for sm_80 to sm_120, gfx942 and gfx950 without a GPU")


def _nvdisasm() -> Finding:
    try:
        version = metadata.version("nvidia-cuda-nvdisasm")
    except metadata.PackageNotFoundError:
        seen = "not installed: instructions of sm_107 kernels cannot be read"
        return Finding("nvdisasm", "note", seen, "pip install 'roofcast[sass]'")
    return Finding("nvdisasm", "ok", version)


def _gpus() -> Finding:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        seen = f"none visible through NVML ({error}); kernels are measured on the CPU and projected"
        return Finding("gpus", "note", seen)
    names = [str(pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(i))) for i in range(_gpu_count())]
    pynvml.nvmlShutdown()
    return Finding("gpus", "ok", ", ".join(names) or "none")


def _gpu_count() -> int:
    import pynvml

    return int(pynvml.nvmlDeviceGetCount())


def _cores() -> Finding:
    from .machine import allowed_cores

    allowed, present = allowed_cores(), os.cpu_count() or 1
    if allowed < present:
        return Finding("cores", "note", f"{allowed} of {present} may be used (affinity or cgroup quota)")
    return Finding("cores", "ok", f"all {present} may be used")


def _load() -> Finding:
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > 0.3 * cores:
        return Finding("load", "note", f"load average {load:.2f} on {cores} cores", "stop other work while measuring")
    return Finding("load", "ok", f"load average {load:.2f} on {cores} cores")


def _blas_overrides() -> Finding:
    found = [name for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE") if name in os.environ]
    if found:
        seen = f"{' and '.join(found)} set: numpy's matmul runs slower than it could"
        return Finding("blas", "note", seen, "unset them to compare with numpy")
    return Finding("blas", "ok", "no override in the environment")


def _energy() -> Finding:
    zones = sorted(Path("/sys/class/powercap").glob("intel-rapl:*/energy_uj"))
    if not zones:
        return Finding("energy", "note", "no RAPL counters here (usual in a virtual machine): energy is null")
    if not os.access(zones[0], os.R_OK):
        return Finding("energy", "note", "RAPL counters are not readable", f"sudo chmod a+r {zones[0]}")
    return Finding("energy", "ok", f"{len(zones)} RAPL zones readable")


def _run_folder() -> Finding:
    here = Path.cwd()
    if not os.access(here, os.W_OK):
        return Finding("output", "note", f"{here} is not writable", "choose a folder with --out")
    return Finding("output", "ok", f"run folders go to {here / 'runs'}")


_LOOKS: dict[str, Callable[[], Finding]] = {
    "python": _python,
    "numba": _numba,
    "torch": _torch,
    "triton": _triton,
    "nvdisasm": _nvdisasm,
    "gpus": _gpus,
    "cores": _cores,
    "load": _load,
    "blas": _blas_overrides,
    "energy": _energy,
    "output": _run_folder,
}
