"""Write figures for people: one SI prefix, the range where sources differ, a mark where confidence is low."""

from __future__ import annotations

from collections.abc import Iterable

from .figure import Figure, Gap, Price

LOW_MARK = "?"
RANGE_MARK = "*"
LEGEND = f"{LOW_MARK} low confidence; (a-b), (to b) and (from a): sources differ"

_PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SHORT = {"bytes": "B", "bytes/s": "B/s", "op/s": "OP/s", "op": "OP", "1": ""}
_UNSCALED = ("1", "USD/h", "FLOP", "op", "USD")


def common_scale(unit: str, values: Iterable[float]) -> tuple[float, str]:
    """Return the factor and the unit text in which all values read well: the prefix of the least one."""
    short = _SHORT.get(unit, unit)
    least = min(values, default=0.0)
    if unit == "s":
        return (1e-9, "ns") if least < 1e-6 else (1e-6, "us")
    if unit == "USD":
        return (1e6, "MUSD") if least >= 1e6 else (1e3, "kUSD") if least >= 1e4 else (1.0, "USD")
    if unit in _UNSCALED or (unit == "W" and least < 1e4):
        return 1.0, short
    if unit == "bytes" and least < 1e9 and least % 1024 == 0:
        return (2.0**20, "MiB") if least >= 2**20 else (2.0**10, "KiB")
    size, prefix = next(((s, p) for s, p in _PREFIXES if least >= s), (1.0, ""))
    return size, f"{prefix}{short}"


def number(value: float) -> str:
    """Return a value with four significant digits, without exponent."""
    if value == int(value) and value < 1e7:
        return f"{value:,.0f}"
    if value >= 1000:
        return f"{float(f'{value:.4g}'):,.0f}"
    return f"{value:.4g}"


def cell(item: Figure | Price | Gap | None, factor: float) -> str:
    """Return a figure divided by ``factor``, its range in brackets and its mark; a gap by its word."""
    if item is None:
        return ""
    if isinstance(item, Gap):
        return item.state
    value = item.typical if isinstance(item, Price) else item.value
    text = number(value / factor)
    text += _range(value / factor, item.low / factor, item.high / factor)
    return text + (LOW_MARK if item.confidence == "low" else "")


def _range(value: float, low: float, high: float) -> str:
    if low >= high:
        return ""
    if low == value:
        return f" (to {number(high)})"
    if high == value:
        return f" (from {number(low)})"
    return f" ({number(low)}-{number(high)})"


def short(figure: Figure | None) -> str:
    """Return a figure with its unit and without its range, which ``*`` stands for; nothing for None."""
    if figure is None:
        return ""
    factor, unit = common_scale(figure.unit, [figure.value])
    marks = (RANGE_MARK if figure.is_range else "") + (LOW_MARK if figure.confidence == "low" else "")
    return f"{number(figure.value / factor)} {unit}".strip() + marks


def written(item: Figure | Gap) -> str:
    """Return a figure in the unit that its file uses, with its range and its mark."""
    if isinstance(item, Gap):
        return item.state
    mark = LOW_MARK if item.confidence == "low" else ""
    count, _, unit = item.text.partition(" ")
    value = float(count)
    ends = _range(value, value * item.low / item.value, value * item.high / item.value)
    return f"{count}{ends} {unit}".strip() + mark


def sentence(item: Figure | Gap) -> str:
    """Return a figure with its unit, such as ``19.2 (to 22) TB/s``."""
    if isinstance(item, Gap):
        return item.state
    factor, unit = common_scale(item.unit, [item.value])
    text = cell(item, factor)
    mark = LOW_MARK if text.endswith(LOW_MARK) else ""
    return f"{text.removesuffix(LOW_MARK)} {unit}".strip() + mark
