"""Give a measured row its roofs, and refuse it if it is faster than the machine can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..profiler.schema import Measurement
from .ceilings import Ceiling, Ceilings
from .roofs import as_cost, bound_by, fraction_of_roof, work_by_ceiling

# A clock that differs by more than this between ceiling and case makes the two incomparable.
_CLOCK_TOLERANCE = 0.03
# A wide interval excuses a median this far above a roof, and no further.
_EXCUSED = 1.05
# Ends of an interval further apart than this speak of a disturbed machine.
_NOISY = 1.25
# A sample below this many seconds is near what host and device timers resolve with their call overhead.
_SHORT_SAMPLE_S = 2e-6


def judge(ceilings: Ceilings | Mapping[str, Ceilings]) -> Callable[[Measurement], Measurement]:
    """Return a function that adds ``roofs_s``, ``bound_by`` and ``fraction_of_roof`` to a correct row.

    A row becomes ``above_roof``, with the likely cause in its message, if its confidence interval lies wholly above
    the best that was seen of a measured ceiling, or if its median does by more than 5 %. Rows of devices without
    measured ceilings pass unchanged.

    Parameters
    ----------
    ceilings
        Measured ceilings of one device, or of several by the device's name.
    """
    by_device = {ceilings.device: ceilings} if isinstance(ceilings, Ceilings) else dict(ceilings)

    def judged(row: Measurement) -> Measurement:
        known = by_device.get(row.device)
        if known is None or row.status not in ("ok", "above_roof") or row.median_s is None or not row.cost:
            return row
        work = work_by_ceiling(as_cost(row.cost), known, row.cache_state)
        work = {name: pair for name, pair in work.items() if pair[1].origin == "measured"}
        times = {name: amount / ceiling.value for name, (amount, ceiling) in work.items()}
        longest = min(row.ci95_high_s or row.median_s, row.median_s * _EXCUSED)
        least = {name: amount / ceiling.limit for name, (amount, ceiling) in work.items()}
        broken = {name: time / row.median_s for name, time in least.items() if time > longest}
        update: dict[str, object] = {
            "roofs_s": times,
            "bound_by": bound_by(times),
            "fraction_of_roof": fraction_of_roof(times, row.median_s),
            "status": "ok",
            "message": "" if row.status == "above_roof" else row.message,
        }
        if broken:
            worst = max(broken, key=lambda name: broken[name])
            update["status"] = "above_roof"
            update["message"] = (
                f"{row.median_s:.3g} s is {times[worst] / row.median_s:.2f} times as fast as the measured "
                f"{worst} allows ({times[worst]:.3g} s); likely cause: {likely_cause(row, work[worst][1], known)}"
            )
        return row.model_copy(update=update)

    return judged


def likely_cause(row: Measurement, ceiling: Ceiling, ceilings: Ceilings) -> str:
    """Name the likeliest reason for a row faster than ``ceiling``, and what to do about it."""
    level = ceiling.name.partition(".")[0]
    held = ceilings.capacities.get(ceilings.last_level, 0.0)
    total = as_cost(row.cost).dram_bytes
    if row.median_s is not None and row.median_s * row.calls_per_sample < _SHORT_SAMPLE_S:
        return "the sample is as short as the timer's own error; time more calls per sample"
    if row.ci95_low_s and row.ci95_high_s and row.ci95_high_s > _NOISY * row.ci95_low_s:
        return (
            f"the machine was disturbed while sampling, the interval goes from {row.ci95_low_s:.3g} to "
            f"{row.ci95_high_s:.3g} s; measure again on a quiet machine"
        )
    if ceiling.throttled:
        return "the ceiling was measured while the device throttled; measure the ceilings again"
    if ceiling.clock_hz and row.state.clock_hz and row.state.clock_hz > ceiling.clock_hz * (1 + _CLOCK_TOLERANCE):
        return (
            f"the clock was {row.state.clock_hz / ceiling.clock_hz:.2f} times higher than while the ceiling was "
            "measured; measure the ceilings again"
        )
    if level == "dram" and row.cache_state == "cold" and held and total <= 2 * held:
        return (
            f"the set of {total / 2**20:.3g} MiB fits the last-level cache ({held / 2**20:.3g} MiB) at least in part, "
            "so the flush before a sample did not make it cold; take a larger workload"
        )
    if level in ("llc", "l2"):
        return "the set fits a cache closer to the cores; take a larger workload or compare it cold"
    if level == "dram":
        return (
            "the cost counts bytes that the implementation need not move, or other work slowed the machine while "
            "the ceiling was measured; check the operator's cost, then measure the ceilings again"
        )
    return (
        "the cost counts work that the implementation need not do, or the kernel that measured the ceiling is not "
        "this unit's fastest; check the operator's cost, then measure the ceilings again"
    )
