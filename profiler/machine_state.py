"""The state of the machine around one case: clock, temperature, power, throttling, load, stolen time, energy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from .cases import device_kind
from .schema import MachineState

# Idle power is read over this long a rest: many ticks of the slowest counter (NVML's, about 0.1 s).
_IDLE_S = 2.0


class Probe(Protocol):
    """Reads one device's sensors; what cannot be read is None."""

    energy_note: str

    def clock_hz(self) -> float | None: ...
    def temperature_c(self) -> float | None: ...
    def power_w(self) -> float | None: ...
    def throttle_reasons(self) -> list[str]: ...
    def energy_j(self) -> float | None: ...


@cache
def probe_of(device: str) -> Probe:
    """Return the probe of a device such as ``cpu`` or ``cuda:0``."""
    if device_kind(device) == "cpu":
        from .cpu_probe import CpuProbe

        return CpuProbe()
    from .nvml_probe import NvmlProbe, cuda_uuid

    return NvmlProbe(cuda_uuid(int(device.partition(":")[2] or 0)))


@cache
def idle_power_w(probe: Probe, seconds: float = _IDLE_S) -> float | None:
    """Return the device's power at rest, read once per process over some seconds; None without a counter."""
    before, start = probe.energy_j(), time.monotonic()
    if before is None:
        return None
    time.sleep(seconds)
    after = probe.energy_j()
    return None if after is None else (after - before) / (time.monotonic() - start)


@dataclass(frozen=True)
class Energy:
    """Energy per call: above idle, and with it; None where it cannot be read, with the reason in ``note``."""

    above_idle_j: float | None
    total_j: float | None
    power_w: float | None
    note: str


def read_energy(probe: Probe, burn: Callable[[float], int], seconds: float, idle_s: float = _IDLE_S) -> Energy:
    """Read the energy of a case by repeating it.

    Parameters
    ----------
    burn
        Repeats the case for some seconds and returns how often.
    seconds
        Length of the window, many ticks of the counter; 0 reads nothing.
    idle_s
        How long the device rests, once per process, for the idle power that is subtracted.
    """
    if seconds <= 0:
        return Energy(None, None, None, "energy was not asked for")
    if probe.energy_j() is None:
        return Energy(None, None, None, probe.energy_note)
    idle_w = idle_power_w(probe, idle_s)
    before, start = probe.energy_j(), time.monotonic()
    calls = burn(seconds)
    elapsed, after = time.monotonic() - start, probe.energy_j()
    if before is None or after is None or idle_w is None or after <= before:
        return Energy(None, None, None, f"{probe.energy_note}: the counter did not move within {elapsed:.1f} s")
    spent = after - before
    note = f"{probe.energy_note}; {calls} calls in {elapsed:.1f} s, idle {idle_w:.1f} W"
    return Energy((spent - idle_w * elapsed) / calls, spent / calls, spent / elapsed, note)


class StateWatch:
    """Watches the machine while one case is sampled."""

    def __init__(self, device: str, probe: Probe | None = None) -> None:
        self._device = device
        self._given_probe = probe
        self._reasons: dict[str, None] = {}

    def start(self) -> None:
        """Begin: what happened before does not count."""
        self._probe = self._given_probe or probe_of(self._device)
        self._probe.throttle_reasons()
        self._times = _cpu_times()

    def throttled_since_last_look(self) -> bool:
        """Return whether the device limited its clock since the last call, and remember why."""
        reasons = self._probe.throttle_reasons()
        self._reasons.update(dict.fromkeys(reasons))
        return bool(reasons)

    def stop(self, burn: Callable[[float], int], energy_s: float, *, throttled: bool) -> MachineState:
        """Return the state; ``burn`` repeats the case for some seconds while energy is read.

        Parameters
        ----------
        throttled
            Whether samples that were kept were taken under throttling.
        """
        probe = self._probe
        clock, temperature, power = probe.clock_hz(), probe.temperature_c(), probe.power_w()
        total, steal = _cpu_times()
        spent = total - self._times[0]
        energy = read_energy(probe, burn, energy_s)
        return MachineState(
            clock_hz=clock,
            temperature_c=temperature,
            power_w=energy.power_w if energy.power_w is not None else power,
            throttled=throttled,
            throttle_reasons=list(self._reasons),
            load_average=os.getloadavg()[0],
            steal_fraction=min(1.0, max(0.0, (steal - self._times[1]) / spent)) if spent > 0 else None,
            energy_j=energy.above_idle_j,
            energy_total_j=energy.total_j,
            energy_note=energy.note,
        )


def _cpu_times() -> tuple[float, float]:
    """Return total and stolen CPU seconds of the host since boot."""
    import psutil

    times = psutil.cpu_times()
    # Guest time is contained in user time (proc(5)).
    guest = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return sum(times) - guest, getattr(times, "steal", 0.0)
