"""The figures that projection rests on, from ``roofline/data``: each with its origin and source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Span:
    """A factor or a share with its range; ``title`` is the source in words."""

    low: float
    mid: float
    high: float
    title: str
    origin: str = "measured"


@dataclass(frozen=True)
class KernelClass:
    """How real GPU kernels of one class stand to the roof (see ``kernel_classes.yaml``).

    Parameters
    ----------
    floor_s
        Time that no kernel of the class gets below, for ``floor_launches`` launches.
    log_roof, log_stretch
        Natural logarithms of the nodes' roofs (seconds) and of the 10th, 50th and 90th percentile of
        ``t / (floor + roof)`` there.
    coverage, median_error
        What the test on other GPUs gave, as fractions.
    """

    name: str
    what: str
    floor_s: float
    floor_launches: int
    log_roof: tuple[float, ...]
    log_stretch: tuple[tuple[float, float, float], ...]
    coverage: float
    median_error: float
    groups: int
    title: str

    def floor(self, launches: int) -> float:
        """Return the fixed time of ``launches`` kernel launches, seconds."""
        return self.floor_s * max(1.0, launches / self.floor_launches)

    def stretch(self, roof_s: float) -> tuple[float, float, float]:
        """Return the 10th, 50th and 90th percentile of ``t / (floor + roof)`` at a roof of ``roof_s`` seconds."""
        at, nodes = math.log(max(roof_s, 1e-12)), self.log_roof
        if at <= nodes[0]:
            logs = self.log_stretch[0]
        elif at >= nodes[-1]:
            logs = self.log_stretch[-1]
        else:
            right = next(i for i, node in enumerate(nodes) if node > at)
            share = (at - nodes[right - 1]) / (nodes[right] - nodes[right - 1])
            below, above = self.log_stretch[right - 1], self.log_stretch[right]
            logs = tuple(a + share * (b - a) for a, b in zip(below, above, strict=True))
        low, mid, high = (math.exp(value) for value in logs)
        return low, mid, high

    def efficiency(self, roof_s: float, launches: int = 1) -> float:
        """Return the median share of the attained roof at this size, the floor taken off; at most 1."""
        floor = self.floor(launches)
        above_floor = self.stretch(roof_s)[1] * (floor + roof_s) - floor
        return min(1.0, roof_s / above_floor) if above_floor > 0 else 1.0


@dataclass(frozen=True)
class Basis:
    """A basis of projection: its factor on time, its band's factors and where they come from."""

    name: str
    time_factor: float
    low: float
    high: float
    origin: str
    title: str
    note: str


@cache
def load_table(name: str) -> dict[str, Any]:
    """Return a file of ``roofline/data`` as plain values."""
    import yaml

    text = (resources.files(f"{__package__}.data") / f"{name}.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


def source_title(table: Mapping[str, Any], key: str) -> str:
    """Return the title and date of a table's source."""
    source = table["sources"][key]
    return f"{source['title']} ({source['date']})"


@cache
def kernel_class(name: str) -> KernelClass:
    """Return a class of kernels by its own name.

    Raises
    ------
    KeyError
        If there is none of that name.
    """
    table = load_table("kernel_classes")
    try:
        entry = table["classes"][name]
    except KeyError:
        raise KeyError(f"unknown class of kernels {name!r}; known: {', '.join(table['classes'])}") from None
    return make_class(name, entry, source_title(table, entry["source"]))


def make_class(name: str, entry: Mapping[str, Any], title: str) -> KernelClass:
    """Return a class of kernels from the fields of an entry of ``kernel_classes.yaml``."""
    return KernelClass(
        name=name,
        what=entry["what"],
        floor_s=entry["floor_s"],
        floor_launches=entry["floor_launches"],
        log_roof=tuple(math.log(node[0]) for node in entry["nodes"]),
        log_stretch=tuple((math.log(n[1]), math.log(n[2]), math.log(n[3])) for n in entry["nodes"]),
        coverage=entry["coverage"],
        median_error=entry["median_error"],
        groups=entry["groups"],
        title=title,
    )


def class_of_operator(operator: str) -> KernelClass:
    """Return the class of an operator, by its full name, else by its family, else ``other``."""
    table = load_table("kernel_classes")
    names: dict[str, str] = table["operators"]
    if operator in table["classes"]:
        return kernel_class(operator)
    return kernel_class(names.get(operator) or names.get(operator.partition(".")[0]) or "other")


@cache
def basis(name: str) -> Basis:
    """Return a basis by name."""
    table = load_table("bands")
    entry = table["basis"][name]
    return Basis(
        name,
        entry["time_factor"],
        entry["low"],
        entry["high"],
        entry["origin"],
        source_title(table, entry["source"]),
        entry["note"],
    )


def generation(architecture: str) -> float | None:
    """Return an architecture's place in the order of generations, or None if it is not in the table."""
    return load_table("bands")["generations"].get(architecture)


def attained_share(device: str, architecture: str, kind: str, ceiling: str) -> Span:
    """Return the share of a specified ceiling that the best kernels reach.

    ``ceiling`` is looked up under the profile's name, then its architecture, then the default; in each first as
    it is and then by its family (``dram`` of ``dram.read``). ``kind`` is ``cpu`` or ``gpu``. What no entry has is taken
    whole.
    """
    table = load_table("attained")
    devices: dict[str, Any] = table["devices"]
    named = sorted((key for key in devices if device.startswith(key)), key=len, reverse=True)
    families = [architecture, "default"] if kind == "cpu" else [architecture, "hbm", "default"]
    for key in dict.fromkeys([*named, *families]):
        entry = devices.get(key)
        if entry is None:
            continue
        shares = entry["shares"]
        value = shares.get(ceiling, shares.get(ceiling.partition(".")[0]))
        if value is not None:
            low, mid, high = value if isinstance(value, list) else (value, value, value)
            known = "measured" if entry["source"] == "silicon" else "assumed"
            title = source_title(table, entry["source"])
            if low < high and "range" in entry:
                title += f"; range: {source_title(table, entry['range'])}"
            return Span(low, mid, high, title, known)
    return Span(1.0, 1.0, 1.0, "taken whole: no share is known", "assumed")
