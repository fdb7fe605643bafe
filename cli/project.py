"""``roofcast project``: the measured kernels on hardware that is not at hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._options import DEFAULT_TARGETS, Json, Targets, split_names

if TYPE_CHECKING:
    from ..roofline.projection import Projection

_COLUMNS = ("row", "operator", "from", "target", "time", "80 % band", "bound by", "basis")


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("project")(project)


def project(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="A run folder, such as runs/2026-12-01T09-00-00_host.")
    ] = None,
    to: Targets = DEFAULT_TARGETS,
    every: Annotated[bool, typer.Option("--every", help="Every implementation, not only each case's fastest.")] = False,
    start: Annotated[
        str | None, typer.Option("--from", metavar="silicon:GPU", help="Start from a real GPU's measured tables.")
    ] = None,
    operator: Annotated[
        str | None, typer.Option("--operator", metavar="NAME", help="Only this operator, such as attention.decode.")
    ] = None,
    anchor: Annotated[
        Path | None,
        typer.Option("--anchor", metavar="FILE", help="Times on the target (operator, workload, time_s); with --from."),
    ] = None,
    workload: Annotated[
        list[str] | None, typer.Option("--workload", metavar="NAME=VALUE", help="Only such workloads; with --from.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Print so many lines per target; with --from.")] = 20,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write every line as Parquet or CSV; with --from.")
    ] = None,
    json: Json = False,
) -> None:
    """Project measurements onto other devices, each as low / mid / high with its basis.

    Example: roofcast project runs/mine --to b200,vera-rubin-nvl72

    Without a run: roofcast project --from silicon:h200 --to b200,gb300 --operator attention.decode
    """
    from ._hw_output import print_notices_of

    targets = split_names(to)
    if start is not None:
        if run is not None:
            raise typer.BadParameter("give a run folder or --from, not both", param_hint="--from")
        from ._silicon_output import project_from_silicon

        print_notices_of(targets)
        project_from_silicon(start, targets, operator, anchor, workload or [], limit=limit, out=out, json=json)
        return
    if run is None:
        raise typer.BadParameter("give a run folder, or --from silicon:GPU", param_hint="RUN")
    for name, value in (("--anchor", anchor), ("--workload", workload), ("--out", out)):
        if value:
            raise typer.BadParameter("goes with --from silicon:GPU only", param_hint=name)
    from ..profiler import load_run
    from ..roofline.projection_table import write_projections

    measured = load_run(run)
    print_notices_of(targets)
    found = write_projections(measured, targets, fastest=not every)
    show_projections([item for item in found if operator in (None, item.operator)], json=json)


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
