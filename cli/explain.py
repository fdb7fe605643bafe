"""``roofcast explain``: the chain behind one projected number."""

from __future__ import annotations

from typing import Annotated

import typer

from ._options import Json, RunFolder


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("explain")(explain)


def explain(
    run: RunFolder,
    row: Annotated[str, typer.Argument(metavar="ROW", help="A row's id, such as P7 or L3 (see project and loop).")],
    json: Json = False,
) -> None:
    """Print how a number came about: measured row, ceilings, formula, band, and the sources of each.

    Example: roofcast explain runs/mine P2
    """
    from ..profiler import load_run
    from ..roofline.explain import explain as chain_of
    from ._output import console, print_json

    chain = chain_of(load_run(run), row)
    if json:
        print_json(chain.as_dict())
        return
    shown = console()
    for line in chain.lines():
        shown.print(line, markup=False)
