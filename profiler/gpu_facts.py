"""The GPUs of this machine, found without starting CUDA or HIP in this process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .host_text import read_text

# Vendor ids of the PCI Special Interest Group's list.
_AMD = "0x1002"


@dataclass(frozen=True)
class Gpu:
    """One GPU; what the driver does not tell is None.

    Parameters
    ----------
    uuid
        The driver's lasting name; indices change with CUDA_VISIBLE_DEVICES and with CUDA_DEVICE_ORDER.
    compile_target
        ``sm_90``, ``gfx942``, ... or "" if unknown.
    visible
        Whether the environment lets CUDA or HIP see it.
    """

    uuid: str
    name: str
    vendor: str
    memory_bytes: int | None = None
    compile_target: str = ""
    driver: str = ""
    power_limit_w: float | None = None
    clock_max_hz: float | None = None
    memory_clock_max_hz: float | None = None
    visible: bool = True


def find_gpus(root: Path = Path("/")) -> tuple[tuple[Gpu, ...], str]:
    """Return the GPUs through NVML, then AMD's through the kernel, and a sentence on what was looked for."""
    nvidia, note = _through_nvml()
    amd = _through_kfd(root)
    if nvidia or amd:
        return (*nvidia, *amd), note if not nvidia and "no NVIDIA driver" not in note else ""
    return (), note


def _through_nvml() -> tuple[list[Gpu], str]:
    try:
        import pynvml
    except ImportError:
        return [], "nvidia-ml-py is not installed, so NVIDIA GPUs were not looked for"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return [], f"no NVIDIA driver answers ({error})"
    try:
        driver = _text(_ask(pynvml.nvmlSystemGetDriverVersion))
        count = int(_ask(pynvml.nvmlDeviceGetCount) or 0)
        found = [_nvidia(pynvml, index, driver) for index in range(count)]
        return [gpu for gpu in found if gpu is not None], "" if count else "the NVIDIA driver sees no GPU"
    finally:
        pynvml.nvmlShutdown()


def _nvidia(nvml: Any, index: int, driver: str) -> Gpu | None:
    handle = _ask(nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return None
    memory = _ask(nvml.nvmlDeviceGetMemoryInfo, handle)
    capability = _ask(nvml.nvmlDeviceGetCudaComputeCapability, handle)
    power = _ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    clock = _ask(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM)
    memory_clock = _ask(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_MEM)
    uuid = _text(_ask(nvml.nvmlDeviceGetUUID, handle))
    return Gpu(
        uuid=uuid,
        name=_text(_ask(nvml.nvmlDeviceGetName, handle)) or "NVIDIA GPU",
        vendor="NVIDIA",
        memory_bytes=None if memory is None else int(memory.total),
        compile_target="" if capability is None else f"sm_{capability[0]}{capability[1]}",
        driver=driver,
        power_limit_w=None if power is None else power / 1e3,
        clock_max_hz=None if clock is None else clock * 1e6,
        memory_clock_max_hz=None if memory_clock is None else memory_clock * 1e6,
        visible=is_visible(index, uuid, os.environ.get("CUDA_VISIBLE_DEVICES")),
    )


def is_visible(index: int, uuid: str, setting: str | None) -> bool:
    """Return whether CUDA_VISIBLE_DEVICES lets a GPU be seen (indices or beginnings of UUIDs; all if not set).

    As in CUDA, the list ends at the first entry that is not valid.
    """
    if setting is None:
        return True
    for entry in (part.strip() for part in setting.split(",")):
        if entry == str(index) or (entry.startswith(("GPU-", "MIG-")) and uuid.startswith(entry)):
            return True
        if not (entry.isdigit() or entry.startswith(("GPU-", "MIG-"))):
            return False
    return False


def _through_kfd(root: Path) -> list[Gpu]:
    """Read AMD's compute driver in /sys: nodes with SIMD units are GPUs, the others are CPUs."""
    found = []
    driver = read_text(root / "sys/module/amdgpu/version")
    for folder in sorted((root / "sys/class/kfd/kfd/topology/nodes").glob("[0-9]*"), key=lambda path: int(path.name)):
        facts = dict(line.split(maxsplit=1) for line in read_text(folder / "properties").splitlines() if " " in line)
        if not facts.get("simd_count", "0").isdigit() or int(facts.get("simd_count", "0")) == 0:
            continue
        version = int(facts.get("gfx_target_version", "0"))
        target = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else ""
        banks = [read_text(bank / "properties") for bank in (folder / "mem_banks").glob("[0-9]*")]
        sizes = [
            int(line.split()[1]) for bank in banks for line in bank.splitlines() if line.startswith("size_in_bytes ")
        ]
        clock = facts.get("max_engine_clk_fcompute", "0")
        found.append(
            Gpu(
                uuid=f"GPU-{int(facts.get('unique_id', '0')):016x}",
                name=_amd_product(root, facts) or read_text(folder / "name") or "AMD GPU",
                vendor="AMD",
                memory_bytes=sum(sizes) or None,
                compile_target=target,
                driver=driver,
                clock_max_hz=float(clock) * 1e6 if clock.isdigit() and int(clock) else None,
            )
        )
    return found


def _amd_product(root: Path, facts: dict[str, str]) -> str:
    minor = facts.get("drm_render_minor", "")
    device = root / f"sys/class/drm/renderD{minor}/device"
    return read_text(device / "product_name") if read_text(device / "vendor") == _AMD else ""


def _ask(question: Any, *arguments: Any) -> Any:
    """Return NVML's answer, or None: on many boards (and in containers) single questions are not supported."""
    try:
        return question(*arguments)
    except Exception:
        return None


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")
