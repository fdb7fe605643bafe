"""Roofs: the least time a workload needs under each ceiling of a device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from ..kernels.contract import Cost
from .ceilings import Ceiling, Ceilings

CacheState = Literal["cold", "warm"]

# Precisions that can do the work of a narrower one without loss, widest last.
_ABLE: dict[str, tuple[str, ...]] = {
    "nvfp4": ("nvfp4", "fp8", "fp16", "bf16", "fp32", "fp64"),
    "mxfp4": ("mxfp4", "nvfp4", "fp8", "fp16", "bf16", "fp32", "fp64"),
    "fp6": ("fp6", "fp8", "fp16", "bf16", "fp32", "fp64"),
    "fp8": ("fp8", "fp16", "bf16", "fp32", "fp64"),
    "int8": ("int8", "bf16", "fp16", "fp32", "fp64"),
    "bf16": ("bf16", "fp32", "fp64"),
    "fp16": ("fp16", "fp32", "fp64"),
    "tf32": ("tf32", "fp32", "fp64"),
    "fp32": ("fp32", "fp64"),
    "fp64": ("fp64",),
}
# Share of written bytes of each access kind: copy reads as much as it writes, triad reads two and writes one.
_WRITTEN_SHARE = {"read": 0.0, "triad": 1 / 3, "copy": 1 / 2, "write": 1.0}


def as_cost(cost: Cost | Mapping[str, Any]) -> Cost:
    """Return a cost, also from the plain values that a measurement row stores."""
    return cost if isinstance(cost, Cost) else Cost(**cost)


def able_rates(work: str) -> list[str]:
    """Return the names of the rates able to do ``<unit>.<precision>`` work.

    Matrix-shaped work may run on matrix or vector units of its own or a wider precision, elementwise work on
    vector units only.
    """
    unit, _, precision = work.partition(".")
    units = ("matrix", "vector") if unit == "matrix" else (unit,)
    return [f"{u}.{p}" for u in units for p in _ABLE.get(precision, (precision,))]


def applicable_bandwidth(accesses: Mapping[str, Ceiling], read_bytes: float, write_bytes: float) -> Ceiling | None:
    """Return the bandwidth, over the sum of both, that bounds a mix of reads and writes.

    It lies between those of the access kinds next to the mix on either side, by the share of writes, and bears the
    nearer one's name. Reads alone are taken to be at least as fast as the reads within a copy or triad were, and writes
    alone likewise, so that the roof never claims that the hardware could not do what it was seen to do.
    """
    known = {kind: ceiling for kind, ceiling in accesses.items() if kind in _WRITTEN_SHARE}
    total = read_bytes + write_bytes
    if not known or total <= 0:
        return None
    for direction in {"read", "write"} & known.keys():
        known[direction] = max(_alone(known, direction), key=lambda c: c.value)
    share = write_bytes / total
    by_share = {_WRITTEN_SHARE[kind]: ceiling for kind, ceiling in known.items()}
    below = max((s for s in by_share if s <= share), default=min(by_share))
    above = min((s for s in by_share if s >= share), default=max(by_share))
    part = (share - below) / (above - below) if above > below else 0.0
    nearer, other = by_share[below], by_share[above]
    if part > 0.5:
        nearer, other, part = other, nearer, 1 - part
    between = {n: (1 - part) * getattr(nearer, n) + part * getattr(other, n) for n in ("value", "low", "high", "limit")}
    return replace(nearer, **between)


def _alone(known: Mapping[str, Ceiling], direction: str) -> Iterator[Ceiling]:
    """Yield the bandwidths of reads (or writes) alone, as seen within each kind of access that has some."""
    for kind, seen in known.items():
        part = _WRITTEN_SHARE[kind] if direction == "write" else 1 - _WRITTEN_SHARE[kind]
        if part == 1.0:
            yield seen
        elif part > 0.0:
            scaled = {name: getattr(seen, name) * part for name in ("value", "low", "high", "limit")}
            note = "; ".join(filter(None, (seen.note, f"the {direction}s within {seen.name}")))
            yield replace(seen, name=known[direction].name, note=note, **scaled)


def work_by_ceiling(cost: Cost, ceilings: Ceilings, cache_state: CacheState) -> dict[str, tuple[float, Ceiling]]:
    """Return the work that each ceiling must carry, by the ceiling's name, in the ceiling's own unit of work."""
    work: dict[str, tuple[float, Ceiling]] = {}

    def add(amount: float, ceiling: Ceiling | None) -> None:
        if ceiling is not None and amount > 0:
            work[ceiling.name] = (work.get(ceiling.name, (0.0, ceiling))[0] + amount, ceiling)

    for name, count in cost.flops.items():
        add(count, ceilings.best(able_rates(name)))
    add(cost.exponentials, ceilings.get("exp.fp32"))
    add(cost.compares, ceilings.get("compare.fp32"))
    add(cost.link_bytes, ceilings.get("link.scaleup") or ceilings.get("link.nvlink"))
    for level, amount in _bytes_by_level(cost, ceilings, cache_state).items():
        reads, writes = cost.read_bytes.get(level), cost.write_bytes.get(level)
        if reads is None or writes is None:
            reads, writes = cost.read_bytes["dram"], cost.write_bytes["dram"]
        add(amount, applicable_bandwidth(ceilings.accesses(level), reads, writes))
    return work


def _bytes_by_level(cost: Cost, ceilings: Ceilings, cache_state: CacheState) -> dict[str, float]:
    """Return the bytes that must cross each memory level.

    Cold, all compulsory bytes come from the outermost level. Warm, what a cache can hold is served by the cache: a
    set within the last level by that level alone, a larger one's excess by the outermost. A set within the caches
    inside a CPU's last level has no memory roof unless their bandwidth is known.
    """
    total, last = cost.dram_bytes, ceilings.last_level
    explicit = {
        level: cost.read_bytes.get(level, 0.0) + cost.write_bytes.get(level, 0.0)
        for level in {*cost.read_bytes, *cost.write_bytes} - {"dram"}
    }
    if cache_state == "cold":
        return {"dram": total, **explicit}
    held = ceilings.capacities.get(last, 0.0)
    inner = ceilings.capacities.get("l2", 0.0) if last == "llc" else 0.0
    levels = {"dram": max(0.0, total - held)}
    if total <= inner:
        levels["l2"] = total
    else:
        levels[last] = total
    return {**levels, **explicit}


def roofs(
    cost: Cost | Mapping[str, Any],
    ceilings: Ceilings,
    cache_state: CacheState = "cold",
    capacities: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return the least time in seconds under each ceiling that the workload meets, by the ceiling's name.

    Parameters
    ----------
    cost
        The work, as `kernels.Cost` or as a row stores it.
    cache_state
        ``cold``: the inputs come from the outermost level. ``warm``: what fits a cache is in it.
    capacities
        Bytes by memory level, instead of those of ``ceilings``.
    """
    if capacities is not None:
        ceilings = replace(ceilings, capacities=capacities)
    work = work_by_ceiling(as_cost(cost), ceilings, cache_state)
    return {name: amount / ceiling.value for name, (amount, ceiling) in work.items()}


def bound_by(times: Mapping[str, float]) -> str | None:
    """Return the name of the largest roof, or None if there is none."""
    return max(times, key=lambda name: times[name], default=None)


def fraction_of_roof(times: Mapping[str, float], time_s: float) -> float | None:
    """Return the largest roof over a time: 1.0 is the roof itself."""
    name = bound_by(times)
    return times[name] / time_s if name is not None and time_s > 0 else None
