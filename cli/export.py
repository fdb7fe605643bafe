"""``roofcast export``: a run's rows as tables for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._options import Json, RunFolder


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("export")(export)


def export(
    run: RunFolder,
    format: Annotated[str, typer.Option(help="parquet, csv or json.")] = "parquet",  # noqa: A002 (the option's name)
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where to write (default: the run folder).")
    ] = None,
    json: Json = False,
) -> None:
    """Write measurements, samples and ceilings of a run as tables; docs/data.md describes the columns.

    Example: roofcast export runs/mine --format csv --out tables
    """
    from ..profiler import load_run
    from ..profiler.export import export_run
    from ._output import console, print_json

    paths = [str(path) for path in export_run(load_run(run), format, out)]
    if json:
        print_json({"files": paths})
        return
    for path in paths:
        console().print(path, markup=False)
