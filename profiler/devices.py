"""What the engine needs from a device: time a callable, flush the last-level cache, wait for the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

Run = Callable[[], object]


class DeviceError(RuntimeError):
    """A device that does not exist here; the message says what does."""


@dataclass(frozen=True)
class Timing:
    """Seconds for one sample: on the device, and on the host that launched it (GPU only)."""

    device_s: float
    host_s: float | None = None


class Device(Protocol):
    """One device. ``run`` is a prepared implementation's callable, asynchronous on a GPU."""

    name: str
    title: str
    cache_bytes: int

    @property
    def method(self) -> dict[str, object]:
        """How this device is timed, with resolution and overheads in seconds; part of every row."""
        ...

    def sampler(self, runs: Sequence[Run]) -> Callable[[], Timing]:
        """Return a callable that takes one sample: the time of all ``runs`` in turn, to the end of their work."""
        ...

    def flush(self) -> None:
        """Leave nothing of the inputs in the last-level cache, and nothing that must be written back."""
        ...

    def synchronise(self) -> None:
        """Wait until all submitted work has ended."""
        ...

    def shortest_s(self) -> float:
        """Return the shortest sample whose timer error is negligible, in seconds."""
        ...

    def overhead_s(self) -> float:
        """Return the time that timing an empty callable shows, in seconds."""
        ...

    def verify_flush(self) -> dict[str, float]:
        """Return times of reading a buffer that fits the cache: ``warm_s``, ``cold_s`` after a flush."""
        ...


@cache
def get_device(name: str) -> Device:
    """Return a device by name, such as ``cpu`` or ``cuda:0``.

    Raises
    ------
    DeviceError
        If there is no such device on this machine, or its package is missing.
    """
    if name == "cpu":
        from .cpu_device import CpuDevice

        return CpuDevice()
    if re.fullmatch(r"cuda(:\d{1,4})?", name):
        from .cuda_device import CudaDevice

        return CudaDevice(name)
    raise DeviceError(f"device {name!r} is unknown; known are cpu and cuda:<number>")


def check_device(name: str) -> None:
    """Refuse a device that is not here; of the CPU nothing is loaded.

    Raises
    ------
    DeviceError
        If there is no such device on this machine, or its package is missing.
    """
    if name != "cpu":
        get_device(name)


# A read that misses costs several times one that hits; less than this means that the flush left the buffer cached.
_LEAST_MISS_RATIO = 1.5


@cache
def flush_evidence(device: Device) -> dict[str, float | bool]:
    """Verify a device's flush once per process: ``warm_s``, ``cold_s``, and whether it is ``effective``."""
    times = device.verify_flush()
    return {**times, "effective": times["cold_s"] >= _LEAST_MISS_RATIO * times["warm_s"]}
