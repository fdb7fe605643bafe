"""``roofcast validate``: how far predicted times are from published ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ._options import Json

_COLUMNS = (
    "phase",
    "set",
    "source",
    "system",
    "rows",
    "median error",
    "predicted / published",
    "in the 80 % band",
)


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
    """Compare predicted with published times of steps and phases, on rows that did and did not set the parameters.

    Example: roofcast validate --rows mine.csv
    """
    from ..roofline.loop.validate import validate as compare
    from ._output import console, print_json, seconds, span, table

    found = compare(rows).as_dict()
    if json:
        print_json(found)
        return
    shown = console()
    alone = {"step": found["held_out"], **found["held_out_phases"]}
    whole = [{"phase": phase, "set": "held out", "source": "all", "system": "", **of} for phase, of in alone.items()]
    scored = [row for row in [*whole, *found["by_source"]] if row["rows"]]
    shown.print(table("Published times", _COLUMNS, [_cells(row) for row in scored], right=_COLUMNS[4:]))
    if each:
        columns = ("phase", "set", "model", "system", "GPUs", "schedule", "published", "predicted", "ratio")
        lines = [
            (
                *(row[name] for name in ("phase", "set", "model", "system", "gpus", "schedule")),
                seconds(row["published_s"]),
                span(row["predicted_low_s"], row["predicted_high_s"]),
                f"{row['ratio']:.2f}",
            )
            for row in found["rows"]
        ]
        shown.print(table("Rows", columns, lines, right=("GPUs", "published", "ratio")))
    stray = ", ".join(f"{phase.replace('_', ' ')} {share:.0%}" for phase, share in found["step_spread"].items())
    shown.print(f"Single steps of one run are this far from its mean (MLPerf, 256 GB300): {stray}.", markup=False)
    left_out = sum(found["skipped"].values())
    if left_out:
        common = ", ".join(f"{count} {why}" for why, count in list(found["skipped"].items())[:3])
        shown.print(f"{left_out} rows say too little to be predicted: {common} ...", markup=False)


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    return (
        row["phase"].replace("_", " "),
        row["set"].replace("_", " "),
        f"{row['source']} ({row['method'].replace('_', ' ')})" if row.get("method") else row["source"],
        row["system"],
        row["rows"],
        f"{row['median_abs_error']:.1%}",
        f"{row['bias']:.2f}",
        f"{row['coverage']:.0%}",
    )
