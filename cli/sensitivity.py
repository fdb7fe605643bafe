"""``roofcast sensitivity``: which uncertain input matters most."""

from __future__ import annotations

from typing import Annotated, Literal

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
    tell_files,
)
from ._options import Json

_COLUMNS = ("input", "range", "result at low", "at high", "swing", "origin")


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("sensitivity")(sensitivity)


def sensitivity(
    scenario: ScenarioName = DEFAULT_SCENARIO,
    on: OneSystem = DEFAULT_SYSTEM,
    result: Annotated[Literal["usd", "time_s"], typer.Option(help="Dollars or seconds of a step.")] = "usd",
    run: FromRun = None,
    set_: SetFields = None,
    figure: FigureFile = None,
    json: Json = False,
) -> None:
    """Show what each uncertain input at the ends of its range makes of a step, the widest first.

    Example: roofcast sensitivity qwen3-30b-a3b-grpo-math --on vera-rubin-nvl72 --figure tornado.png
    """
    from ..roofline.loop.figures import tornado
    from ..roofline.loop.questions.sensitivity import sensitivity as ask
    from ._output import console, print_json, table

    found = ask(scenario_of(scenario, set_), on, result, run)
    files = [tornado(found, figure)] if figure else []
    if json:
        print_json(found)
        return
    unit = "USD" if result == "usd" else "s"
    cells = [
        (
            row["input"],
            f"{row['input_low']:.3g} to {row['input_high']:.3g} {row['unit']}",
            f"{row[f'{result}_at_low']:.4g} {unit}",
            f"{row[f'{result}_at_high']:.4g} {unit}",
            f"{row['swing']:.1%}",
            row["origin"],
        )
        for row in found["inputs"]
    ]
    title = f"A step of {found['scenario']} on {found['system']}: {found['mid']:.4g} {unit} at the middle"
    console().print(table(title, _COLUMNS, cells, right=("result at low", "at high", "swing")))
    tell_files(files)
