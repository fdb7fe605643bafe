"""The state of the machine around one case: clock, temperature, power, throttling, load, stolen time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from .cases import device_kind
from .schema import MachineState

_THROTTLE_COUNTERS = "devices/system/cpu/cpu*/thermal_throttle/*_throttle_count"


class StateWatch:
    """Reads the machine's state while a case is sampled; what cannot be read stays null.

    Parameters
    ----------
    device
        Name of the device, such as ``cpu`` or ``cuda:0``.
    sys_root
        Where the kernel's files are; another folder in tests.
    """

    def __init__(self, device: str, sys_root: Path = Path("/sys")) -> None:
        self._kind = device_kind(device)
        self._sys_root = sys_root
        self._reasons: dict[str, None] = {}
        self._counts: dict[str, int] = {}

    def start(self) -> None:
        """Begin: what happened before does not count."""
        self._counts = self._throttle_counts()
        self._times = _cpu_times()

    def throttled_since_last_look(self) -> bool:
        """Return whether the device limited its clock since the last call."""
        counts = self._throttle_counts()
        grown = [name for name, count in counts.items() if count > self._counts.get(name, count)]
        self._counts = counts
        self._reasons.update(dict.fromkeys(grown))
        return bool(grown)

    def stop(self, burn: Callable[[float], int], energy_s: float, *, throttled: bool) -> MachineState:
        """Return the state; ``burn`` repeats the case for some seconds while energy is read."""
        import psutil

        frequency = psutil.cpu_freq() if self._kind == "cpu" else None
        before, after = self._times, _cpu_times()
        spent = after[0] - before[0]
        return MachineState(
            clock_hz=frequency.current * 1e6 if frequency else None,
            throttled=throttled,
            throttle_reasons=list(self._reasons),
            load_average=os.getloadavg()[0],
            steal_fraction=(after[1] - before[1]) / spent if spent > 0 else None,
            energy_note="no energy counter is readable",
        )

    def _throttle_counts(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for path in self._sys_root.glob(_THROTTLE_COUNTERS):
            name = path.name.removesuffix("_throttle_count") + " thermal limit"
            counts[name] = counts.get(name, 0) + int(path.read_text())
        return counts


def _cpu_times() -> tuple[float, float]:
    """Return total and stolen CPU seconds of the host since boot."""
    import psutil

    times = psutil.cpu_times()
    return sum(times), getattr(times, "steal", 0.0)
