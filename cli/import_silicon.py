"""``roofcast import``: measurements that others made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._options import Json

if TYPE_CHECKING:
    from ..roofline.silicon import Silicon

app = typer.Typer(
    no_args_is_help=True,
    help="Measurements of others: kernel tables of real GPUs.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def main() -> None:
    """Keep ``silicon`` a command of its own, though it is the only one."""


@app.command("silicon")
def silicon(
    gpu: Annotated[
        list[str], typer.Option("--gpu", metavar="NAME", help="h200, b200, gb300 ...; repeat, or separate by commas.")
    ],
    refresh: Annotated[bool, typer.Option("--refresh", help="Read the tables again, even if cached.")] = False,
    json: Json = False,
) -> None:
    """Map the measured kernel tables of a GPU to operators and workloads, and report what could not be mapped.

    Example: roofcast import silicon --gpu h200
    """
    from ..roofline.silicon import import_gpu
    from ._options import split_names
    from ._output import print_json

    found = [import_gpu(name, refresh=refresh) for name in split_names(gpu)]
    if json:
        print_json({"gpus": [_as_dict(tables) for tables in found]})
        return
    for tables in found:
        _show(tables)


def _as_dict(tables: Silicon) -> dict[str, Any]:
    from dataclasses import asdict

    counts = tables.rows.groupby("operator", observed=True).size()
    return {
        "gpu": tables.gpu.name,
        "profile": tables.gpu.profile,
        "source": tables.source,
        "rows": len(tables.rows),
        "groups": int(tables.rows["group"].nunique()),
        "operators": {str(name): int(count) for name, count in counts.items()},
        "tables": [asdict(entry) for entry in tables.report],
    }


def _show(tables: Silicon) -> None:
    from ._output import console, table

    shown = console()
    grouped = tables.rows.groupby(["operator", "operator_class"], observed=True)
    cells = [(*key, len(rows), rows["group"].nunique()) for key, rows in grouped]
    shown.print(table(f"Mapped: {tables.gpu.name}", ("operator", "class", "rows", "groups"), cells, right=("rows",)))
    left = [(entry.table, entry.rows, entry.note) for entry in tables.report if entry.kept == 0]
    shown.print(table("Not mapped", ("table", "rows", "why"), left, right=("rows",)))
    partly = {entry.table.split("/")[-1].removesuffix("_perf.parquet"): entry.note for entry in tables.report
              if entry.kept and entry.note}  # fmt: skip
    shown.print(table("Mapped with an approximation", ("table", "what is approximate"), sorted(partly.items())))
    read, kept = sum(entry.rows for entry in tables.report), len(tables.rows)
    shown.print(f"{kept:,} cases from {read:,} rows of {tables.source}; repeated cases stand once", markup=False)
