"""``roofcast backtest``: how well projections met GPUs that were measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._options import Json, split_names

if TYPE_CHECKING:
    from rich.table import Table

    from ..profiler.store import Run
    from ..roofline.transfer import Backtest
    from ..roofline.transfer.run_backtest import RunBacktest

_COLUMNS = ("class", "groups", "n", "median error", "p90", "bias", "in 80 % band", "band high / low")


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("backtest")(backtest)


def backtest(
    pair: Annotated[
        list[str] | None,
        typer.Option("--pair", metavar="FROM:TO", help="Two measured GPUs, such as H200:B200; repeat."),
    ] = None,
    operator: Annotated[
        str | None, typer.Option("--operator", metavar="NAME", help="Only this operator or class of operators.")
    ] = None,
    anchors: Annotated[
        int, typer.Option("--anchors", min=0, max=512, help="Measurements of each kernel on the target to look at.")
    ] = 0,
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="RUN", help="A run folder to hold against measured GPUs, alone or with --all."),
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="GPU,...", help="The measured GPUs for --run (default: h100,h200,b200)."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="The standard pairs, with and without anchors.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write backtest.md and its figure here (with --all).")
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            "--calibrate", metavar="FILE", help="Teach every calibration anew and write it, and nothing else."
        ),
    ] = None,
    classes: Annotated[
        Path | None,
        typer.Option(
            "--classes", metavar="FILE", help="Learn kernel_classes.yaml anew and write it, and nothing else."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Project the measured kernels of one GPU onto another that was measured too, and print the errors.

    The target's own data, and that of GPUs of its design, take no part in the projection. Needs the measured tables:
    pip install 'roofcast[silicon]'.

    Example: roofcast backtest --pair H200:B200 --anchors 16

    Of this machine: roofcast bench --suite silicon --out runs/silicon, then roofcast backtest --run runs/silicon
    """
    from ..roofline.transfer.standard import RUN_TARGETS, StandardRun, hold_run, run_all, split_pair

    if classes is not None:
        from ..roofline.transfer.classes import write_classes

        write_classes(classes)
        return
    if calibrate is not None:
        from ..roofline.silicon.package import tables_version
        from ..roofline.transfer.shipped import write_calibrations

        write_calibrations(calibrate, tables_version())
        return
    if out is not None and not every:
        raise typer.BadParameter("write documents of the standard pairs: add --all", param_hint="--out")
    if run is not None and pair:
        raise typer.BadParameter("give a pair of GPUs or a run, not both", param_hint="--run")
    held = hold_run(_load(run), split_names(to) if to else RUN_TARGETS, operator=operator) if run is not None else ()
    if every:
        done = replace(run_all(operator=operator), from_run=held)
        if out is not None:
            from ..roofline.transfer.document import write_document

            write_document(done, out)
    elif held:
        done = StandardRun((), {}, held)
    else:
        from ..roofline.transfer import backtest as run_one
        from ..roofline.transfer import noise_floor

        found = [run_one(*split_pair(text), operator=operator, anchors=anchors) for text in pair or ["H200:B200"]]
        done = StandardRun(tuple(found), {item.target: noise_floor(item.target) for item in found})
    if json:
        _print(done.as_dict())
        return
    for item in done.backtests:
        _show(item)
    for item in done.from_run:
        _show_run(item)
    if done.noise:
        _show_noise(done.noise)


def _load(run: Path) -> Run:
    from ..profiler import load_run

    return load_run(run)


def _print(value: dict[str, Any]) -> None:
    from ._output import print_json

    print_json(value)


def _show_run(item: RunBacktest) -> None:
    from ._output import console

    console().print(_scores(f"{item.source} to {item.target}, {item.basis}, nothing of its design known", item))


def _scores(title: str, item: Backtest | RunBacktest) -> Table:
    from ._output import table

    cells = [_cells(line) for line in item.rows]
    cells += [_cells(lines[-1], f"all, {name}") for name, lines in item.baselines.items()]
    return table(title, _COLUMNS, cells, right=_COLUMNS[1:])


def _show(item: Backtest) -> None:
    from ._output import console, table

    shown = console()
    title = f"{item.source} to {item.target}, {item.basis}, " + (
        f"{item.anchors} anchors per kernel" if item.anchors else "nothing of the target known"
    )
    shown.print(_scores(title, item))
    worst = [
        (line["group"], line["n"], f"{line['median_abs_error']:.0%}", f"{line['bias']:+.0%}") for line in item.worst
    ]
    shown.print(table("Largest errors", ("kernel", "n", "median error", "bias"), worst[:5], right=("n",)))


def _cells(line: dict[str, Any], name: str = "") -> tuple[object, ...]:
    return (
        name or line["operator_class"],
        line["groups"],
        line["n"],
        f"{line['median_abs_error']:.1%}",
        f"{line['p90_abs_error']:.0%}",
        f"{line['bias']:+.1%}",
        "" if line["coverage"] is None else f"{line['coverage']:.0%}",
        "" if line["band_ratio"] is None else f"{line['band_ratio']:.2f}",
    )


def _show_noise(noise: Mapping[str, list[dict[str, Any]]]) -> None:
    from ._output import console, table

    cells = [
        (gpu, line["operator_class"], line["groups"], f"{line['median_abs_error']:.1%}", f"{line['p90_abs_error']:.0%}")
        for gpu, lines in noise.items()
        for line in lines
    ]
    title = "Noise floor: the same kernel and shape in two software versions on one GPU"
    console().print(table(title, ("gpu", "class", "groups", "median", "p90"), cells, right=("groups", "median", "p90")))
