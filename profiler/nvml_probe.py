"""Read an NVIDIA GPU's state through NVML, found by its UUID and not by an index that the environment changes."""

from __future__ import annotations

from typing import Any

# Bits of nvmlClocksEventReasons that mean the clock is held below what was asked for (nvml.h, CUDA 12). Idle and
# application clocks, the other bits, are not limits.
_REASONS = {
    0x04: "software power cap",
    0x08: "hardware slowdown",
    0x10: "synchronised boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
_NVML_CLOCK_SM = 1
_NVML_TEMPERATURE_GPU = 0


class NvmlProbe:
    """One GPU by UUID; ``nvml`` replaces the module pynvml in tests."""

    def __init__(self, uuid: str, nvml: Any = None) -> None:
        self._nvml = nvml
        self._handle: Any = None
        self.energy_note = ""
        try:
            if self._nvml is None:
                import pynvml

                self._nvml = pynvml
            self._nvml.nvmlInit()
            self._handle = self._nvml.nvmlDeviceGetHandleByUUID(uuid)
            self.energy_note = "NVML total energy counter"
        except Exception as error:
            self.energy_note = f"NVML does not answer for {uuid} ({error})"

    def _ask(self, function: str, *arguments: object) -> Any:
        """Return an answer, or None where this GPU or driver does not give it."""
        if self._handle is None:
            return None
        try:
            return getattr(self._nvml, function)(self._handle, *arguments)
        except Exception:
            return None

    def clock_hz(self) -> float | None:
        """Return the clock of the multiprocessors."""
        megahertz = self._ask("nvmlDeviceGetClockInfo", _NVML_CLOCK_SM)
        return None if megahertz is None else megahertz * 1e6

    def temperature_c(self) -> float | None:
        """Return the core's temperature."""
        return self._ask("nvmlDeviceGetTemperature", _NVML_TEMPERATURE_GPU)

    def power_w(self) -> float | None:
        """Return the present power draw of the board."""
        milliwatts = self._ask("nvmlDeviceGetPowerUsage")
        return None if milliwatts is None else milliwatts * 1e-3

    def throttle_reasons(self) -> list[str]:
        """Return what limits the clock now."""
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        if bits is None:
            bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons") or 0
        return [name for bit, name in _REASONS.items() if bits & bit]

    def energy_j(self) -> float | None:
        """Return joules since the driver was loaded; None without a counter (before the Volta generation)."""
        millijoules = self._ask("nvmlDeviceGetTotalEnergyConsumption")
        return None if millijoules is None else millijoules * 1e-3


def cuda_uuid(index: int) -> str:
    """Return the UUID of the GPU that torch calls ``cuda:<index>``, as NVML writes it."""
    import torch

    return f"GPU-{torch.cuda.get_device_properties(index).uuid}"
