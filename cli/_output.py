"""Print tables for people and JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_PIPE_WIDTH = 130
_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def console(*, stderr: bool = False) -> Console:
    """Return a rich console; in a pipe it keeps a fixed width and no colour."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else _PIPE_WIDTH, highlight=False, soft_wrap=False)


def print_json(value: Any) -> None:
    """Print one JSON document; NaN and infinities are errors, not JSON."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False, default=str) + "\n")
    sys.stdout.flush()  # Here a full device is an error that is reported; at exit it would be lost.


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> Table:
    """Return a rich table of plain text (brackets are no markup); columns in ``right`` are aligned to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(title=Text(title) if title else None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    made.pad_edge, made.show_edge, made.collapse_padding = False, False, True
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    return made


def seconds(value: float | None, digits: int = 3) -> str:
    """Return a duration with the unit people read it in."""
    if value is None:
        return ""
    if value == 0:
        return "0 s"
    if abs(value) >= 1000:
        return f"{number(value)} s"
    for size, unit in _TIME_UNITS:
        if abs(value) >= size:
            return f"{value / size:.{digits}g} {unit}"
    return f"{value / 1e-9:.{digits}g} ns"


def span(low: float, high: float) -> str:
    """Return ``low to high`` of two durations, the unit once if they share it."""
    first, last = seconds(low), seconds(high)
    number, unit = first.split(" ")
    return f"{number} to {last}" if last.endswith(f" {unit}") else f"{first} to {last}"


def number(value: float, digits: int = 3) -> str:
    """Return a number with some significant digits and no exponent above one thousand."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def rate(value: float | None, unit: str) -> str:
    """Return a rate with an SI prefix, such as ``51.3 GB/s``."""
    if value is None:
        return ""
    short = unit.replace("bytes", "B")
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}{short}"
    return f"{value:.3g} {short}"
