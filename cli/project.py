"""``roofcast project``: the measured kernels on hardware that is not at hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ._options import DEFAULT_TARGETS, Json, RunFolder, Targets, split_names

if TYPE_CHECKING:
    from ..roofline.projection import Projection

_COLUMNS = ("row", "operator", "from", "target", "time", "80 % band", "bound by", "basis")


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("project")(project)


def project(
    run: RunFolder,
    to: Targets = DEFAULT_TARGETS,
    every: Annotated[bool, typer.Option("--every", help="Every implementation, not only each case's fastest.")] = False,
    json: Json = False,
) -> None:
    """Project a run's measurements onto other devices, each as low / mid / high with its basis.

    Example: roofcast project runs/mine --to b200,vera-rubin-nvl72
    """
    from ..profiler import load_run
    from ..roofline.projection_table import write_projections

    show_projections(write_projections(load_run(run), split_names(to), fastest=not every), json=json)


def show_projections(projections: Sequence[Projection], *, json: bool) -> None:
    """Print projections, one line each."""
    from dataclasses import asdict

    from ._output import console, print_json, seconds, span, table

    if json:
        print_json({"projections": [asdict(item) for item in projections]})
        return
    cells = [
        (
            item.id,
            item.operator,
            f"{item.implementation} on {item.source_device}",
            item.target,
            seconds(item.time_mid_s),
            span(item.time_low_s, item.time_high_s),
            item.bound_by,
            item.basis,
        )
        for item in projections
    ]
    console().print(table("Projected", _COLUMNS, cells, right=("time",)))
