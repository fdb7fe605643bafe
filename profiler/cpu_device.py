"""The CPU as a device: monotonic clock, and a cache flush that reaches every core."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from .clock import clock_facts, now_ns, time_calls
from .devices import Run, Timing
from .machine import inspect_machine
from .statistics import median

_FALLBACK_CACHE_BYTES = 64 << 20
# Replacement is not strictly least-recently-used, so the sweep covers more than the cache holds.
_SWEEP_FACTOR = 2
_LINE_BYTES = 64


def core_ids() -> list[int]:
    """Return the numbers of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        with contextlib.suppress(OSError):
            return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


class _Sweeper:
    """One pinned thread per core, each reading its share of a buffer larger than the cache.

    Reading, not writing: a written line would have to be written back while the next sample is timed. Every core
    sweeps, because private caches and separate last-level caches are out of reach of the others.
    """

    def __init__(self, cores: list[int], cache_bytes: int) -> None:
        # Each core reads all of a buffer that replaces the cache it shares; where cores share one cache the
        # buffers add up to more than needed, so the share is divided, but never below a core's private caches.
        share = max(_SWEEP_FACTOR * cache_bytes // len(cores), 4 << 20)
        self._parts = [np.ones(share // 8, dtype=np.int64) for _ in cores]
        self._pool = ThreadPoolExecutor(len(cores), thread_name_prefix="roofcast-flush")
        self._cores = cores

    def sweep(self) -> None:
        list(self._pool.map(self._sweep_part, self._cores, self._parts))

    @staticmethod
    def _sweep_part(core: int, part: npt.NDArray[np.int64]) -> None:
        with contextlib.suppress(AttributeError, OSError):
            os.sched_setaffinity(0, {core})
        np.maximum.reduce(part)


class CpuDevice:
    """The cores that this process may use, as one device."""

    def __init__(self) -> None:
        self.name = "cpu"
        machine = inspect_machine()
        self.title = machine.cpu_model
        self.cache_bytes = machine.last_level_bytes() or _FALLBACK_CACHE_BYTES
        self.method: dict[str, object] = {
            "timer": "perf_counter_ns",
            "timer_resolution_s": clock_facts().resolution_s,
            "timer_overhead_s": clock_facts().overhead_s,
        }
        self._sweeper: _Sweeper | None = None

    def sampler(self, runs: Sequence[Run]) -> Callable[[], Timing]:
        """Return a callable that takes one sample: the wall time of all ``runs`` in turn."""
        return lambda: Timing(time_calls(runs))

    def flush(self) -> None:
        """Sweep a buffer larger than the last-level cache on every core."""
        if self._sweeper is None:
            self._sweeper = _Sweeper(core_ids(), self.cache_bytes)
        self._sweeper.sweep()

    def synchronise(self) -> None:
        """Return at once: calls on the CPU end before they return."""

    def shortest_s(self) -> float:
        """Return the shortest sample whose timer error is negligible, in seconds."""
        return clock_facts().shortest_s

    def overhead_s(self) -> float:
        """Return the time that timing an empty callable shows, in seconds."""
        return clock_facts().overhead_s

    def verify_flush(self) -> dict[str, float]:
        """Time reads of one word per cache line, in random order so that prefetching cannot hide a miss.

        The buffer is an eighth of the last-level cache; ``warm_s`` follows another read of it, ``cold_s`` a flush.
        """
        lines = max(self.cache_bytes // 8 // _LINE_BYTES, 1024)
        words = np.ones(lines * _LINE_BYTES // 8, dtype=np.int64)
        order = np.random.default_rng(0).permutation(lines) * (_LINE_BYTES // 8)
        out = np.empty(lines, dtype=np.int64)

        def read() -> float:
            start = now_ns()
            np.take(words, order, out=out, mode="clip")
            return (now_ns() - start) * 1e-9

        read()
        warm = min(read() for _ in range(15))  # The least: whatever else runs here evicts lines too.
        cold = []
        for _ in range(5):
            self.flush()
            # The order itself was flushed too; it is read in sequence, which costs little beside the misses.
            cold.append(read())
        return {"warm_s": warm, "cold_s": median(cold)}
