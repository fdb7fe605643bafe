"""``roofcast break-even``: the price per GPU-hour below which one system wins."""

from __future__ import annotations

from typing import Annotated

import typer

from ._loop_options import (
    DEFAULT_SCENARIO,
    DEFAULT_SYSTEM,
    FigureFile,
    FromRun,
    OneSystem,
    ScenarioName,
    SetFields,
    scenario_of,
    systems,
    tell_files,
)
from ._options import Json

_COLUMNS = ("against", "time ratio", "USD ratio", "break-even USD/GPU-h", "80 % band", "price", "verdict")


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("break-even")(break_even)


def break_even(
    scenario: ScenarioName = DEFAULT_SCENARIO,
    on: OneSystem = DEFAULT_SYSTEM,
    against: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Other systems (default: the scenario's); repeat or separate by commas."),
    ] = None,
    run: FromRun = None,
    set_: SetFields = None,
    figure: FigureFile = None,
    json: Json = False,
) -> None:
    """Find the price per GPU-hour below which a system's step is cheaper than another's, with its band.

    Example: roofcast break-even qwen3-30b-a3b-grpo-math --on vera-rubin-nvl72 --against gb300-nvl72
    """
    from ..roofline.loop.figures import break_even_prices
    from ..roofline.loop.questions.break_even import break_even as ask
    from ._output import console, print_json, table

    rows = ask(scenario_of(scenario, set_), on, systems(against), run)
    files = [break_even_prices(rows, figure)] if figure else []
    if json:
        print_json({"system": on, "rows": rows})
        return

    def band(value: dict[str, float]) -> str:
        return f"{value['mid']:.3g} ({value['low']:.3g} to {value['high']:.3g})"

    cells = [
        (
            row["against"],
            band(row["time_ratio"]),
            band(row["usd_ratio"]),
            f"{row['break_even_usd_per_gpu_hour']['mid']:.3g}",
            "{low:.3g} to {high:.3g}".format(**row["break_even_usd_per_gpu_hour"]),
            f"{row['price_usd_per_gpu_hour']['mid']:.3g}",
            row["verdict"],
        )
        for row in rows
        if "problem" not in row
    ]
    console().print(table(f"{on} against others", _COLUMNS, cells, right=("break-even USD/GPU-h", "price")))
    for row in rows:
        if "problem" in row:
            console().print(f"{row['against']}: {row['problem']}", markup=False)
    tell_files(files)
    if not cells:
        raise typer.Exit(1)
