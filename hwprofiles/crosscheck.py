"""Compute what can be computed from a profile's own figures and compare it with what it states.

A peak is units x clock x FLOP per clock; a bandwidth is bus width x data rate; a rack is n times its GPU. Where the
two differ by more than 3 % the file has to say why, in ``disagreements``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .catalogue import files, load_file, spellings
from .errors import Problem, ProfileError
from .figure import Figure
from .profile import DeviceProfile, SystemProfile

# Makers round published figures to two or three digits; a difference above this is more than rounding.
TOLERANCE = 0.03


@dataclass(frozen=True)
class Comparison:
    """A figure that a profile states beside the same figure computed from others; both in ``unit``."""

    profile: str
    name: str
    stated: float
    computed: float
    unit: str
    formula: str
    explanation: str = ""

    @property
    def difference(self) -> float:
        """Return computed / stated - 1."""
        return self.computed / self.stated - 1

    @property
    def agrees(self) -> bool:
        """Whether the two differ by no more than rounding."""
        return abs(self.difference) <= TOLERANCE

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return {
            "profile": self.profile,
            "name": self.name,
            "stated": self.stated,
            "computed": self.computed,
            "unit": self.unit,
            "difference": self.difference,
            "formula": self.formula,
            "explanation": self.explanation,
        }


def compare_with_itself(profile: DeviceProfile | SystemProfile) -> list[Comparison]:
    """Return every comparison that a profile's figures allow, whether it agrees or not."""
    if isinstance(profile, DeviceProfile):
        return [*_peaks(profile), *_bandwidth(profile), *_anchors(profile)]
    return [*_multiples(profile), *_power(profile)]


def _peaks(device: DeviceProfile) -> Iterator[Comparison]:
    figures, units = device.figures(), device.units()
    if units is None:
        return
    for unit in ("matrix", "vector"):
        clocks = ("tensor", "boost") if unit == "matrix" else ("boost",)
        clock = next((figures[f"compute.clock.{c}"] for c in clocks if f"compute.clock.{c}" in figures), None)
        for path, per_clock in figures.items():
            prefix = f"compute.flop_per_clock.{unit}."
            stated = figures.get(f"compute.{unit}.{path.removeprefix(prefix)}")
            if not path.startswith(prefix) or stated is None or clock is None:
                continue
            name = f"{unit}.{path.removeprefix(prefix)}"
            formula = f"{per_clock.value:g} FLOP x {units.value:g} x {clock.value / 1e9:g} GHz"
            yield _of(device, name, stated, per_clock.value * units.value * clock.value, formula)


def _bandwidth(device: DeviceProfile) -> Iterator[Comparison]:
    figures = device.figures()
    stated, bus, rate = (figures.get(f"memory.dram.{n}") for n in ("bandwidth", "bus", "data_rate"))
    if stated is not None and bus is not None and rate is not None:
        formula = f"{bus.value * 8:g} bit x {rate.value * 8 / 1e9:g} Gb/s"
        yield _of(device, "dram.bandwidth", stated, bus.value * rate.value * 8, formula)


def _anchors(device: DeviceProfile) -> Iterator[Comparison]:
    """What was measured cannot exceed what the device can do; below it, nothing is wrong."""
    ceilings = device.ceilings()
    for name, measured in device.anchors().items():
        ceiling = ceilings.get(name)
        if ceiling is not None and measured.value > ceiling.high:
            yield _of(device, f"anchor.{name}", ceiling, measured.value, "measured, against the ceiling")


def _multiples(system: SystemProfile) -> Iterator[Comparison]:
    for name, stated in system.totals().items():
        for part, count in ((system.gpu, system.gpu_count), (system.cpu, system.cpu_count)):
            options = _of_one(part, name, of_cpu=part is system.cpu) if part else []
            if options:
                one = min(options, key=lambda f: abs(count * f.value - stated.value))
                label = name.replace("dram_", "dram.")
                yield _of(system, label, stated, count * one.value, f"{count} x {one.text}")
                break


def _of_one(device: DeviceProfile, name: str, *, of_cpu: bool) -> list[Figure]:
    """Return the figures of one device of which a total is the multiple. Makers sum nominal capacities too."""
    figures = device.figures()
    if name in ("cpu_dram_capacity", "cores"):
        paths = {"cpu_dram_capacity": ["memory.dram.capacity"], "cores": ["compute.cores"]}[name] if of_cpu else []
    elif of_cpu:
        paths = []
    elif name == "dram_capacity":
        paths = ["memory.dram.capacity", "memory.dram.nominal"]
    elif name == "dram_bandwidth":
        paths = ["memory.dram.bandwidth"]
    else:
        paths = [f"compute.{name}" if "." in name else f"links.{name}"]
    return [figures[path] for path in paths if path in figures]


def _power(system: SystemProfile) -> Iterator[Comparison]:
    """The devices of a rack cannot take more than the rack."""
    rack = system.rack_power
    parts = [(p.power()["tdp"], n) for p, n in ((system.gpu, system.gpu_count),) if p and "tdp" in p.power()]
    for tdp, count in parts:
        if rack is not None and count * tdp.low > rack.high:
            yield _of(system, "power.rack", rack, count * tdp.value, f"{count} x {tdp.text} is more than the rack")


def _of(profile: Any, name: str, stated: Figure, computed: float, formula: str) -> Comparison:
    explanation = profile.disagreements.get(name, "")
    return Comparison(profile.name, name, stated.value, computed, stated.unit, formula, explanation)


@dataclass
class Audit:
    """What a check of profile files found."""

    files: int = 0
    figures: int = 0
    low_confidence: int = 0
    ranges: int = 0
    comparisons: int = 0
    sources: set[str] = field(default_factory=set)
    disagreements: list[Comparison] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def unexplained(self) -> list[Comparison]:
        """The disagreements that their file does not explain."""
        return [c for c in self.disagreements if not c.explanation]

    def as_dict(self) -> dict[str, Any]:
        """Return the findings as plain JSON values."""
        return {
            "files": self.files,
            "figures": self.figures,
            "low_confidence": self.low_confidence,
            "ranges": self.ranges,
            "sources": len(self.sources),
            "comparisons": self.comparisons,
            "disagreements": [c.as_dict() for c in self.disagreements],
            "unexplained": len(self.unexplained),
            "problems": [str(p) for p in self.problems],
        }


def audit(paths: Iterable[Path] | None = None) -> Audit:
    """Read profile files (default: all that are found) and compare each with itself and with the others."""
    found = Audit()
    paths = list(files() if paths is None else paths)
    profiles = []
    for path in paths:
        found.files += 1
        try:
            profile = load_file(path)
        except ProfileError as error:
            found.problems += error.problems
            continue
        profiles.append(profile)
        figures = [*profile.figures().values()]
        found.figures += len(figures)
        found.low_confidence += sum(f.confidence == "low" for f in figures)
        found.ranges += sum(f.is_range for f in figures)
        found.sources |= {key for f in figures for key in f.sources}
        comparisons = compare_with_itself(profile)
        found.comparisons += len(comparisons)
        found.disagreements += [c for c in comparisons if not c.agrees]
        found.problems += _stale(profile, comparisons)
    found.problems += _clashes(profiles)
    return found


def _stale(profile: DeviceProfile | SystemProfile, comparisons: list[Comparison]) -> Iterator[Problem]:
    """An explanation of something that agrees misleads; one that was taken over from another file may be idle."""
    own = _own_disagreements(profile.path)
    disagreeing = {c.name for c in comparisons if not c.agrees}
    for name in own:
        if name not in disagreeing:
            names = ", ".join(sorted(disagreeing)) or "none"
            message = f"explains a disagreement that is not there; remove it (there are: {names})"
            yield Problem(str(profile.path), None, f"disagreements.{name}", "", message)


def _own_disagreements(path: Path) -> list[str]:
    from .yaml_tree import parse, read_text

    raw = parse(read_text(path), str(path)).data.get("disagreements")
    return list(raw) if isinstance(raw, dict) else []


def _clashes(profiles: list[DeviceProfile | SystemProfile]) -> Iterator[Problem]:
    """A name must mean one profile, and a source key one source."""
    meant: dict[str, str] = {}
    sources: dict[str, tuple[Any, str]] = {}
    for profile in profiles:
        for name in (profile.name, profile.title, *profile.aliases):
            other = meant.setdefault(spellings(name)[0], profile.name)
            if other != profile.name:
                yield Problem(str(profile.path), None, "aliases", name, f"is also a name of {other}; keep one")
        for key, source in profile.sources.items():
            known, where = sources.setdefault(key, (source, profile.name))
            if known != source:
                message = f"differs from the source of the same key in {where}; make them equal or rename one"
                yield Problem(str(profile.path), None, f"sources.{key}", "", message)
