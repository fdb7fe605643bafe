"""Uncertain inputs, and how their ranges become the band of a result.

Every uncertain number (a calibrated parameter, the spread of a class of kernels, a ceiling on which sources differ,
a price) is one named input with low, middle and high. A calculation runs on arrays whose first axis is the
*variant*: variant 0 has every input at its middle, each further one has a single input at its low or high. What an
input does to the logarithm of a result is its swing; swings of different inputs are independent and add as root sum
of squares, upwards and downwards apart. One input moves everything that depends on it together, over all operators
and phases, so a band never shrinks because a step is a sum of many terms that share a cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .work import Array


@dataclass(frozen=True)
class Input:
    """An uncertain number.

    Parameters
    ----------
    low, mid, high
        80 % range and middle, in ``unit``.
    origin
        ``calibrated``, ``measured``, ``specified``, ``published``, ``assumed`` or ``scenario``.
    source
        Where it comes from, in words.
    """

    name: str
    low: float
    mid: float
    high: float
    unit: str
    source: str
    origin: str = "assumed"
    note: str = ""

    def __post_init__(self) -> None:
        if not self.low <= self.mid <= self.high:
            raise ValueError(f"{self.name}: low {self.low:g}, mid {self.mid:g}, high {self.high:g} must rise")

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Band:
    """A result: middle and 80 % range."""

    low: float
    mid: float
    high: float

    def scaled(self, factor: float) -> Band:
        """Return the band times a positive factor."""
        return Band(self.low * factor, self.mid * factor, self.high * factor)

    def columns(self, stem: str, unit: str = "") -> dict[str, float]:
        """Return the columns ``<stem>_low<unit>``, ``_mid`` and ``_high``."""
        return {f"{stem}_{end}{unit}": getattr(self, end) for end in ("low", "mid", "high")}


class Inputs:
    """The inputs of one calculation, as arrays over variants.

    Parameters
    ----------
    inputs
        In any order; names are unique.
    vary
        False keeps all at their middle (one variant), for sweeps whose other axis holds scenario points.
    """

    def __init__(self, inputs: Iterable[Input], *, vary: bool = True) -> None:
        self.by_name = {item.name: item for item in inputs}
        self._varied = [n for n, i in self.by_name.items() if vary and i.low < i.high]
        self._column = {name: 1 + 2 * k for k, name in enumerate(self._varied)}

    @property
    def variants(self) -> int:
        """Length of the first axis."""
        return 1 + 2 * len(self._varied)

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def __call__(self, name: str) -> Array:
        """Return the input as an array of shape (variants, 1)."""
        item = self.by_name[name]
        values = np.full((self.variants, 1), item.mid)
        if (at := self._column.get(name)) is not None:
            values[at], values[at + 1] = item.low, item.high
        return values

    def band(self, result: Array) -> Band:
        """Return the band of a result of shape (variants,) or (variants, 1)."""
        values = np.broadcast_to(
            np.asarray(result, dtype=float).reshape(len(np.atleast_1d(result)), -1)[:, 0], self.variants
        )
        mid = float(values[0])
        if mid <= 0.0:
            return Band(float(min(0.0, values.min())), mid, float(values.max()))
        up, down = self._swings(values)
        return Band(mid * float(np.exp(-down)), mid, mid * float(np.exp(up)))

    def _swings(self, values: Array) -> tuple[float, float]:
        swing = np.log(np.maximum(values[1:], 1e-300) / values[0]).reshape(-1, 2)
        up = np.maximum(swing.max(axis=1), 0.0) if len(swing) else np.zeros(0)
        down = np.maximum(-swing.min(axis=1), 0.0) if len(swing) else np.zeros(0)
        return float(np.sqrt(np.sum(up**2))), float(np.sqrt(np.sum(down**2)))

    def sensitivity(self, result: Array) -> list[dict[str, Any]]:
        """Return what each input at its low and high makes of the result, the widest first."""
        values = np.broadcast_to(np.asarray(result, dtype=float).reshape(-1), self.variants)
        rows = [
            {"input": n, "lowered": float(values[at]), "raised": float(values[at + 1]), "mid": float(values[0])}
            for n, at in self._column.items()
        ]
        return sorted(rows, key=lambda r: abs(r["raised"] - r["lowered"]), reverse=True)


def scale(item: Input, **changes: Any) -> Input:
    """Return an input with some fields changed."""
    return Input(**{**item.__dict__, **changes})


@cache
def _parameter_file() -> dict[str, Any]:
    import yaml

    text = (Path(__file__).parent / "data" / "parameters.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


def parameter_names() -> list[str]:
    """Return the names of the calibrated parameters."""
    return list(_parameter_file()["parameters"])


def parameter_inputs(overrides: Mapping[str, float] | None = None) -> list[Input]:
    """Return the calibrated parameters of ``data/parameters.yaml``; an override fixes one at a value.

    Raises
    ------
    KeyError
        If an override names no parameter.
    """
    data = _parameter_file()
    made = {}
    for name, entry in data["parameters"].items():
        low, mid, high = entry["value"]
        source = data["sources"][entry["source"]]
        made[name] = Input(name, low, mid, high, entry["unit"], source, entry["origin"], entry["what"])
    for name, value in (overrides or {}).items():
        made[name] = scale(made[name], low=value, mid=value, high=value, source="given", origin="scenario")
    return list(made.values())
