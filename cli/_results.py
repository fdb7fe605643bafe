"""Show measured rows: results, failures and ceilings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ._output import console, print_json, rate, seconds, span, table

if TYPE_CHECKING:
    from ..profiler import CeilingRow, Measurement

_RESULT_COLUMNS = ("operator", "implementation", "time", "95 % interval", "of roof", "bound by", "vs torch", "status")


def show_measurements(folder: Path, rows: Sequence[Measurement], *, json: bool) -> None:
    """Print measurements with their speed-up over the baseline, failures with their reason."""
    from ..roofline.speedup import speedups

    ratio = speedups(rows)
    if json:
        print_json(
            {
                "run": str(folder),
                "measurements": [row.model_dump(mode="json") | {"speedup": ratio.get(row.key)} for row in rows],
            }
        )
        return
    cells = [
        (
            row.operator,
            row.implementation,
            seconds(row.median_s),
            "" if row.ci95_low_s is None or row.ci95_high_s is None else span(row.ci95_low_s, row.ci95_high_s),
            "" if row.fraction_of_roof is None else f"{row.fraction_of_roof:.0%}",
            row.bound_by,
            "" if ratio.get(row.key) is None else f"{ratio[row.key]:.3g}x",
            row.status,
        )
        for row in rows
    ]
    shown = console()
    shown.print(table("Measured", _RESULT_COLUMNS, cells, right=("time", "of roof", "vs torch")))
    for row in rows:
        if row.status != "ok":
            shown.print(f"{row.operator} {row.implementation}: {row.status}: {row.message}", markup=False)
    shown.print(f"run folder: {folder}", markup=False)


def show_ceilings(folder: Path, rows: Sequence[CeilingRow], *, json: bool) -> None:
    """Print measured ceilings."""
    if json:
        print_json({"run": str(folder), "ceilings": [row.model_dump(mode="json") for row in rows]})
        return
    cells = [(row.name, _value(row), row.threads, row.method if row.status == "ok" else row.message) for row in rows]
    shown = console()
    shown.print(table("Ceilings", ("ceiling", "measured", "threads", "how"), cells, right=("measured", "threads")))
    shown.print(f"run folder: {folder}", markup=False)


def _value(row: CeilingRow) -> str:
    if row.status != "ok":
        return row.status
    return seconds(row.value) if row.unit == "s" else rate(row.value, row.unit)


def exit_on_failures(rows: Sequence[Measurement | CeilingRow]) -> None:
    """Exit with 1 if a row is a failure; what a device does not support is not one."""
    if any(row.status not in ("ok", "unsupported") for row in rows):
        raise typer.Exit(1)
