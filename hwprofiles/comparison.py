"""Lay profiles side by side: the same figure of each, with the ratio to the first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .display import cell, common_scale
from .figure import Figure, Gap, Price
from .profile import DeviceProfile, SystemProfile

Profile = DeviceProfile | SystemProfile
Item = Figure | Price | Gap | None

_DEVICE_ROWS: tuple[tuple[str, str], ...] = (
    ("SMs", "compute.sms"),
    ("compute units", "compute.cus"),
    ("cores", "compute.cores"),
    ("boost clock", "compute.clock.boost"),
    ("fp64 vector", "compute.vector.fp64"),
    ("fp32 vector", "compute.vector.fp32"),
    ("fp64 matrix", "compute.matrix.fp64"),
    ("tf32 matrix", "compute.matrix.tf32"),
    ("fp16 matrix", "compute.matrix.fp16"),
    ("bf16 matrix", "compute.matrix.bf16"),
    ("fp8 matrix", "compute.matrix.fp8"),
    ("nvfp4 matrix", "compute.matrix.nvfp4"),
    ("mxfp4 matrix", "compute.matrix.mxfp4"),
    ("int8 matrix", "compute.matrix.int8"),
    ("nvfp4 sparse", "compute.matrix_sparse.nvfp4"),
    ("memory", "memory.dram.capacity"),
    ("bandwidth", "memory.dram.bandwidth"),
    ("L2", "memory.l2.capacity"),
    ("L2 bandwidth", "memory.l2.bandwidth"),
    ("L3", "memory.l3.capacity"),
    ("shared memory/SM", "per_sm.shared_memory"),
    ("tensor memory/SM", "per_sm.tensor_memory"),
    ("warps/SM", "per_sm.warps"),
    ("NVLink/dir", "links.nvlink"),
    ("xGMI/dir", "links.xgmi"),
    ("UALoE/dir", "links.ualoe"),
    ("ICI/dir", "links.ici"),
    ("C2C/dir", "links.c2c"),
    ("PCIe/dir", "links.pcie"),
    ("NIC/dir", "links.nic"),
    ("TDP", "power.tdp"),
    ("all-in power", "power.all_in"),
)
_PRICE_ROWS = (
    ("TCO hyperscaler", "tco_hyperscaler"),
    ("TCO neocloud", "tco_neocloud"),
    ("3-year rental", "rental_3y"),
    ("on demand", "on_demand"),
    ("purchase", "purchase"),
)


@dataclass(frozen=True)
class Row:
    """One figure of all compared profiles, in one unit."""

    label: str
    unit: str
    factor: float
    items: tuple[Item, ...]

    @property
    def ratios(self) -> tuple[float | None, ...]:
        """Return each value / the first profile's value; None where either is not known."""
        values = [_value(item) for item in self.items]
        first = values[0]
        return tuple(None if value is None or first is None else value / first for value in values)

    def cells(self) -> list[str]:
        """Return the values as text, without unit."""
        return [cell(item, self.factor) for item in self.items]

    def as_dict(self) -> dict[str, Any]:
        """Return the values in SI units as plain JSON values."""
        return {
            "figure": self.label,
            "items": [i.as_dict() if isinstance(i, Figure | Price) else i and i.state for i in self.items],
            "ratios": list(self.ratios),
        }


def _value(item: Item) -> float | None:
    if isinstance(item, Price):
        return item.typical
    return item.value if isinstance(item, Figure) else None


def device_of(profile: Profile) -> DeviceProfile | None:
    """Return the device whose figures stand for a profile: a system's GPU, or its CPU where it has none."""
    return profile if isinstance(profile, DeviceProfile) else profile.gpu or profile.cpu


def compare(profiles: Sequence[Profile]) -> list[Row]:
    """Return the rows of a comparison; a system stands for one of its GPUs, with rows of its own for the whole."""
    rows = []
    if any(isinstance(p, SystemProfile) for p in profiles):
        rows.append(_row("GPUs", [_count(p) for p in profiles]))
        rows.append(_row("rack power", [p.rack_power if isinstance(p, SystemProfile) else None for p in profiles]))
    devices = [device_of(p) for p in profiles]
    rows += [_row(label, [_field(d, path) for d in devices]) for label, path in _DEVICE_ROWS]
    exps = [d.ceilings().get("exp.fp32") if d else None for d in devices]
    rows.insert(next(i for i, row in enumerate(rows) if row.label == "memory"), _row("fp32 exponentials", exps))
    rows += [_row(label, [_price(p, name) for p in profiles]) for label, name in _PRICE_ROWS]
    return [row for row in rows if any(item is not None for item in row.items)]


def _count(profile: Profile) -> Figure | None:
    if not isinstance(profile, SystemProfile) or not profile.gpu:
        return None
    n = float(profile.gpu_count)
    return Figure(n, n, n, "1", f"{profile.gpu_count}", ("profile",), "", "high")


def _field(device: DeviceProfile | None, path: str) -> Item:
    return None if device is None else device.figures().get(path) or device.gaps().get(path)


def _price(profile: Profile, name: str) -> Item:
    return profile.prices().get(name) or profile.gaps().get(f"prices.{name}")


def _row(label: str, items: Iterable[Item]) -> Row:
    made = tuple(items)
    known = [item for item in made if isinstance(item, Figure | Price)]
    values = [value for value in map(_value, known) if value is not None]
    factor, unit = common_scale(known[0].unit, values) if known else (1.0, "")
    return Row(label, unit, factor, made)
