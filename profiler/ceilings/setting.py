"""Where ceilings are measured: device, machine and threads, with what is found out once for all of them."""

from __future__ import annotations

from dataclasses import dataclass

from ..devices import Device
from ..machine import Machine
from .working_set import Level, levels, seen_levels, sweep_sizes

_SWEEP_SAMPLES = 3


@dataclass
class Setting:
    """The frame of a number of ceilings that share their threads."""

    device: Device
    machine: Machine
    threads: int
    budget_s: float
    _clock_hz: float | None = None
    _sweep: list[tuple[int, float]] | None = None

    def clock_hz(self) -> float:
        """Return the clock of a busy core, measured once."""
        if self._clock_hz is None:
            from .cpu_clock import measure_clock_hz

            self._clock_hz = measure_clock_hz()
        return self._clock_hz

    def sweep(self) -> list[tuple[int, float]]:
        """Return working set in bytes and read bandwidth in bytes/s, by size, over all threads; measured once."""
        if self._sweep is None:
            from .cpu_bandwidth import bandwidth_candidates

            points = []
            for size in sweep_sizes(self.machine, self.threads):
                (candidate,) = bandwidth_candidates("read", size, self.threads, in_cache=True)
                candidate.run()
                sample = self.device.sampler((candidate.run,))
                seconds = min(sample().device_s for _ in range(_SWEEP_SAMPLES))
                points.append((candidate.working_set_bytes or size, candidate.work / seconds))
            self._sweep = points
        return self._sweep

    def seen_levels(self) -> list[Level]:
        """Return the memory levels whose knee the sweep shows."""
        return seen_levels(levels(self.machine, self.threads), self.sweep())
