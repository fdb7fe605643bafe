"""The low and high end of a projection, from factors that each name their source."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .tables import KernelClass, basis, load_table, source_title
from .targets import Target


@dataclass(frozen=True)
class Factor:
    """One reason for a projection to be uncertain: factors on the low and the high end of the time."""

    name: str
    low: float
    high: float
    origin: str
    source: str
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        names = ("name", "low", "high", "origin", "source", "note")
        return {name: getattr(self, name) for name in names}


def combine(factors: Iterable[Factor]) -> tuple[float, float]:
    """Combine independent factors: their logarithms add in squares on either side."""
    factors = list(factors)
    low = math.exp(-math.sqrt(sum(min(0.0, math.log(f.low)) ** 2 for f in factors)))
    high = math.exp(math.sqrt(sum(max(0.0, math.log(f.high)) ** 2 for f in factors)))
    return low, high


def basis_factor(name: str) -> Factor:
    """Return the factor of a basis."""
    found = basis(name)
    return Factor(name, found.low, found.high, found.origin, found.title, found.note)


def class_factor(kind: KernelClass, roof_s: float) -> Factor:
    """Return the spread of real kernels of a class around their middle, at one size."""
    low, mid, high = kind.stretch(roof_s)
    note = (
        f"10th to 90th percentile of {kind.groups} kernel groups of H100 and H200 at a roof of {roof_s:.3g} s; held "
        f"{kind.coverage:.0%} of the rows of B200, B300, GB200 and GB300, median error {kind.median_error:.0%}"
    )
    return Factor(f"kernels of class {kind.name}", low / mid, high / mid, "backtested", kind.title, note)


def maturity_factor(target: Target) -> list[Factor]:
    """Return the factor of young software, for a target of which nothing measured is public."""
    table = load_table("bands")
    entry = table["maturity"]
    if target.status not in entry["statuses"] and target.architecture not in entry["architectures"]:
        return []
    note = f"no kernel time of {target.title} is public; its first kernels are expected to be slower than later ones"
    return [Factor("new chip", 1.0, entry["high"], entry["origin"], source_title(table, entry["source"]), note)]


def interval_factor(median_s: float, low_s: float | None, high_s: float | None) -> list[Factor]:
    """Return the factor of the source row's own confidence interval, if it has one."""
    if not low_s or not high_s:
        return []
    low, high = min(1.0, low_s / median_s), max(1.0, high_s / median_s)
    return [Factor("source row", low, high, "measured", "95 % confidence interval of the source row's median")]
