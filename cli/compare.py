"""``roofcast compare``: is run B faster than run A, and by more than noise?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._options import Json

if TYPE_CHECKING:
    from ..profiler.comparison import Comparison

_COLUMNS = ("case", "A", "B", "B / A", "95 % interval", "noise", "p", "effect", "verdict")


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("compare")(compare)


def _fraction(text: str) -> float:
    number = text.strip().removesuffix("%")
    try:
        value = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a share such as 5% or 0.05") from None
    if not 0 <= value < 100:
        raise typer.BadParameter(f"{text!r}: give a share of zero or more, such as 5%")
    return value


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="Run folder to compare with.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Run folder to judge.")],
    fail_above: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Exit 1 if a case of B is slower by more, such as 5%.")
    ] = None,
    aa: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="DIR DIR", help="Two runs of the same code (see bench --aa), which set the noise floor."),
    ] = None,
    json: Json = False,
) -> None:
    """Compare two runs case by case; nothing within the noise floor is called faster or slower.

    Example: roofcast compare runs/before runs/after --fail-above 5%
    """
    from ..profiler import load_run
    from ..profiler.comparison import compare as compare_rows
    from ._output import print_json

    limit = None if fail_above is None else _fraction(fail_above)
    rows_a, rows_b = load_run(a).measurement_rows, load_run(b).measurement_rows
    same_code = None if aa is None else (load_run(aa[0]).measurement_rows, load_run(aa[1]).measurement_rows)
    found = compare_rows(rows_a, rows_b, aa=same_code)
    offenders = [] if limit is None else found.offenders(limit)
    if json:
        print_json(found.as_dict() | {"fail_above": limit, "offenders": [case.key for case in offenders]})
    else:
        _show(found, len(offenders), fail_above)
    if offenders:
        raise typer.Exit(1)


def _show(found: Comparison, offenders: int, fail_above: str | None) -> None:
    from ._output import console, seconds, table

    cells = []
    for case in found.cases:
        measured = case.ratio is not None and case.ratio_low is not None and case.ratio_high is not None
        cells.append(
            (
                case.key.replace("|", " "),
                seconds(case.a_s),
                seconds(case.b_s),
                f"{case.ratio:.3f}" if measured else "",
                f"{case.ratio_low:.3f} to {case.ratio_high:.3f}" if measured else "",
                "" if case.noise_floor is None else f"{case.noise_floor:.1%}",
                "" if case.p_value is None else f"{case.p_value:.2g}",
                "" if case.effect is None else f"{case.effect:+.2f}",
                case.verdict if not case.message else f"{case.verdict}: {case.message}",
            )
        )
    shown = console()
    shown.print(table("B against A", _COLUMNS, cells, right=("A", "B", "B / A", "noise", "p", "effect")))
    shown.print(f"noise floor: {found.noise_basis}", markup=False)
    for remark in found.remarks:
        shown.print(remark, markup=False)
    if fail_above is not None:
        shown.print(f"{offenders} of {len(found.cases)} cases fail the gate of {fail_above}", markup=False)
