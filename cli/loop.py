"""``roofcast loop``: what one step of an RL post-training loop takes and costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._options import Json, split_names

if TYPE_CHECKING:
    from ..roofline.loop import LoopCost

DEFAULT_SCENARIO = "qwen3-30b-a3b-grpo-math"
_COLUMNS = ("row", "phase", "time", "80 % band", "GPU-hours", "kWh", "USD", "80 % band", "bound by", "basis")
_RIGHT = ("time", "GPU-hours", "kWh", "USD")


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("loop")(loop)


def loop(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="Run folder whose projections to use and to write loop.* to.")
    ] = None,
    scenario: Annotated[
        str, typer.Option(metavar="FILE", help="Scenario file, or the name of a shipped one.")
    ] = DEFAULT_SCENARIO,
    on: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="System to run on; repeat or separate by commas.")
    ] = None,
    json: Json = False,
) -> None:
    """Estimate seconds, GPU-hours, kWh and dollars of one step, per phase, with bands.

    Without a run folder every operator stands on specifications; with one, measured operators take their projection.

    Example: roofcast loop --scenario scenarios/qwen3-30b-a3b-grpo-math.yaml --on b200,vera-rubin-nvl72
    """
    from ..profiler import load_run
    from ..roofline.loop import loop_cost, write_loop

    if run is not None:
        load_run(run)
    cost = loop_cost(scenario, split_names(on) if on else None, run)
    if run is not None:
        write_loop(run, cost)
    show_loop(cost, json=json)
    if not cost.rows:
        raise typer.Exit(1)


def show_loop(cost: LoopCost, *, json: bool) -> None:
    """Print the loop cost, one line per system and phase."""
    from ._output import console, print_json, seconds, span, table

    if json:
        print_json(cost.as_dict())
        return
    shown = console()
    for system in dict.fromkeys(row["system"] for row in cost.rows):
        cells = [
            (
                row["id"],
                row["phase"],
                seconds(row["time_mid_s"]),
                span(row["time_low_s"], row["time_high_s"]),
                f"{row['gpu_hours_mid']:.3g}",
                f"{row['kwh_mid']:.3g}",
                f"{row['usd_mid']:.3g}",
                f"{row['usd_low']:.3g} to {row['usd_high']:.3g}",
                row["bound_by"],
                row["basis"],
            )
            for row in cost.rows
            if row["system"] == system
        ]
        shown.print(table(f"One step of {cost.scenario.title} on {system}", _COLUMNS, cells, right=_RIGHT))
    for system, reason in cost.problems.items():
        shown.print(f"{system}: {reason}", markup=False)
