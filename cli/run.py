"""``roofcast run``: the main job, from this machine's limits to dollars per step on hardware that is not at hand."""

from __future__ import annotations

from typing import Annotated

import typer

from ._options import DEFAULT_TARGETS, Json, Out, Targets, split_names
from .loop import DEFAULT_SCENARIO


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("run")(run)


def run(
    to: Targets = DEFAULT_TARGETS,
    scenario: Annotated[
        str, typer.Option(metavar="FILE", help="Scenario file, or the name of a shipped one.")
    ] = DEFAULT_SCENARIO,
    device: Annotated[str, typer.Option(help="cpu, cuda:0, ...")] = "cpu",
    budget: Annotated[float, typer.Option(metavar="SECONDS", help="Longest sampling time of one case.")] = 2.0,
    out: Out = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out; done cases are kept.")] = False,
    json: Json = False,
) -> None:
    """Measure this machine and three operators, project them, and estimate the loop cost; takes under three minutes.

    Example: roofcast run --out runs/mine
    """
    from dataclasses import asdict

    from ..profiler import CeilingRow, Settings, load_run, make_cases
    from ..profiler.machine import inspect_machine
    from ..profiler.suites import suite
    from ..roofline.loop import load_scenario, loop_cost, write_loop
    from ..roofline.plot import write_figures
    from ..roofline.projection_table import write_projections
    from ..roofline.report import write_report
    from ..roofline.targets import load_target
    from ._machine import show_machine
    from ._measuring import Choices, measure_cases, measure_ceilings, open_folder
    from ._output import console, print_json
    from ._results import exit_on_failures, show_ceilings, show_measurements
    from .loop import show_loop
    from .project import show_projections

    targets = split_names(to)
    chosen = load_scenario(scenario)
    for name in targets:  # A misspelt target is worth nothing after minutes of measuring.
        load_target(name)
    settings, choices = Settings(budget_s=budget, energy_s=1.0), Choices(device, resume)
    with open_folder(out, settings, choices) as folder:
        if not json:
            show_machine(inspect_machine())
        measure_ceilings(folder, device)
        rows = measure_cases(folder, make_cases(suite("quick"), device=device), settings, choices)
        ceilings = [row for row in folder.rows() if isinstance(row, CeilingRow) and row.device == device]
        folder.finish()
    measured = load_run(folder.path)
    projections = write_projections(measured, targets)
    cost = loop_cost(chosen, targets, folder.path)
    write_loop(folder.path, cost)
    write_figures(measured)
    report = write_report(measured)
    if json:
        print_json(
            {
                "run": str(folder.path),
                "report": str(report),
                "ceilings": [row.model_dump(mode="json") for row in ceilings],
                "measurements": [row.model_dump(mode="json") for row in rows],
                "projections": [asdict(item) for item in projections],
                "loop": cost.as_dict(),
            }
        )
    else:
        show_ceilings(folder.path, ceilings, json=False)
        show_measurements(folder.path, rows, json=False)
        show_projections(projections, json=False)
        show_loop(cost, json=False)
        console().print(f"report: {report}", markup=False)
    exit_on_failures([*ceilings, *rows])
