"""Kernels that compete to be a ceiling, and the sampling that finds the best of them.

A ceiling judges other kernels, so it must be the best rate the machine gives again and again. Several kernels compete
in turns (so that drift hits all), the fastest is sampled until its median is known, and the row keeps

- ``value``: the median of the steadiest stretch, the best fifth of the samples in order of time (at least ten): a
  stretch in which the machine worked for somebody else does not make the ceiling low;
- ``low``: the lower end of that median's 95 % confidence interval;
- ``high``: the greatest rate seen in any sample of any candidate, which nothing sensible should pass. On shared
  machines the memory bandwidth changes with the neighbours, and a point above ``value`` but below ``high`` is possible.

For latencies the least time is the best one, so there ``low`` is the least sample and ``high`` the interval's end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..clock import calls_per_sample, now_ns
from ..devices import Device
from ..statistics import MedianInterval, median_interval
from ..stop_criteria import NarrowInterval, SampleLimit, TimeBudget, first_reason

_ROUNDS = 8
_CONTEST_SHARE = 0.4
_STRETCHES, _STRETCH_LEAST = 5, 10
# A few milliseconds may all lie in one turn of another process.
_LEAST_S = 0.4
# How far the best stretch may lie from the best sample, as a ratio, to be called steady, and to be unsteady.
_NEAR, _FAR = 1.1, 1.25


@dataclass(frozen=True)
class Candidate:
    """One kernel that may be the fastest.

    Parameters
    ----------
    label
        The kernel and how its work is counted, for the row's ``method``.
    run
        The work; everything it needs was made before.
    work
        Bytes, operations or steps of one call.
    working_set_bytes
        Bytes the kernel goes over; None for kernels that stay in registers.
    """

    label: str
    run: Callable[[], object]
    work: float
    working_set_bytes: int | None = None


@dataclass(frozen=True)
class Rates:
    """The winner's samples as rates (work per second), or as seconds per step for a latency."""

    winner: Candidate
    samples: list[float]
    value: float
    low: float
    high: float
    stop_reason: str


def sample_best(candidates: Sequence[Candidate], device: Device, budget_s: float, *, per_step: bool = False) -> Rates:
    """Let the candidates compete, then sample the fastest.

    Parameters
    ----------
    candidates
        At least one; each does ``work`` per call.
    device
        Times the calls.
    budget_s
        Seconds for all of it, compilation (the first calls) not counted.
    per_step
        Give seconds per unit of work instead of work per second.
    """
    samplers = [_sampler(candidate, device) for candidate in candidates]
    start = now_ns()
    best = [float("inf")] * len(candidates)
    for done in range(_ROUNDS):
        for index, sample in enumerate(samplers):
            best[index] = min(best[index], sample())
        if done and (now_ns() - start) * 1e-9 > _CONTEST_SHARE * budget_s:
            break
    winner = min(range(len(candidates)), key=best.__getitem__)
    chosen = candidates[winner]
    times: list[float] = []
    while not (reason := _reason(times, min(best), (now_ns() - start) * 1e-9, budget_s)):
        times.append(samplers[winner]())
    interval = best_stretch(times)
    least = min(*best, *times)
    if per_step:
        return Rates(chosen, times, interval.median, least, interval.high, reason)
    rates = [1 / seconds for seconds in times]
    return Rates(chosen, rates, 1 / interval.median, 1 / interval.high, 1 / least, reason)


def _reason(times: Sequence[float], best: float, elapsed_s: float, budget_s: float) -> str:
    """Return why to stop sampling, or "" to go on.

    A narrow interval far from the best time seen means that the machine was slowed all the while: then the budget is
    spent, and once more as much if even the best stretch stays slow.
    """
    if not times:
        return ""
    slow = best_stretch(times).median / min(best, *times)
    settled = slow <= _NEAR and elapsed_s >= min(_LEAST_S, budget_s / 2)
    if settled and (reason := first_reason((NarrowInterval(0.005, 20), SampleLimit(500)), times, elapsed_s)):
        return reason
    most = budget_s if slow <= _FAR else 2 * budget_s
    reason = first_reason((TimeBudget(most),), times, elapsed_s)
    return f"{reason}, unsteady: the best sample was {slow:.2f} times as fast" if reason and slow > _FAR else reason


def best_stretch(times: Sequence[float]) -> MedianInterval:
    """Return the median and its interval of the fastest stretch: a fifth of the samples in order, at least ten."""
    length = max(_STRETCH_LEAST, len(times) // _STRETCHES)
    starts = range(0, max(1, len(times) - length + 1), length)
    return min((median_interval(times[start : start + length]) for start in starts), key=lambda i: i.median)


def _sampler(candidate: Candidate, device: Device) -> Callable[[], float]:
    """Compile and touch everything, then return a callable that gives the seconds per unit of work of one sample."""
    candidate.run()
    device.synchronise()
    calls = calls_per_sample(device.sampler((candidate.run,))().device_s, device.shortest_s())
    sample = device.sampler((candidate.run,) * calls)
    return lambda: sample().device_s / (calls * candidate.work)
