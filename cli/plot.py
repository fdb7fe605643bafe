"""``roofcast plot``: draw a run's roofline."""

from __future__ import annotations

import typer

from ._options import Json, RunFolder


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("plot")(plot)


def plot(run: RunFolder, json: Json = False) -> None:
    """Draw the measured points under the measured roofs, and the projections if there are any (PNG and SVG).

    Example: roofcast plot runs/mine
    """
    from ..profiler import load_run
    from ..roofline.plot import write_figures
    from ._output import console, print_json

    paths = [str(path) for path in write_figures(load_run(run))]
    if json:
        print_json({"figures": paths})
        return
    for path in paths:
        console().print(path, markup=False)
