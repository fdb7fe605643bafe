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
    cells = [
        (row.name, _value(row), *_beside(row), row.threads, row.method if row.status == "ok" else row.message)
        for row in rows
    ]
    shown = console()
    columns = ("ceiling", "measured", "specified", "share", "threads", "how")
    shown.print(table("Ceilings", columns, cells, right=columns[1:-1]))
    for reason in dict.fromkeys(row.specified_source for row in rows if row.specified is None and row.specified_source):
        shown.print(f"specified: {reason}", markup=False)
    for row in rows:
        if row.disagrees:
            shown.print(f"! {row.name} disagrees with what is specified: {row.specified_source}", markup=False)
    shown.print(f"run folder: {folder}", markup=False)


def _beside(row: CeilingRow) -> tuple[str, str]:
    """Return the specified figure and the share of it that was measured, with a ! where the two disagree."""
    if row.specified is None:
        return "", ""
    share = "" if row.value is None else f"{row.value / row.specified:.0%}{' !' if row.disagrees else ''}"
    return seconds(row.specified) if row.unit == "s" else rate(row.specified, row.unit), share


def _value(row: CeilingRow) -> str:
    if row.status != "ok":
        return row.status
    return seconds(row.value) if row.unit == "s" else rate(row.value, row.unit)


def exit_on_failures(rows: Sequence[Measurement | CeilingRow]) -> None:
    """Exit with 1 if a row is a failure; what a device does not support is not one."""
    if any(row.status not in ("ok", "unsupported") for row in rows):
        raise typer.Exit(1)
