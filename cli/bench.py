"""``roofcast bench``: measure kernels on this machine, each checked before and after."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._options import Json, Out, split_names

if TYPE_CHECKING:
    from ..kernels import Workload


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("bench")(bench)


def bench(
    suite: Annotated[
        str,
        typer.Option(
            help="Suite: quick, a family of operators (moe, attention, sampling, train, sync, linear), or rl for all."
        ),
    ] = "quick",
    operator: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Measure only this operator; repeat or use commas.")
    ] = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=VALUE,...", help="A workload of --operator instead of the suite's; repeatable."),
    ] = None,
    implementation: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Measure only this implementation; repeat or use commas.")
    ] = None,
    plugin: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Python file with operators or implementations of yours.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda:0, ...")] = "cpu",
    cache: Annotated[str, typer.Option(help="cold (cache flushed before each sample) or warm.")] = "cold",
    budget: Annotated[float, typer.Option(metavar="SECONDS", help="Longest sampling time of one case.")] = 2.0,
    seed: Annotated[int, typer.Option(help="Seed of the inputs.")] = 0,
    out: Out = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out; done cases are kept.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="With --resume: measure failed cases again.")
    ] = False,
    isolate: Annotated[bool, typer.Option("--isolate", help="Run each case in a process of its own.")] = False,
    ceilings: Annotated[
        bool, typer.Option("--ceilings/--no-ceilings", help="First measure the ceilings that the points are judged by.")
    ] = True,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="With --isolate: longest time of one case.")
    ] = 120.0,
    memory_limit: Annotated[
        float | None, typer.Option(metavar="GB", help="With --isolate: memory that one case may use.")
    ] = None,
    aa: Annotated[
        bool, typer.Option("--aa", help="Measure every case twice in turns; the second rows go to DIR-aa.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure kernels on this machine; exit 1 if a case failed.

    Example: roofcast bench --suite quick --out runs/mine
    Example: roofcast bench --operator attention.decode --workload batch=4,context=8192 --implementation numba,torch
    """
    from ..kernels import load_plugin
    from ..profiler import Settings, make_cases
    from ._measuring import Choices, measure_cases, measure_ceilings, measure_twice, open_folder
    from ._results import exit_on_failures, show_measurements

    if cache not in ("cold", "warm"):
        raise typer.BadParameter(f"--cache {cache!r}: choose cold or warm")
    if memory_limit is not None and not 0 < memory_limit < float("inf"):
        raise typer.BadParameter(f"--memory-limit {memory_limit}: give a finite number of GB above zero")
    for path in plugin or ():
        load_plugin(path)
    settings = Settings(
        seed=seed,
        budget_s=budget,
        timeout_s=timeout,
        memory_limit_bytes=None if memory_limit is None else int(memory_limit * 1e9),
        plugins=tuple(str(path.resolve()) for path in plugin or ()),
    )
    names = split_names(implementation) if implementation else None
    items = _items(suite, split_names(operator or []), workload or [])
    cases = make_cases(items, device=device, implementations=names, cache_state=cache)
    choices = Choices(device, resume, retry_failed, isolate)
    with open_folder(out, settings, choices) as folder:
        if ceilings:
            measure_ceilings(folder, device)
        if aa:
            measure_twice(folder, cases, settings, choices)
        rows = measure_cases(folder, cases, settings, choices)
        folder.finish()
    show_measurements(folder.path, rows, json=json)
    exit_on_failures(rows)


def _items(suite: str, operators: list[str], workloads: list[str]) -> list[tuple[str, Workload]]:
    from ..profiler.suites import operator_workloads
    from ..profiler.suites import suite as workloads_of_suite
    from ..profiler.workload_text import parse_workload

    if not operators:
        if workloads:
            raise typer.BadParameter("--workload needs --operator, which says what the fields are of")
        return workloads_of_suite(suite)
    if workloads:
        return [(name, parse_workload(name, text)) for name in operators for text in workloads]
    return [(name, workload) for name in operators for workload in operator_workloads(name)]
