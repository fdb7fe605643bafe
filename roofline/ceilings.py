"""A device's named ceilings, measured on it or specified for it, each with its range and source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from ..profiler.schema import CeilingRow

# A best sample this far above the median speaks of a disturbed machine.
_DISTURBED = 1.1

Origin = Literal["measured", "specified", "attained", "derived", "assumed"]


@dataclass(frozen=True)
class Ceiling:
    """One limit of a device.

    Parameters
    ----------
    name
        ``dram.read``, ``l2.read``, ``vector.fp32``, ``matrix.bf16``, ``exp.fp32``, ``link.nvlink`` ...
    value, low, high
        In ``unit`` (bytes/s, FLOP/s, op/s or s). A measured ceiling's range is the 95 % confidence interval of
        its median, a specified one's the range over which its sources disagree.
    origin
        ``measured`` on the device, ``specified`` by its maker, ``attained`` (specified times the share that the
        best kernels reach), ``derived`` from another ceiling, or ``assumed``.
    source
        Where the value comes from, in words or as a profile's source key.
    limit
        The largest value ever seen or claimed: nothing may be faster than this. Default ``high``.
    throttled, clock_hz
        State of the device while the ceiling was measured; None if not known.
    """

    name: str
    value: float
    low: float
    high: float
    unit: str
    origin: Origin
    source: str
    note: str = ""
    limit: float = 0.0
    throttled: bool | None = None
    clock_hz: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.value <= self.high:
            raise ValueError(
                f"ceiling {self.name}: low {self.low:g}, value {self.value:g}, high {self.high:g}: "
                "give positive numbers in this order"
            )
        object.__setattr__(self, "limit", max(self.limit, self.high))

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that a projection's chain shows, as plain JSON values."""
        names = ("name", "value", "low", "high", "unit", "origin", "source", "note")
        return {name: getattr(self, name) for name in names}


class FigureLike(Protocol):
    """What is read of a figure of a hardware profile."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def unit(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def note(self) -> str: ...


class ProfileLike(Protocol):
    """What is read of a device's hardware profile (`hwprofiles.DeviceProfile`)."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def vendor(self) -> str: ...
    @property
    def architecture(self) -> str: ...
    def ceilings(self) -> Mapping[str, FigureLike]: ...
    def capacities(self) -> Mapping[str, FigureLike]: ...
    def links(self) -> Mapping[str, FigureLike]: ...


@dataclass(frozen=True)
class Ceilings:
    """All ceilings of one device, and the sizes of its memory levels.

    Parameters
    ----------
    device
        ``cpu``, ``cuda:0`` or a profile's name.
    kind
        ``cpu`` or ``gpu``.
    capacities
        Bytes by memory level: ``dram``, and the caches ``llc`` (CPU) or ``l2``; on a CPU ``l2`` is the sum of the
        private caches of the threads used.
    """

    device: str
    title: str
    kind: str
    vendor: str = ""
    architecture: str = ""
    named: Mapping[str, Ceiling] = field(default_factory=dict)
    capacities: Mapping[str, float] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.named

    def __getitem__(self, name: str) -> Ceiling:
        return self.named[name]

    def get(self, name: str) -> Ceiling | None:
        """Return a ceiling, or None if the device has no such figure."""
        return self.named.get(name)

    def best(self, names: Iterable[str]) -> Ceiling | None:
        """Return the fastest of those ceilings that are known, or None."""
        return max((self.named[n] for n in names if n in self.named), key=lambda c: c.value, default=None)

    def accesses(self, level: str) -> dict[str, Ceiling]:
        """Return a memory level's bandwidths by kind of access: ``read``, ``write``, ``copy``, ``triad``."""
        prefix = f"{level}."
        return {name.removeprefix(prefix): c for name, c in self.named.items() if name.startswith(prefix)}

    @property
    def last_level(self) -> str:
        """Name of the outermost cache level: ``llc`` on a CPU, ``l2`` on a GPU."""
        return "llc" if self.kind == "cpu" else "l2"

    def replaced(self, more: Mapping[str, Ceiling]) -> Ceilings:
        """Return a copy in which ``more`` are added or replaced."""
        return replace(self, named={**self.named, **more})


def from_rows(
    rows: Iterable[CeilingRow],
    *,
    device: str = "cpu",
    capacities: Mapping[str, float] | None = None,
    title: str = "",
    architecture: str = "",
) -> Ceilings:
    """Collect a device's measured ceilings; failures are left out and the latest row of a name wins.

    A ceiling is the median of its samples. Where the best sample is more than a tenth above it, other work slowed the
    machine down, which can only lower what was seen, and the best sample is the ceiling.
    """
    named: dict[str, Ceiling] = {}
    for row in rows:
        if row.device != device:
            continue
        title = title or row.device_name
        if row.status != "ok" or row.value is None or row.value <= 0:
            continue
        best = max((*row.samples, row.high or row.value, row.value))
        disturbed = row.unit != "s" and best > _DISTURBED * row.value
        value = best if disturbed else row.value
        note = f"best of {len(row.samples)} samples; their median, {row.value:.4g}, was disturbed" if disturbed else ""
        named[row.name] = Ceiling(
            name=row.name,
            value=value,
            low=min(row.low or value, value),
            high=max(row.high or value, value),
            unit=row.unit,
            origin="measured",
            source=f"measured on {row.device_name or row.device}",
            note="; ".join(part for part in (row.method, note) if part),
            limit=best,
            throttled=row.state.throttled,
            clock_hz=row.state.clock_hz,
        )
    kind = "cpu" if device.startswith("cpu") else "gpu"
    vendor = next((v for v in ("NVIDIA", "AMD", "Intel") if v.lower() in title.lower()), "")
    return Ceilings(device, title or device, kind, vendor, architecture, named, dict(capacities or {}))


def from_profile(profile: ProfileLike) -> Ceilings:
    """Collect the ceilings that a hardware profile specifies, its links included."""
    named: dict[str, Ceiling] = {}
    figures: dict[str, FigureLike] = dict(profile.ceilings())
    for name, figure in profile.links().items():
        figures.setdefault(name if name.startswith("link.") else f"link.{name}", figure)
    for name, figure in figures.items():
        named[name] = Ceiling(
            name=name,
            value=figure.value,
            low=figure.low,
            high=figure.high,
            unit=figure.unit,
            origin="specified",
            source=f"{profile.name}: {figure.source}",
            note=figure.note,
        )
    capacities = {name: figure.value for name, figure in profile.capacities().items()}
    return Ceilings(profile.name, profile.title, profile.kind, profile.vendor, profile.architecture, named, capacities)


def machine_capacities(machine: Mapping[str, Any], device: str = "cpu") -> dict[str, float]:
    """Return the bytes of each memory level from a manifest's ``machine``.

    Every last-level cache that the allowed cores may reach is counted, so that a set said not to fit does not.
    """
    if not device.startswith("cpu"):
        gpus = machine.get("gpus") or []
        index = int(device.partition(":")[2] or 0)
        memory = gpus[index].get("memory_bytes") if index < len(gpus) else None
        return {"dram": float(memory)} if memory else {}
    capacities: dict[str, float] = {}
    caches = sorted(machine.get("caches") or [], key=lambda c: c["level"])
    threads = int(machine.get("allowed_cores") or 1)
    logical = int(machine.get("logical_cores") or threads)
    for cache in caches:
        copies = min(threads, -(-logical // max(1, int(cache["shared_by"]))))
        outermost = cache is caches[-1]
        name = "llc" if outermost else f"l{cache['level']}"
        capacities[name] = float(cache["size_bytes"]) * copies
    if memory := machine.get("memory_bytes"):
        capacities["dram"] = float(memory)
    return capacities
