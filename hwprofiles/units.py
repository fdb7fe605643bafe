"""Quantities as people write them (``22 TB/s``), read by pint and checked for dimension."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from .errors import FieldError

if TYPE_CHECKING:
    import pint

# Only what a profile needs, so that a word that pint would read as a barn or a bel is refused instead.
_DEFINITIONS = """
nano- = 1e-9 = n-
micro- = 1e-6 = u-
milli- = 1e-3 = m-
kilo- = 1e3 = k-
mega- = 1e6 = M-
giga- = 1e9 = G-
tera- = 1e12 = T-
peta- = 1e15 = P-
exa- = 1e18 = E-
kibi- = 1024 = Ki-
mebi- = 1048576 = Mi-
gibi- = 1073741824 = Gi-
tebi- = 1099511627776 = Ti-
byte = [information] = B = bytes
bit = byte / 8 = b = bits
second = [time] = s
hour = 3600 * second = h
hertz = 1 / second = Hz
watt = [power] = W
FLOP = [flop]
OP = [operation] = op
USD = [currency]
GPU = []
"""

# SI unit of a figure -> the pint unit that has its dimension. Values in ``bytes`` may be written in bits.
_REFERENCE = {
    "bytes/s": "byte/second",
    "bytes": "byte",
    "FLOP/s": "FLOP/second",
    "op/s": "OP/second",
    "Hz": "hertz",
    "W": "watt",
    "USD": "USD",
    "USD/h": "USD/hour",
    "FLOP": "FLOP",
    "op": "OP",
    "s": "second",
}
_KIND = {
    "bytes/s": "a bandwidth",
    "bytes": "a size",
    "FLOP/s": "a rate of floating-point work",
    "op/s": "a rate of operations",
    "Hz": "a clock",
    "W": "a power",
    "USD": "a price to buy",
    "USD/h": "a price per hour",
    "FLOP": "a count of FLOP",
    "op": "a count of operations",
    "s": "a time",
    "1": "a plain number",
}


@dataclass(frozen=True)
class Unit:
    """A unit as read: the factor to its SI unit, and whether it counts bits."""

    si: str
    factor: float
    bits: bool = False


# The spellings the shipped files use, so that reading them does not need pint; a test holds them equal to pint's.
COMMON: dict[str, Unit] = {
    **{f"{p}B/s": Unit("bytes/s", f) for p, f in (("G", 1e9), ("T", 1e12), ("P", 1e15))},
    **{f"{p}b/s": Unit("bytes/s", f / 8, bits=True) for p, f in (("M", 1e6), ("G", 1e9), ("T", 1e12))},
    **{f"{p}B": Unit("bytes", f) for p, f in (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12))},
    **{f"{p}iB": Unit("bytes", f) for p, f in (("K", 2.0**10), ("M", 2.0**20), ("G", 2.0**30), ("T", 2.0**40))},
    "bit": Unit("bytes", 0.125, bits=True),
    **{f"{p}FLOP/s": Unit("FLOP/s", f) for p, f in (("G", 1e9), ("T", 1e12), ("P", 1e15), ("E", 1e18))},
    **{f"{p}OP/s": Unit("op/s", f) for p, f in (("G", 1e9), ("T", 1e12), ("P", 1e15))},
    "MHz": Unit("Hz", 1e6),
    "GHz": Unit("Hz", 1e9),
    "W": Unit("W", 1.0),
    "kW": Unit("W", 1e3),
    "USD": Unit("USD", 1.0),
    "kUSD": Unit("USD", 1e3),
    "MUSD": Unit("USD", 1e6),
    "USD/h": Unit("USD/h", 1.0),
    "FLOP": Unit("FLOP", 1.0),
    "OP": Unit("op", 1.0),
    "ns": Unit("s", 1e-9),
    "": Unit("1", 1.0),
}


@dataclass(frozen=True)
class Dimension:
    """What a field holds: SI unit, an example for messages, plausible limits in SI, and whether bits may be written."""

    name: str
    si: str
    example: str
    least: float
    most: float
    bits: bool | None = False

    @property
    def kind(self) -> str:
        """The dimension in words."""
        return {True: "a number of bits", None: _KIND[self.si], False: _KIND[self.si]}[self.bits]


DIMENSIONS = {
    d.name: d
    for d in (
        Dimension("bandwidth", "bytes/s", "8 TB/s", 1e6, 1e17),
        Dimension("link", "bytes/s", "900 GB/s or 400 Gb/s, per direction", 1e6, 1e16, bits=None),
        Dimension("size", "bytes", "192 GB or 126.5 MiB", 16, 1e16),
        Dimension("width", "bytes", "5120 bit", 1, 1e5, bits=True),
        Dimension("data_rate", "bytes/s", "6.4 Gb/s", 1e6, 1e11, bits=True),
        Dimension("flop_rate", "FLOP/s", "2.25 PFLOP/s", 1e6, 1e20),
        Dimension("op_rate", "op/s", "4.5 POP/s", 1e6, 1e20),
        Dimension("flop", "FLOP", "8192 FLOP", 0.01, 1e7),
        Dimension("op", "op", "16 OP", 0.01, 1e7),
        Dimension("clock", "Hz", "1965 MHz", 1e7, 2e10),
        Dimension("power", "W", "1000 W", 0.1, 1e7),
        Dimension("price_per_hour", "USD/h", "2.90 USD/h", 1e-3, 1e5),
        Dimension("price", "USD", "35 kUSD", 0.1, 1e9),
        Dimension("latency", "s", "150 ns", 1e-10, 1e-2),
        Dimension("count", "1", "148", 1, 1e7),
    )
}

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_QUANTITY = re.compile(rf"\s*({_NUMBER})\s*(.*?)\s*")
_RANGE = re.compile(rf"\s*({_NUMBER})\s*(.*?)\s*\.\.\s*({_NUMBER})\s*(.*?)\s*")


@cache
def _registry() -> pint.UnitRegistry:
    import pint

    nothing: Any = None  # no definitions but the ones below
    registry: pint.UnitRegistry = pint.UnitRegistry(nothing)
    for line in _DEFINITIONS.strip().splitlines():
        registry.define(line)
    return registry


@cache
def read_unit(text: str) -> Unit:
    """Return a unit read by pint.

    Raises
    ------
    ValueError
        If the unit is not known, or is of no kind that a profile holds.
    """
    import pint

    registry = _registry()
    if not re.fullmatch(r"[A-Za-z/ *]*", text):
        raise ValueError(f"unit {text!r} is not known")
    try:
        unit = registry.parse_units(text)
    except (pint.PintError, AttributeError, ValueError, TypeError, SyntaxError):
        raise ValueError(f"unit {text!r} is not known") from None
    if unit.dimensionless:
        return Unit("1", float(registry.Quantity(1, unit).to_base_units().magnitude))
    for si, reference in _REFERENCE.items():
        if unit.dimensionality == registry.parse_units(reference).dimensionality:
            factor = float(registry.Quantity(1.0, unit).to(reference).magnitude)
            return Unit(si, factor, bits=any(name.endswith("bit") for name in unit._units))
    raise ValueError(f"unit {text!r} measures nothing that a profile holds")


def _unit(text: str, dimension: Dimension, written: str) -> Unit:
    if text in COMMON:
        return COMMON[text]
    if re.search(r"\bKB", text):
        raise FieldError(written, "KB may mean 1000 or 1024 bytes; write kB or KiB")
    try:
        return read_unit(text)
    except ValueError as error:
        raise FieldError(written, f"{error}; write {dimension.kind} such as {dimension.example}") from None


def _convert(number: str, unit_text: str, dimension: Dimension, written: str) -> float:
    value = float(number)
    if not math.isfinite(value) or value <= 0:
        raise FieldError(written, f"must be above 0; write {dimension.kind} such as {dimension.example}")
    if not unit_text and dimension.si != "1":
        raise FieldError(written, f"has no unit; write {dimension.kind} such as {dimension.example}")
    unit = _unit(unit_text, dimension, written)
    if unit.si != dimension.si:
        raise FieldError(written, f"is {_KIND[unit.si]}, not {dimension.kind}; write it such as {dimension.example}")
    if dimension.bits is False and unit.bits:
        in_bytes = unit_text.replace("bit", "B").replace("b", "B")
        raise FieldError(
            written,
            f"counts bits (b), and this field is written in bytes (B): write {value / 8:g} {in_bytes}, "
            f"or {number} {in_bytes} if bytes were meant",
        )
    if dimension.bits is True and not unit.bits:
        raise FieldError(
            written, f"counts bytes (B), and this field is written in bits (b), such as {dimension.example}"
        )
    si = value * unit.factor
    if not dimension.least <= si <= dimension.most:
        raise FieldError(
            written,
            f"is {si:.3g} {dimension.si}, outside {dimension.least:.0e} to {dimension.most:.0e}, so a digit or a "
            f"prefix is wrong; write {dimension.kind} such as {dimension.example}",
        )
    return si


def parse_quantity(text: str, dimension: Dimension) -> float:
    """Return a quantity in the SI unit of its dimension.

    Raises
    ------
    FieldError
        If it is not a number with a unit of that dimension, within plausible limits.
    """
    if re.search(r"\d,\d", text):
        raise FieldError(text, f"has a comma; write {dimension.example}, without thousands separators")
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise FieldError(text, f"is not a number with a unit; write {dimension.kind} such as {dimension.example}")
    return _convert(match[1], match[2], dimension, text)


def parse_range(text: str, dimension: Dimension) -> tuple[float, float]:
    """Return the ends of ``19.2..22 TB/s`` in SI units. A unit after the second number holds for both.

    Raises
    ------
    FieldError
        If it is not a range of that dimension with the lower end first.
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        raise FieldError(text, "is not a range; write the lower end, two dots, the upper end: 19.2..22 TB/s")
    low = _convert(match[1], match[2] or match[4], dimension, text)
    high = _convert(match[3], match[4], dimension, text)
    if low > high:
        raise FieldError(text, "starts at its upper end; write the lower end first")
    return low, high
