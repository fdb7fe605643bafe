"""A projection: the interval, what it stands on, and the chain that led to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..kernels.contract import Cost
from ..profiler.schema import Measurement
from .basis import BasisName
from .ceilings import Ceiling, Ceilings
from .efficiency import Efficiency
from .forecast import Forecast
from .roofs import CacheState, work_by_ceiling
from .targets import Target


@dataclass(frozen=True, kw_only=True)
class Projection:
    """The time of a workload on a device that is not at hand.

    Parameters
    ----------
    id
        Short and stable within a run: ``P1``, ``P2`` ... in the order of the rows and targets; "" before it is kept.
    operator, workload, implementation, backend, cache_state
        What is projected; ``implementation`` is "" where no row was measured.
    source_key, source_device
        Key of the measured row that the projection starts from; "" for `specification_only`.
    time_low_s, time_mid_s, time_high_s
        Seconds: an 80 % band as far as its factors were tested (see ``factors``) and its middle.
    basis
        What the projection stands on.
    bound_by
        Ceiling of the target with the largest term, or ``overhead``.
    roof_s
        Least time under the target's attained ceilings, without overhead, at efficiency 1.
    overhead_s, efficiency
        Fixed time, and the efficiency used on the resource that bounds.
    terms
        Per resource of the target: work, ceiling, roof, efficiency and where it comes from, time.
    factors
        The reasons for the band's width, each with origin and source.
    sources
        Titles of the profile's sources that the ceilings cite, by key.
    formula
        The middle time, with its numbers in place.
    """

    id: str = ""
    operator: str
    workload: Mapping[str, Any] = field(default_factory=dict)
    implementation: str = ""
    backend: str = ""
    cache_state: CacheState = "cold"
    target: str
    target_title: str
    source_key: str = ""
    source_device: str = ""
    source_time_s: float | None = None
    source_efficiency: float | None = None
    time_low_s: float
    time_mid_s: float
    time_high_s: float
    basis: BasisName
    bound_by: str
    roof_s: float
    overhead_s: float
    efficiency: float
    terms: tuple[dict[str, Any], ...] = ()
    factors: tuple[dict[str, Any], ...] = ()
    sources: Mapping[str, Any] = field(default_factory=dict)
    formula: str = ""
    notes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """``<operator>@<target>``."""
        return f"{self.operator}@{self.target}"


@dataclass(frozen=True)
class Origin:
    """The measured row that a projection starts from, the device it ran on and its efficiency there."""

    row: Measurement
    source: Ceilings
    share: Efficiency


def write_down(
    cost: Cost,
    target: Target,
    cache_state: CacheState,
    forecast: Forecast,
    *,
    operator: str,
    workload: Mapping[str, Any],
    start: Origin | None = None,
) -> Projection:
    """Order the interval, hold it above what the device could do at best, and keep the chain."""
    work = work_by_ceiling(cost, target.attained["mid"], cache_state)
    # Warm, the capacity of the target's cache is a guess too, so its roof is no hard limit.
    limits = [amount / target.specified[name].limit for name, (amount, _) in work.items()]
    least = max(limits, default=0.0) if cache_state == "cold" else 0.0
    low = max(forecast.low_s, least)
    mid = max(forecast.mid_s, low)
    high = max(forecast.high_s, mid)
    terms = sorted((_term(name, *pair, target, forecast) for name, pair in work.items()), key=lambda t: -t["time_s"])
    fixed_first = not terms or terms[0]["time_s"] < forecast.overhead_s
    cited = " ".join(str(term["source"]) for term in terms)
    return Projection(
        operator=operator,
        workload=dict(workload),
        implementation=start.row.implementation if start else "",
        backend=start.row.backend if start else "",
        cache_state=cache_state,
        target=target.name,
        target_title=target.title,
        source_key=start.row.key if start else "",
        source_device=start.source.title if start else "",
        source_time_s=start.row.median_s if start else None,
        source_efficiency=start.share.value if start else None,
        time_low_s=low,
        time_mid_s=mid,
        time_high_s=high,
        basis=forecast.basis,
        bound_by="overhead" if fixed_first else terms[0]["resource"],
        roof_s=max((term["roof_s"] for term in terms), default=0.0),
        overhead_s=forecast.overhead_s,
        efficiency=terms[0]["efficiency"] if terms else 1.0,
        terms=tuple(terms),
        factors=tuple(factor.as_dict() for factor in forecast.factors),
        sources={key: source for key, source in target.sources.items() if key in cited},
        formula=forecast.formula,
        notes=_notes(cost, target, cache_state, held=low > forecast.low_s),
    )


def _term(name: str, amount: float, ceiling: Ceiling, target: Target, forecast: Forecast) -> dict[str, Any]:
    """Return one resource's line: work, ceiling as specified and attained, roof, efficiency, time."""
    specified = target.specified[name]
    efficiency, why = forecast.shares[name]
    roof_s = amount / ceiling.value
    return {
        "resource": name,
        "work": amount,
        "unit": ceiling.unit.removesuffix("/s"),
        "ceiling": ceiling.value,
        "ceiling_low": target.attained["low"][name].value,
        "ceiling_high": target.attained["high"][name].value,
        "specified": specified.value,
        "specified_low": specified.low,
        "specified_high": specified.high,
        "origin": specified.origin,
        "source": ceiling.source,
        "note": specified.note,
        "roof_s": roof_s,
        "efficiency": efficiency,
        "efficiency_from": why,
        "time_s": roof_s / efficiency if roof_s else 0.0,
    }


def _notes(cost: Cost, target: Target, cache_state: CacheState, *, held: bool) -> tuple[str, ...]:
    notes = []
    if held:
        notes.append("the low end is held at the roof of the specified peaks, which nothing can beat")
    if cache_state == "warm" and target.attained["mid"].last_level not in target.attained["mid"].capacities:
        notes.append(f"the cache of {target.title} is of unknown size, so the set is taken to come from memory")
    if cost.exponentials and "exp.fp32" not in target.specified:
        notes.append(f"no exponential rate of {target.title} is known")
    return tuple(notes)
