"""``roofcast loop``: what one step of an RL post-training loop takes and costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._loop_options import DEFAULT_SCENARIO as DEFAULT_SCENARIO
from ._loop_options import FigureFile, FromRun, OnSystems, SetFields, place, scenario_of, systems, tell_files
from ._options import Json

if TYPE_CHECKING:
    from ..roofline.loop import LoopCost

_COLUMNS = ("row", "phase", "time", "80 % band", "GPU-hours", "kWh", "USD", "80 % band", "bound by", "basis")
_RIGHT = ("time", "GPU-hours", "kWh", "USD")
_RUN_COLUMNS = ("system", "steps", "hours", "GPU-hours", "kWh", "USD", "80 % band", "USD per rollout", "USD per point")


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("loop")(loop)


def loop(
    where: Annotated[
        str | None,
        typer.Argument(
            metavar="[SCENARIO|RUN]",
            help="Scenario file or shipped name; or a run folder to project from and to write loop.* to.",
        ),
    ] = None,
    scenario: Annotated[
        str | None, typer.Option(metavar="FILE", help="Scenario file, or the name of a shipped one.")
    ] = None,
    on: OnSystems = None,
    run: FromRun = None,
    set_: SetFields = None,
    curve: Annotated[
        Path | None,
        typer.Option(metavar="CSV", help="Learning curve to fit: columns steps,pass_rate. Goes with --pass-rate."),
    ] = None,
    pass_rate: Annotated[
        float | None, typer.Option(min=0, max=1, help="Pass rate that the run is to reach on the curve.")
    ] = None,
    out: Annotated[
        list[Path] | None,
        typer.Option("--out", metavar="FILE", help=".parquet .csv .json .xlsx .focus.csv agg_NAME.json; repeat."),
    ] = None,
    figure: FigureFile = None,
    json: Json = False,
) -> None:
    """Estimate seconds, GPU-hours, kWh and dollars of one step, per phase, with bands.

    Without --run every operator stands on specifications; with a run folder, or silicon:h200 for the measured tables
    of a real GPU, measured operators take their projection.

    Example: roofcast loop qwen3-30b-a3b-grpo-math --on b200,gb300-nvl72,vera-rubin-nvl72 --out cost.xlsx
    """
    from ..roofline.loop import loop_cost, write_loop
    from ..roofline.loop.carried import silicon_source
    from ..roofline.loop.change import changed
    from ..roofline.loop.exports.write import write_cost
    from ..roofline.loop.figures import phase_bars
    from ._hw_output import print_notices_of

    run, named = place(where, run)
    chosen = scenario_of(scenario or named, set_)
    if (curve is None) != (pass_rate is None):
        raise typer.BadParameter("--curve and --pass-rate go together")
    if curve is not None:
        from ..roofline.loop.target import fit_curve, read_points

        goal = {"pass_rate": pass_rate, "curve": fit_curve(read_points(curve)).model_dump()}
        chosen = changed(chosen, {"goal": goal})
    named_systems = systems(on)
    print_notices_of(named_systems or chosen.systems)
    cost = loop_cost(chosen, named_systems, run)
    if run is not None and not silicon_source(run):
        write_loop(run, cost)
    files = [write_cost(cost, path) for path in out or []]
    if figure is not None:
        files.append(phase_bars(cost, figure))
    show_loop(cost, json=json)
    if not json:
        tell_files(files)
    if not cost.rows:
        raise typer.Exit(1)


def show_loop(cost: LoopCost, *, json: bool) -> None:
    """Print the loop cost, one line per system and phase."""
    from ._output import console, number, print_json, seconds, span, table

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
                number(row["gpu_hours_mid"]),
                number(row["kwh_mid"]),
                number(row["usd_mid"]),
                f"{number(row['usd_low'])} to {number(row['usd_high'])}",
                row["bound_by"],
                row["basis"],
            )
            for row in cost.rows
            if row["system"] == system
        ]
        shown.print(table(f"One step of {cost.scenario.title} on {system}", _COLUMNS, cells, right=_RIGHT))
    runs = cost.as_dict()["runs"]
    if runs:
        rate = runs[0].get("pass_rate")
        title = "The run" if rate is None else f"The run to a pass rate of {rate:g}"
        shown.print(table(title, _RUN_COLUMNS, [_run_cells(row) for row in runs], right=_RUN_COLUMNS[1:]))
    for system, reason in cost.problems.items():
        shown.print(f"{system}: {reason}", markup=False)


def _run_cells(row: dict[str, Any]) -> tuple[str, ...]:
    from ._output import number

    names = ("steps", "hours", "gpu_hours", "kwh", "usd")
    point = f"{row['usd_per_point_mid']:.3g}" if "usd_per_point_mid" in row else ""
    return (
        row["system"],
        *(number(row[f"{name}_mid"], 4) for name in names),
        f"{number(row['usd_low'])} to {number(row['usd_high'])}",
        f"{row['usd_per_rollout_mid']:.3g}",
        point,
    )
