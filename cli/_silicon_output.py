"""Project from a real GPU's measured tables and show some of the many lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = ("operator", "kernel", "workload", "source", "target", "time", "80 % band", "bound by", "basis")


def project_from_silicon(
    start: str,
    targets: list[str],
    operator: str | None,
    anchor: Path | None,
    workloads: list[str],
    *,
    limit: int,
    out: Path | None,
    json: bool,
) -> None:
    """Project every measured row of a GPU, write all lines if asked to and print some of each target."""
    from ..roofline.transfer.project import project_silicon

    kind, _, gpu = start.partition(":")
    if kind != "silicon" or not gpu:
        raise typer.BadParameter(f"{start!r}: give silicon:GPU, such as silicon:h200", param_hint="--from")
    found = project_silicon(gpu, targets, operator=operator, anchors=anchor)
    for part in workloads:
        padded = ", " + found["workload"].astype(str) + ","
        found = found[padded.str.contains(f", {part},", regex=False)]
    if found.empty:
        raise typer.BadParameter(f"no measured row has {' and '.join(workloads)}", param_hint="--workload")
    if out is not None:
        _write(found, out)
    shown = _some(found, limit)
    if json:
        _print_json(start, found, shown)
        return
    _print_table(start, found, shown)


def _write(found: pd.DataFrame, out: Path) -> None:
    if out.suffix == ".csv":
        found.to_csv(out, index=False)
    elif out.suffix == ".parquet":
        found.to_parquet(out, index=False)
    else:
        raise typer.BadParameter(f"{out}: give a name that ends in .parquet or .csv", param_hint="--out")


def _some(found: pd.DataFrame, limit: int) -> pd.DataFrame:
    """Return lines spread over each target's kernels and sizes."""
    parts = []
    for _, own in found.groupby("target", sort=False):
        ordered = own.sort_values(["group", "source_s"])
        step = max(1, len(ordered) // limit)
        parts.append(ordered.iloc[step // 2 :: step].head(limit))
    import pandas as pd

    return pd.concat(parts)


def _print_json(start: str, found: pd.DataFrame, shown: pd.DataFrame) -> None:
    from ._output import print_json

    lines = shown.astype(dict.fromkeys(shown.select_dtypes("category"), str)).to_dict("records")
    print_json({"from": start, "rows": len(found), "shown": len(lines), "projections": lines})


def _print_table(start: str, found: pd.DataFrame, shown: pd.DataFrame) -> None:
    from ._output import console, seconds, span, table

    cells = [
        (
            line["operator"],
            f"{line['framework']} {line['kernel']} {line['precision']}",
            line["workload"],
            seconds(line["source_s"]),
            line["target"],
            seconds(line["mid_s"]),
            span(line["low_s"], line["high_s"]),
            line["bound_by"],
            line["basis"] + (f", {line['anchors']} anchors" if line["anchors"] else ""),
        )
        for line in shown.to_dict("records")
    ]
    printed = console()
    printed.print(table(f"Projected from {start}", _COLUMNS, cells, right=("source", "time")))
    printed.print(
        f"{len(shown)} of {len(found):,} lines; --workload and --limit choose others, --out FILE writes all",
        markup=False,
    )
