"""What NVML says of each NVIDIA GPU or MIG slice, in the form that a hardware profile is matched by.

Devices are told apart by UUID, because indices change with CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.
"""

from __future__ import annotations

from typing import Any

from ..hwprofiles.identity import ObservedGpu

# FP32 lanes per SM by compute capability; NVML counts lanes. CUDA programming guide, table of arithmetic throughput.
_LANES = {(8, 0): 64}
_LANES_DEFAULT = 128


def observe_gpus(nvml: Any = None) -> list[ObservedGpu]:
    """Return the NVIDIA GPUs of this machine; MIG slices instead of a GPU that is divided.

    Parameters
    ----------
    nvml
        A module like ``pynvml`` (default: that one). Without it or without a driver the list is empty.
    """
    if nvml is None:
        try:
            import pynvml as nvml
        except ImportError:
            return []
    if not _ask(_start, nvml):
        return []
    try:
        found: list[ObservedGpu] = []
        for index in range(int(_ask(nvml.nvmlDeviceGetCount) or 0)):
            handle = _ask(nvml.nvmlDeviceGetHandleByIndex, index)
            if handle is not None:
                found += _mig_slices(nvml, handle) or [_whole(nvml, handle)]
        return found
    finally:
        _ask(nvml.nvmlShutdown)


def observe_gpu(uuid: str, nvml: Any = None) -> ObservedGpu | None:
    """Return the GPU or slice of a UUID; a UUID without its ``GPU-`` (as torch writes it) is understood."""
    wanted = uuid.lower().removeprefix("gpu-")
    return next((gpu for gpu in observe_gpus(nvml) if gpu.uuid.lower().removeprefix("gpu-") == wanted), None)


def _start(nvml: Any) -> bool:
    nvml.nvmlInit()
    return True


def _whole(nvml: Any, handle: Any) -> ObservedGpu:
    capability = _capability(nvml, handle)
    lanes = _ask(nvml.nvmlDeviceGetNumGpuCores, handle)
    memory = _ask(nvml.nvmlDeviceGetMemoryInfo, handle)
    limit = _ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    default = _ask(nvml.nvmlDeviceGetPowerManagementDefaultLimit, handle)
    clock_max = _ask(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM)
    clock_set = _ask(nvml.nvmlDeviceGetApplicationsClock, handle, nvml.NVML_CLOCK_SM)
    return ObservedGpu(
        name=_text(_ask(nvml.nvmlDeviceGetName, handle)),
        uuid=_text(_ask(nvml.nvmlDeviceGetUUID, handle)),
        sms=None if lanes is None else int(lanes) // _LANES.get(capability or (0, 0), _LANES_DEFAULT),
        memory_mib=None if memory is None else int(memory.total) >> 20,
        bus_bits=_ask(nvml.nvmlDeviceGetMemoryBusWidth, handle),
        compute_capability=capability,
        power_limit_w=None if limit is None else limit / 1e3,
        power_default_w=None if default is None else default / 1e3,
        clock_limit_hz=None if clock_set is None else clock_set * 1e6,
        clock_max_hz=None if clock_max is None else clock_max * 1e6,
    )


def _mig_slices(nvml: Any, handle: Any) -> list[ObservedGpu]:
    mode = _ask(nvml.nvmlDeviceGetMigMode, handle)
    if mode is None or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return []
    found = []
    for index in range(int(_ask(nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0)):
        part = _ask(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        attributes = None if part is None else _ask(nvml.nvmlDeviceGetAttributes, part)
        memory = None if part is None else _ask(nvml.nvmlDeviceGetMemoryInfo, part)
        total = _ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        if attributes is None or memory is None or total is None:
            continue
        eighths = max(1, min(8, round(8 * memory.total / total.total)))
        found.append(
            ObservedGpu(
                name=_text(_ask(nvml.nvmlDeviceGetName, handle)),
                uuid=_text(_ask(nvml.nvmlDeviceGetUUID, part)),
                sms=int(attributes.multiprocessorCount),
                memory_mib=int(memory.total) >> 20,
                bus_bits=_ask(nvml.nvmlDeviceGetMemoryBusWidth, handle),
                compute_capability=_capability(nvml, handle),
                mig_slices=(int(attributes.gpuInstanceSliceCount), eighths),
            )
        )
    return found


def _capability(nvml: Any, handle: Any) -> tuple[int, int] | None:
    capability = _ask(nvml.nvmlDeviceGetCudaComputeCapability, handle)
    return None if capability is None else (int(capability[0]), int(capability[1]))


def _ask(question: Any, *arguments: Any) -> Any:
    """Return NVML's answer, or None: on many boards (and in containers) single questions are not supported."""
    try:
        return question(*arguments)
    except Exception:
        return None


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")
