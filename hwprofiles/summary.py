"""One line per profile, for lists."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .catalogue import entries, load
from .display import short
from .errors import ProfileError, UnknownProfileError, nearest
from .profile import DeviceProfile, SystemProfile

_KINDS = ("gpu", "cpu", "tpu", "system")


@dataclass(frozen=True)
class Summary:
    """A profile in short; texts are for people, counts are of its own file's figures."""

    name: str
    title: str
    kind: str
    vendor: str
    status: str
    memory: str = ""
    bandwidth: str = ""
    bf16: str = ""
    power: str = ""
    figures: int = 0
    low_confidence: int = 0
    ranges: int = 0
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return asdict(self)


def summaries(*, kind: str | None = None, vendor: str | None = None) -> list[Summary]:
    """Return the profiles of a kind and a vendor (default: all) in short, sorted by kind and name.

    A profile that cannot be read is listed with its problem, so that one bad file of a user hides no other.

    Raises
    ------
    UnknownProfileError
        If no profile is of that kind or vendor.
    """
    known = entries()
    vendors = {entry.vendor for entry in known.values() if entry.vendor}
    if kind is not None and kind not in _KINDS:
        raise UnknownProfileError(f"unknown kind {kind!r}; {nearest(kind, _KINDS)}")
    made = [_summary(name) for name in sorted(known)]
    if vendor is not None:
        vendors |= {row.vendor for row in made}
        if vendor.lower() not in vendors:
            raise UnknownProfileError(f"unknown vendor {vendor!r}; {nearest(vendor, vendors)}")
        made = [row for row in made if row.vendor == vendor.lower()]
    made = [row for row in made if kind in (None, row.kind)]
    return sorted(made, key=lambda row: (_KINDS.index(row.kind) if row.kind in _KINDS else 9, row.name))


def _summary(name: str) -> Summary:
    try:
        profile = load(name)
    except ProfileError as error:
        entry = entries()[name]
        return Summary(name, entry.title, entry.kind, entry.vendor, "unreadable", problem=str(error))
    figures = profile.figures().values()
    headline = _device(profile) if isinstance(profile, DeviceProfile) else _system(profile)
    return Summary(
        profile.name,
        profile.title,
        profile.kind,
        profile.vendor,
        profile.status,
        *headline,
        figures=len(figures),
        low_confidence=sum(f.confidence == "low" for f in figures),
        ranges=sum(f.is_range for f in figures),
    )


def _device(device: DeviceProfile) -> tuple[str, str, str, str]:
    """Return memory, bandwidth, bf16 peak and power as texts."""
    figures = device.figures()
    paths = ("memory.dram.capacity", "memory.dram.bandwidth", "compute.matrix.bf16", "power.tdp")
    memory, bandwidth, bf16, power = (short(figures.get(path)) for path in paths)
    return memory, bandwidth, bf16, power


def _system(system: SystemProfile) -> tuple[str, str, str, str]:
    totals = system.totals()
    memory, bandwidth, bf16 = (short(totals.get(n)) for n in ("dram_capacity", "dram_bandwidth", "matrix.bf16"))
    return memory, bandwidth, bf16, short(system.rack_power)
