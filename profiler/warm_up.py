"""Warm up until the running median is stable, not for a fixed number of calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .clock import now_ns
from .statistics import median

_WINDOW = 5
_TOLERANCE = 0.02
# A clock that rises under load needs tens of milliseconds to do so, however short one call is.
_LEAST_S = 0.05


@dataclass(frozen=True)
class WarmUp:
    """What warming up found; ``call_s`` is the median of its last calls."""

    calls: int
    seconds: float
    stable: bool
    call_s: float


def warm_up(sample: Callable[[], float], limit_s: float) -> WarmUp:
    """Call ``sample`` until the medians of its last two windows of five agree within 2 %, or the limit ends.

    Parameters
    ----------
    sample
        Takes one sample and returns its seconds.
    limit_s
        Longest warm-up in seconds; at least one call is made.
    """
    start = now_ns()
    times: list[float] = []
    while True:
        times.append(sample())
        elapsed = (now_ns() - start) * 1e-9
        latest = median(times[-_WINDOW:])
        stable = False
        if len(times) >= 2 * _WINDOW and elapsed >= min(_LEAST_S, limit_s):
            before = median(times[-2 * _WINDOW : -_WINDOW])
            stable = abs(latest - before) <= _TOLERANCE * before
        if stable or elapsed >= limit_s:
            return WarmUp(len(times), elapsed, stable, latest)
