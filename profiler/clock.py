"""The host's monotonic clock: what it can resolve and what reading it costs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from .statistics import median

now_ns = time.perf_counter_ns
_READINGS = 2001
# A timer error of at most this share of a sample needs neither batching nor correction.
NEGLIGIBLE = 0.01


@dataclass(frozen=True)
class ClockFacts:
    """Resolution and overhead of timing one call on the host, in seconds."""

    resolution_s: float
    overhead_s: float

    @property
    def shortest_s(self) -> float:
        """The shortest sample whose timer error is negligible."""
        return max(self.resolution_s, self.overhead_s) / NEGLIGIBLE


def time_calls(runs: Sequence[Callable[[], object]]) -> float:
    """Return the seconds that calling each of ``runs`` in turn takes together."""
    start = now_ns()
    for run in runs:
        run()
    return (now_ns() - start) * 1e-9


def _nothing() -> None:
    pass


@cache
def clock_facts() -> ClockFacts:
    """Measure the clock once per process.

    The resolution is the smallest step seen between successive readings; the overhead is the median time that an
    empty Python function appears to take, which is what every sample contains beside its work.
    """
    steps = []
    for _ in range(_READINGS):
        start = now_ns()
        while (end := now_ns()) == start:
            pass
        steps.append(end - start)
    empty = [time_calls((_nothing,)) for _ in range(_READINGS)]
    return ClockFacts(resolution_s=min(steps) * 1e-9, overhead_s=median(empty))


def calls_per_sample(call_s: float, shortest_s: float) -> int:
    """Return how many calls of ``call_s`` seconds make a sample of at least ``shortest_s`` seconds."""
    if call_s >= shortest_s:
        return 1
    return max(1, math.ceil(shortest_s / max(call_s, 1e-9)))
