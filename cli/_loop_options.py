"""Options and arguments of the commands that ask about a scenario."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._options import split_names

if TYPE_CHECKING:
    from ..roofline.loop import Scenario

DEFAULT_SCENARIO = "qwen3-30b-a3b-grpo-math"

ScenarioName = Annotated[str, typer.Argument(metavar="[SCENARIO]", help="Scenario file, or the name of a shipped one.")]
OnSystems = Annotated[
    list[str] | None,
    typer.Option("--on", metavar="NAME", help="System to run on; repeat or separate by commas."),
]
OneSystem = Annotated[str, typer.Option("--on", metavar="NAME", help="System to run on.")]
FromRun = Annotated[
    str | None,
    typer.Option("--run", metavar="RUN|silicon:GPU", help="Run folder, or a GPU's measured tables, to project from."),
]
SetFields = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Change a field of the scenario first; repeat."),
]
FigureFile = Annotated[Path | None, typer.Option("--figure", metavar="FILE", help="Draw a figure: .png, .svg or .pdf.")]
DEFAULT_SYSTEM = "vera-rubin-nvl72"


def place(where: str | None, run: str | None) -> tuple[str | None, str]:
    """Return the source of measurements and the scenario of a positional argument: a directory is a run.

    Raises
    ------
    StoreError
        If a run folder is none.
    """
    from ..roofline.loop.carried import silicon_source

    if where is not None and (silicon_source(where) or _is_folder(where)):
        run, where = where, None
    if run is not None and not silicon_source(run):
        from ..profiler import load_run

        load_run(run)
    return run, where or DEFAULT_SCENARIO


def _is_folder(where: str) -> bool:
    if Path(where).is_dir():
        return True
    # A path that does not exist was meant as a run unless it looks like a scenario.
    return "/" in where and not Path(where).is_file() and Path(where).suffix not in (".yaml", ".yml")


def scenario_of(name: str, changes: list[str] | None = None) -> Scenario:
    """Return a scenario with changed fields.

    Raises
    ------
    ScenarioError
        If there is none, or a change is not possible.
    """
    from ..roofline.loop import load_scenario
    from ..roofline.loop.change import changed
    from ..roofline.loop.questions.what_if import parse_change

    scenario = load_scenario(name)
    made = dict(parse_change(text) for text in changes or [])
    return changed(scenario, {field: values[0] if len(values) == 1 else values for field, values in made.items()})


def systems(on: list[str] | None) -> list[str] | None:
    """Return the names of systems, or nothing for the scenario's own."""
    return split_names(on) if on else None


def tell_files(paths: Iterable[Path]) -> None:
    """Print the files that were written."""
    from ._output import console

    for path in paths:
        console().print(str(path), markup=False)
