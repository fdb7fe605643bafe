"""Efficiency of a measured case per resource, with the fixed overhead taken off first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..profiler.schema import Measurement
from .ceilings import Ceilings
from .roofs import as_cost, bound_by, roofs
from .tables import class_of_operator, load_table

# The constant that does not scale is this share of the fastest measured row (see PROJECTION: overhead split).
_FLOOR_SHARE = 0.9


@dataclass(frozen=True)
class Efficiency:
    """What a measured row says about its implementation on the source device.

    Parameters
    ----------
    time_s, overhead_s
        The row's median, and the part of it that does not shrink on faster hardware.
    roofs_s
        Least times under the source's ceilings.
    shares
        ``roof / (time - overhead)`` by resource: the efficiency of the one that bounds the row, and for the others
        the least that it can be.
    """

    time_s: float
    overhead_s: float
    overhead_note: str
    roofs_s: Mapping[str, float]
    shares: Mapping[str, float]
    bound_by: str

    @property
    def value(self) -> float:
        """Efficiency on the resource that bounds the row."""
        return self.shares[self.bound_by]


def overhead(row: Measurement, source: Ceilings, group: Sequence[Measurement]) -> tuple[float, str]:
    """Return the fixed time in a row, seconds, and how it was found.

    On a GPU it is at most 0.9 of the fastest row of the same operator and implementation, and at most the floor of
    the operator's class of kernels. On a CPU it is the time of a parallel region.
    """
    time_s = row.median_s or 0.0
    launches = int(as_cost(row.cost).launches)
    if source.kind == "cpu":
        entry = load_table("bands")["cpu_overhead"]
        measured = source.get("launch.parallel")
        each = measured.value if measured else entry["seconds"]
        how = measured.source if measured else f"{entry['origin']}: a parallel region of {entry['seconds']:g} s"
        return min(each * launches, entry["largest_share"] * time_s), how
    kind = class_of_operator(row.operator)
    same = [
        r.median_s for r in group if r.median_s and (r.operator, r.implementation) == (row.operator, row.implementation)
    ]
    fastest = min(same, default=time_s)
    floor = kind.floor(launches)
    if floor <= _FLOOR_SHARE * fastest:
        return floor, f"floor of the class {kind.name}: {kind.title}"
    return _FLOOR_SHARE * fastest, f"{_FLOOR_SHARE:g} x the fastest row of {row.operator} {row.implementation}"


def efficiency(row: Measurement, source: Ceilings, group: Sequence[Measurement] = ()) -> Efficiency | None:
    """Return a measured row's efficiency, or None if no ceiling of the source bounds it.

    Parameters
    ----------
    group
        Other rows of the same device, for the overhead.
    """
    if row.median_s is None or row.status != "ok" or not row.cost:
        return None
    times = roofs(row.cost, source, row.cache_state)
    bound = bound_by(times)
    if bound is None:
        return None
    fixed, note = overhead(row, source, group or [row])
    rest = row.median_s - fixed
    shares = {name: time / rest for name, time in times.items()}
    return Efficiency(row.median_s, fixed, note, times, shares, bound)


def same_resource(name: str, among: Mapping[str, Any]) -> str | None:
    """Return the entry of ``among`` that stands for the same resource as ``name``, or None.

    A source may bound memory by ``dram.read`` and the target by ``dram.copy``, or a CPU by ``llc.read`` and a GPU by
    ``l2.read``; matrix work may run on the vector units of one and the matrix units of the other.
    """
    if name in among:
        return name
    family = _family(name)
    return next((other for other in among if _family(other) == family), None)


def _family(name: str) -> str:
    level = name.partition(".")[0]
    return {"llc": "cache", "l2": "cache", "matrix": "arithmetic", "vector": "arithmetic"}.get(level, level)
