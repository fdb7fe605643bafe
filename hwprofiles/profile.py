"""A loaded profile: what it says, by the names that the other rooms use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .figure import Figure, Gap, Price, Source, product

if TYPE_CHECKING:
    import pandas as pd

_RATES = ("matrix", "matrix_fp16_acc", "matrix_sparse", "matrix_emulated", "vector", "exp", "compare")
_SCALE_UP = ("nvlink", "ualoe", "xgmi", "ici")


@dataclass(frozen=True)
class _Profile:
    """What devices and systems have in common."""

    name: str
    title: str
    kind: str
    vendor: str
    status: str
    status_note: str
    aliases: tuple[str, ...]
    dates: Mapping[str, str]
    note: str
    path: Path
    fields: Mapping[str, Figure | Gap] = field(repr=False)
    sources: Mapping[str, Source] = field(repr=False)
    disagreements: Mapping[str, str] = field(repr=False)
    notices: tuple[str, ...] = field(default=(), kw_only=True)

    def figures(self) -> dict[str, Figure]:
        """Return every figure that the file states, by its dotted path (``compute.matrix.bf16``)."""
        return {path: item for path, item in self.fields.items() if isinstance(item, Figure)}

    def gaps(self) -> dict[str, Gap]:
        """Return what the file says is unknown or not there, by its dotted path."""
        return {path: item for path, item in self.fields.items() if isinstance(item, Gap)}

    def _below(self, prefix: str) -> dict[str, Figure]:
        start = prefix + "."
        return {path[len(start) :]: f for path, f in self.figures().items() if path.startswith(start)}

    def power(self) -> dict[str, Figure]:
        """Return powers in watts: ``tdp``, ``all_in`` (per GPU with its share of the rest), ``rack`` ..."""
        return self._below("power")

    def prices(self) -> dict[str, Price]:
        """Return prices: ``rental_3y``, ``on_demand`` ... in USD per GPU and hour, and ``purchase`` in USD."""
        return {name: Price.of(figure) for name, figure in self._below("prices").items()}

    def anchors(self) -> dict[str, Figure]:
        """Return what third parties measured, by ceiling name."""
        return self._below("anchors")

    def to_frame(self) -> pd.DataFrame:
        """Return all figures as a table, one row each."""
        import pandas as pd

        rows = [{"profile": self.name, "figure": path, **f.as_dict()} for path, f in self.figures().items()]
        for row in rows:
            row["sources"] = ", ".join(row["sources"])
        return pd.DataFrame(rows)

    def _identity(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "kind": self.kind,
            "vendor": self.vendor,
            "status": self.status,
            "status_note": self.status_note,
            "aliases": list(self.aliases),
            "dates": dict(self.dates),
            "note": self.note,
            "notices": list(self.notices),
        }

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {
            **self._identity(),
            "figures": {path: f.as_dict() for path, f in self.figures().items()},
            "gaps": {path: {"state": g.state, "note": g.note} for path, g in self.gaps().items()},
            "disagreements": dict(self.disagreements),
            "sources": {key: s.as_dict() for key, s in self.sources.items()},
        }


@dataclass(frozen=True)
class DeviceProfile(_Profile):
    """A GPU, TPU or CPU socket.

    Peaks are dense and of one device, links per direction, bandwidths those of the pins.
    """

    architecture: str = field(kw_only=True)
    chip: str = field(kw_only=True)
    compile_target: str | None = field(kw_only=True)
    match: Mapping[str, Any] | None = field(default=None, kw_only=True, repr=False)

    def units(self) -> Figure | None:
        """Return the number of SMs, compute units or cores."""
        figures = self.figures()
        return next((figures[f"compute.{n}"] for n in ("sms", "cus", "cores") if f"compute.{n}" in figures), None)

    def clock(self) -> Figure | None:
        """Return the clock that rates are derived at.

        Of a GPU the one at which matrix peaks are quoted, or the boost clock; of a CPU that of all cores, or the base
        clock. It ranges up to the boost clock.
        """
        clocks = self._below("compute.clock")
        order = ("all_core", "base", "boost") if self.kind == "cpu" else ("tensor", "boost", "sustained", "base")
        chosen = next((clocks[name] for name in order if name in clocks), None)
        if chosen is None or "boost" not in clocks:
            return chosen
        return replace(chosen, high=max(chosen.high, clocks["boost"].high))

    def ceilings(self) -> dict[str, Figure]:
        """Return the limits by ceiling name.

        Rates in FLOP/s (``op/s`` for integers and exponentials); bandwidths in bytes/s. The pins carry reads and
        writes alike, so ``dram.read``, ``.write``, ``.copy`` and ``.triad`` are the same figure. ``llc.read`` is the
        last level cache; ``link.scaleup`` the link between GPUs whatever its name. What is unknown is not there.
        """
        figures = self.figures()
        found = {f"{rate}.{p}": f for rate in _RATES for p, f in self._below(f"compute.{rate}").items()}
        units, clock = self.units(), self.clock()
        if units is not None and clock is not None:
            for precision, per_clock in self._below("compute.exp_per_clock").items():
                note = "exponentials per clock and SM x SMs x clock"
                found.setdefault(f"exp.{precision}", product(per_clock, units, clock, unit="op/s", note=note))
            for name, per_clock in self._below("compute.flop_per_clock").items():
                note = "FLOP per clock and unit x units x clock"
                found.setdefault(name, product(per_clock, units, clock, unit="FLOP/s", note=note))
        dram = figures.get("memory.dram.bandwidth")
        if dram is not None:
            found |= {f"dram.{access}": dram for access in ("read", "write", "copy", "triad")}
        for level in ("l1", "l2", "l3"):
            if f"memory.{level}.bandwidth" in figures:
                found[f"{level}.read"] = figures[f"memory.{level}.bandwidth"]
        llc = self._last_level()
        if f"{llc}.read" in found:
            found["llc.read"] = found[f"{llc}.read"]
        links = self.links()
        found |= {f"link.{name}": f for name, f in links.items()}
        scale_up = next((links[name] for name in _SCALE_UP if name in links), None)
        if scale_up is not None:
            found["link.scaleup"] = scale_up
        return found

    def _last_level(self) -> str:
        return "l3" if self._below("memory.l3") else "l2"

    def capacities(self) -> dict[str, Figure]:
        """Return bytes by memory level: ``dram`` (what a program can use), ``l2``, ``l3`` and ``llc``."""
        figures = self.figures()
        levels = ("dram", "l1", "l2", "l3")
        found = {n: figures[f"memory.{n}.capacity"] for n in levels if f"memory.{n}.capacity" in figures}
        llc = self._last_level()
        if llc in found:
            found["llc"] = found[llc]
        return found

    def links(self) -> dict[str, Figure]:
        """Return bytes per second and direction: ``nvlink``, ``c2c``, ``pcie``, ``nic`` ..."""
        return self._below("links")

    def limits(self) -> dict[str, Figure]:
        """Return the limits of one SM: ``registers``, ``shared_memory`` (bytes), ``warps``, ``blocks`` ..."""
        return self._below("per_sm")

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        base = super().as_dict()
        extra = {"architecture": self.architecture, "chip": self.chip, "compile_target": self.compile_target}
        return {**self._identity(), **extra, "ceilings": {k: f.as_dict() for k, f in self.ceilings().items()}, **base}


@dataclass(frozen=True)
class SystemProfile(_Profile):
    """A server or rack: its devices with what is different about them there, and figures of the whole."""

    gpu: DeviceProfile | None = field(kw_only=True)
    gpu_count: int = field(kw_only=True)
    cpu: DeviceProfile | None = field(kw_only=True)
    cpu_count: int = field(kw_only=True)

    @property
    def rack_power(self) -> Figure | None:
        """Power of the rack or server in watts."""
        powers = self.power()
        return powers.get("rack") or powers.get("system")

    def totals(self) -> dict[str, Figure]:
        """Return what the maker publishes for the whole system."""
        return self._below("totals")

    def prices(self) -> dict[str, Price]:
        """Return the prices of its GPU per hour, overlaid with its own; ``purchase`` is that of the system."""
        device = self.gpu or self.cpu
        inherited = dict(device.prices()) if device else {}
        inherited.pop("purchase", None)
        return {**inherited, **super().prices()}

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values, the devices included."""
        return {
            **super().as_dict(),
            "gpu": self.gpu.as_dict() if self.gpu else None,
            "gpu_count": self.gpu_count,
            "cpu": self.cpu.as_dict() if self.cpu else None,
            "cpu_count": self.cpu_count,
        }
