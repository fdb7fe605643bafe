"""Where ceilings are measured: device, machine and threads, with what is found out once for all of them."""

from __future__ import annotations

from dataclasses import dataclass

from ..devices import Device
from ..machine import Machine
from .working_set import Level, levels, seen_levels, sweep_sizes

_SWEEP_ROUNDS = 6


@dataclass
class Setting:
    """The frame of a number of ceilings that share their threads."""

    device: Device
    machine: Machine
    threads: int
    _clock_hz: float | None = None
    _sweep: list[tuple[int, float]] | None = None

    def clock_hz(self) -> float:
        """Return the clock of a busy core, measured once."""
        if self._clock_hz is None:
            from .cpu_clock import measure_clock_hz

            self._clock_hz = measure_clock_hz()
        return self._clock_hz

    @property
    def has_swept(self) -> bool:
        """Whether the sweep was measured already."""
        return self._sweep is not None

    def sweep(self) -> list[tuple[int, float]]:
        """Return working set in bytes and read bandwidth in bytes/s, by size, over all threads; measured once."""
        if self._sweep is None:
            from .cpu_bandwidth import Buffers

            sizes = sweep_sizes(self.machine, self.threads)
            buffers = Buffers("read", sizes[-1], self.threads)
            candidates = [buffers.read_within(size) for size in sizes]
            samplers = [self.device.sampler((candidate.run,)) for candidate in candidates]
            candidates[0].run()
            # Over and over the whole range, so that a disturbance does not hit all samples of one size.
            rounds = [[sample().device_s for sample in samplers] for _ in range(_SWEEP_ROUNDS)]
            best = [min(times) for times in zip(*rounds, strict=True)]
            self._sweep = [
                (candidate.working_set_bytes or 0, candidate.work / seconds)
                for candidate, seconds in zip(candidates, best, strict=True)
            ]
        return self._sweep

    def seen_levels(self) -> list[Level]:
        """Return the memory levels whose knee the sweep shows."""
        return seen_levels(levels(self.machine, self.threads), self.sweep())
