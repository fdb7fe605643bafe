"""Where measured rows stand in a roofline: intensity, rate, and the rate at their own roof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..profiler.schema import Measurement
from .roofs import as_cost


@dataclass(frozen=True)
class Point:
    """One row in a roofline.

    Parameters
    ----------
    intensity
        Operations per compulsory byte of main memory.
    rate, rate_low, rate_high
        Operations per second: from the median, and from its 95 % confidence interval.
    roof_rate
        Operations per second at the row's own largest roof, whichever ceiling that is; None without one.
    refused
        Whether the row is above a roof, and therefore no result.
    """

    row: Measurement
    intensity: float
    rate: float
    rate_low: float
    rate_high: float
    roof_rate: float | None
    refused: bool


def roofline_points(rows: Sequence[Measurement]) -> list[Point]:
    """Return the points of the rows that have a time: results, and those refused as above a roof.

    Operations are FLOP; an operator without any is counted by its exponentials and comparisons.
    """
    points = []
    for row in rows:
        if row.status not in ("ok", "above_roof") or not row.median_s or not row.cost:
            continue
        cost = as_cost(row.cost)
        operations = cost.total_flops or cost.exponentials + cost.compares
        if operations <= 0 or cost.dram_bytes <= 0:
            continue
        roof_s = max(row.roofs_s.values(), default=0.0)
        points.append(
            Point(
                row=row,
                intensity=operations / cost.dram_bytes,
                rate=operations / row.median_s,
                rate_low=operations / (row.ci95_high_s or row.median_s),
                rate_high=operations / (row.ci95_low_s or row.median_s),
                roof_rate=operations / roof_s if roof_s > 0 else None,
                refused=row.status == "above_roof",
            )
        )
    return points


def shape_labels(rows: Sequence[Measurement]) -> dict[str, str]:
    """Return by case key the fields in which an operator's workloads differ; "" where it has only one."""
    labels: dict[str, str] = {}
    for operator in {row.operator for row in rows}:
        same = [row for row in rows if row.operator == operator]
        differing = [name for name in same[0].workload if len({repr(row.workload.get(name)) for row in same}) > 1]
        for row in same:
            labels[row.key] = ", ".join(f"{name}={row.workload.get(name)}" for name in differing)
    return labels
