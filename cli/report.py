"""``roofcast report``: one self-contained HTML page of a run."""

from __future__ import annotations

import typer

from ._options import Json, RunFolder


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("report")(report)


def report(run: RunFolder, json: Json = False) -> None:
    """Write report.html of a run: machine, ceilings, results, projections and loop cost, with their sources.

    Example: roofcast report runs/mine
    """
    from ..profiler import load_run
    from ..roofline.report import write_report
    from ._output import console, print_json

    path = write_report(load_run(run))
    if json:
        print_json({"report": str(path)})
    else:
        console().print(str(path), markup=False)
