"""``roofcast plan``: how many GPUs, and laid out how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

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

if TYPE_CHECKING:
    from ..roofline.loop.questions.search import Choice

_COLUMNS = ("GPUs", "generate", "rollout layout", "train layout", "step", "USD", "")


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("plan")(plan)


def plan(
    scenario: ScenarioName = DEFAULT_SCENARIO,
    on: OneSystem = DEFAULT_SYSTEM,
    least: Annotated[Literal["usd", "time_s"], typer.Option(help="What to make least: dollars or seconds.")] = "usd",
    deadline: Annotated[
        str | None, typer.Option(metavar="TIME", help="Longest step, with a unit: '300 s' or '5 min'.")
    ] = None,
    most_gpus: Annotated[
        int | None, typer.Option("--most-gpus", min=1, help="Largest count tried (default: four times the scenario's).")
    ] = None,
    run: FromRun = None,
    set_: SetFields = None,
    figure: FigureFile = None,
    json: Json = False,
) -> None:
    """Search GPU count, split of generation and training, parallelism and microbatch for least dollars or time.

    Says why smaller counts do not fit, and what would make an infeasible request feasible (exit code 1).

    Example: roofcast plan deepseek-v3-grpo-reasoning --on gb300-nvl72 --deadline "15 min"
    """
    from ..roofline.loop.figures import counts
    from ..roofline.loop.questions.plan import plan as ask
    from ..roofline.loop.questions.plan import read_deadline
    from ._output import console, print_json, seconds, span, table

    deadline_s = read_deadline(deadline) if deadline else None
    found = ask(scenario_of(scenario, set_), on, objective=least, deadline_s=deadline_s, most_gpus=most_gpus, run=run)
    files = [counts(found.as_dict(), figure)] if figure else []
    if json:
        print_json(found.as_dict())
    else:
        shown = console()
        cells = [
            (*_layout(c), seconds(c.time_s), f"{c.usd:.4g}", "best" if c is found.best else "") for c in found.by_count
        ]
        shown.print(table(f"{scenario} on {found.system}", _COLUMNS, cells, right=("GPUs", "generate", "step", "USD")))
        if found.cost is not None:
            step = found.cost.step(found.system)
            shown.print(
                f"best: {span(step['time_low_s'], step['time_high_s'])} and {step['usd_low']:.3g} to "
                f"{step['usd_high']:.3g} USD a step, 80 % bands; {found.searched} layouts tried",
                markup=False,
            )
        for reason in found.reasons:
            shown.print(reason, markup=False)
        tell_files(files)
    if found.best is None:
        raise typer.Exit(1)


def _layout(choice: Choice) -> tuple[object, ...]:
    d = choice.as_dict()
    rollout = "{replicas} x (tensor {tensor}, expert {expert})".format(**d["rollout"])
    train = "tensor {tensor}, pipeline {pipeline}, context {context}, expert {expert}, data {data}".format(**d["train"])
    return d["gpus"], d["rollout_gpus"], rollout, train
