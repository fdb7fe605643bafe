"""``roofcast explain``: the chain behind one projected number."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._options import Json

if TYPE_CHECKING:
    from ..roofline.explain import Chain


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("explain")(explain)


def explain(
    run: Annotated[str, typer.Argument(metavar="RUN|silicon:GPU", help="A run folder, or a GPU's measured tables.")],
    row: Annotated[
        str,
        typer.Argument(metavar="ROW", help="A row's id, such as P7 or L3 (see project and loop), or OPERATOR@TARGET."),
    ],
    workload: Annotated[
        list[str] | None, typer.Option("--workload", metavar="NAME=VALUE", help="Choose a row of silicon:GPU; repeat.")
    ] = None,
    kernel: Annotated[
        str, typer.Option("--kernel", metavar="PARTS", help="Choose a kernel of silicon:GPU, such as 'vllm | bf16'.")
    ] = "",
    json: Json = False,
) -> None:
    """Print how a number came about: measured row, ceilings, formula, band, and the sources of each.

    Example: roofcast explain runs/mine P2

    Of a real GPU: roofcast explain silicon:h200 attention.prefill@b200 --workload batch=1 --kernel 'vllm | bf16'
    """
    from ._output import console, print_json

    chain = _chain(run, row, workload or [], kernel)
    if json:
        print_json(chain.as_dict())
        return
    shown = console()
    for line in chain.lines():
        shown.print(line, markup=False)


def _chain(run: str, row: str, workloads: list[str], kernel: str) -> Chain:
    kind, _, gpu = run.partition(":")
    if kind == "silicon" and gpu:
        from ..roofline.transfer.explain import explain_silicon

        return explain_silicon(gpu, row, workloads=workloads, kernel=kernel)
    if workloads or kernel:
        raise typer.BadParameter("goes with silicon:GPU only", param_hint="--workload" if workloads else "--kernel")
    from ..profiler import load_run
    from ..roofline.explain import explain as chain_of

    return chain_of(load_run(Path(run)), row)
