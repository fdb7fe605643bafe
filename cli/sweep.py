"""``roofcast sweep``: a grid over fields of a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._loop_options import FromRun, OnSystems, ScenarioName, SetFields, scenario_of, systems, tell_files
from ._options import Json


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("sweep")(sweep)


def sweep(
    scenario: ScenarioName,
    axis: Annotated[
        list[str],
        typer.Argument(metavar="FIELD=VALUE,...", help="Fields and their values; a..b..n is n values evenly."),
    ],
    on: OnSystems = None,
    run: FromRun = None,
    set_: SetFields = None,
    best: Annotated[int, typer.Option(min=1, help="How many of the best points to print.")] = 10,
    by: Annotated[str, typer.Option(help="What is best: the least usd, time_s, gpu_hours or kwh.")] = "usd",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="All points: .parquet or .csv.")] = None,
    json: Json = False,
) -> None:
    """Work out every combination of fields' values, at the middle of all inputs; millions of points.

    Example: roofcast sweep qwen3-30b-a3b-grpo-math cluster.gpus=16,32,64 lengths.response.mean=2000..8000..7
    """
    from ..roofline.loop.questions.sweep import parse_axes, write_points
    from ..roofline.loop.questions.sweep import sweep as ask
    from ._output import console, print_json, seconds, table

    found = ask(scenario_of(scenario, set_), parse_axes(axis), systems(on), run)
    files = [write_points(found, out)] if out else []
    rows = found.best(best, by)
    if json:
        print_json({"points": found.points, "possible": found.possible, "best": rows, "files": files})
    else:
        columns = (*found.axes, "step", "GPU-hours", "USD", "USD per 1e6 tokens")
        cells = [
            (
                *(row[name] for name in found.axes),
                seconds(row["time_s"]),
                f"{row['gpu_hours']:.4g}",
                f"{row['usd']:.4g}",
                f"{row['usd_per_million_tokens']:.4g}",
            )
            for row in rows
        ]
        console().print(table(f"Least {by} of {found.possible:,} possible points of {found.points:,}", columns, cells))
        tell_files(files)
    if not rows:
        raise typer.Exit(1)
