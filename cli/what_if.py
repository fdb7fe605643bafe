"""``roofcast what-if``: a scenario with one field at several values."""

from __future__ import annotations

from typing import Annotated

import typer

from ._loop_options import FigureFile, FromRun, OnSystems, ScenarioName, SetFields, scenario_of, systems, tell_files
from ._options import Json

_COLUMNS = ("value", "system", "step", "80 % band", "GPU-hours", "USD", "80 % band", "USD per 1e6 tokens", "bound by")


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("what-if")(what_if)


def what_if(
    scenario: ScenarioName,
    change: Annotated[str, typer.Argument(metavar="FIELD=VALUE,...", help="Field of the scenario and its values.")],
    on: OnSystems = None,
    run: FromRun = None,
    set_: SetFields = None,
    figure: FigureFile = None,
    json: Json = False,
) -> None:
    """Show what a step takes and costs with one field of the scenario at several values.

    Example: roofcast what-if qwen3-30b-a3b-grpo-math cluster.gpus=16,32,64 --on gb300-nvl72
    """
    from ..roofline.loop.figures import curves
    from ..roofline.loop.questions.what_if import parse_change, possible
    from ..roofline.loop.questions.what_if import what_if as ask
    from ._output import console, print_json, seconds, span, table

    field, values = parse_change(change)
    rows = ask(scenario_of(scenario, set_), field, values, systems(on), run)
    files = [curves(rows, figure)] if figure else []
    if json:
        print_json({"field": field, "rows": rows})
        return
    cells = [
        (
            row["value"],
            row["system"],
            seconds(row["time_mid_s"]),
            span(row["time_low_s"], row["time_high_s"]),
            f"{row['gpu_hours_mid']:.3g}",
            f"{row['usd_mid']:.3g}",
            f"{row['usd_low']:.3g} to {row['usd_high']:.3g}",
            f"{row['usd_per_million_tokens_mid']:.3g}",
            row["bound_by"],
        )
        for row in possible(rows)
    ]
    console().print(table(field, _COLUMNS, cells, right=("step", "GPU-hours", "USD", "USD per 1e6 tokens")))
    for row in rows:
        if "problem" in row:
            console().print(f"{row['value']} on {row['system']}: {row['problem']}", markup=False)
    tell_files(files)
