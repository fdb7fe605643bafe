"""``roofcast compile``: what the Triton kernels become on GPUs that are absent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from ._options import Json, split_names


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("compile")(compile_kernels)


def _known(what: str, given: Sequence[str], known: Sequence[str]) -> Sequence[str]:
    """Return the given names, or all; a name that is not known is refused before minutes of compiling."""
    for name in given:
        if name not in known:
            raise typer.BadParameter(f"unknown {what} {name!r} of Triton kernels; known: {', '.join(known)}")
    return given or known


def compile_kernels(
    operator: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Operator to compile; repeat or separate by commas."),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Compile target, such as sm_107 or gfx950 (default: all)."),
    ] = None,
    json: Json = False,
) -> None:
    """Compile every Triton kernel for GPUs that are absent and show registers, spills, occupancy and instructions.

    Example: roofcast compile --operator attention.decode --target sm_90,sm_107
    """
    from ..kernels.triton_support import TARGETS
    from ..profiler.compilation.evidence import compile_evidence, triton_operators
    from ._output import console, print_json, table

    operators = _known("operator", split_names(operator or []), triton_operators())
    targets = _known("target", split_names(target or []), TARGETS)
    rows = [e.as_row() for e in compile_evidence(operators, targets)]
    if json:
        print_json(rows)
        return
    names = (
        "operator",
        "kernel",
        "target",
        "warps",
        "registers",
        "spills",
        "shared",
        "matrix",
        "occupancy",
        "limit",
    )
    cells = [
        (
            row["operator"],
            row["kernel"],
            row["target"],
            row["num_warps"],
            row["registers"],
            "?" if row["spills"] is None else row["spills"],
            row["shared_bytes"] and f"{row['shared_bytes'] / 1024:.3g} KiB",
            row["matrix_instruction"],
            row["occupancy"] and f"{row['occupancy']:.0%}",
            row["limited_by"] or row["message"],
        )
        for row in rows
    ]
    console().print(table("", names, cells, right=("warps", "registers", "spills", "shared", "occupancy")))
