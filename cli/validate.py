"""``roofcast validate``: how far predicted steps are from published ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ._options import Json

_COLUMNS = ("set", "source", "system", "rows", "median error", "predicted / published", "in the 80 % band")


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("validate")(validate)


def validate(
    rows: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Score these rows instead; columns of rl_ground_truth.csv.")
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="Also every row.")] = False,
    json: Json = False,
) -> None:
    """Compare predicted with published steps, on rows that did and did not set the parameters.

    Example: roofcast validate --rows mine.csv
    """
    from ..roofline.loop.validate import validate as compare
    from ._output import console, print_json, seconds, span, table

    found = compare(rows).as_dict()
    if json:
        print_json(found)
        return
    shown = console()
    scored = [{"set": "held out, all", "source": "", "system": "", **found["held_out"]}, *found["by_source"]]
    shown.print(table("Step time", _COLUMNS, [_cells(row) for row in scored if row["rows"]], right=_COLUMNS[3:]))
    if each:
        columns = ("set", "model", "system", "GPUs", "schedule", "published", "predicted", "ratio")
        lines = [
            (
                *(row[name] for name in ("set", "model", "system", "gpus", "schedule")),
                seconds(row["published_s"]),
                span(row["predicted_low_s"], row["predicted_high_s"]),
                f"{row['ratio']:.2f}",
            )
            for row in found["rows"]
        ]
        shown.print(table("Rows", columns, lines, right=("GPUs", "published", "ratio")))
    left_out = sum(found["skipped"].values())
    if left_out:
        common = ", ".join(f"{count} {why}" for why, count in list(found["skipped"].items())[:3])
        shown.print(f"{left_out} rows say too little to be predicted: {common} ...", markup=False)


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    return (
        row["set"].replace("_", " "),
        row["source"],
        row["system"],
        row["rows"],
        f"{row['median_abs_error']:.1%}",
        f"{row['bias']:.2f}",
        f"{row['coverage']:.0%}",
    )
