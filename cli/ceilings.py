"""``roofcast ceilings``: measure the limits of this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from ._options import Json, Out


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("ceilings")(ceilings)


def ceilings(
    device: Annotated[str, typer.Option(help="cpu, cuda:0, ...")] = "cpu",
    quick: Annotated[bool, typer.Option("--quick", help="Only the ceilings that the main job needs.")] = False,
    out: Out = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out; measured ones are kept.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure the limits of this machine: bandwidth per memory level, FMA, matrix and exponential rates, latency.

    Example: roofcast ceilings --quick
    """
    from ..profiler import CeilingRow, Settings
    from ._measuring import Choices, measure_ceilings, open_folder
    from ._results import exit_on_failures, show_ceilings

    with open_folder(out, Settings(), Choices(device, resume)) as folder:
        measure_ceilings(folder, device, full=not quick)
        rows = [row for row in folder.rows() if isinstance(row, CeilingRow) and row.device == device]
        folder.finish()
    show_ceilings(folder.path, rows, json=json)
    exit_on_failures(rows)
