"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, such as runs/2026-12-01T09-00-00_host.")]
Targets = Annotated[
    list[str],
    typer.Option("--to", metavar="NAME", help="Device or system to project onto; repeat, or separate by commas."),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="The run folder to write (default: runs/<time>_<host>)."),
]

DEFAULT_TARGETS = ["b200", "gb300-nvl72", "vera-rubin-nvl72"]


def split_names(values: list[str]) -> list[str]:
    """Return the names of a repeatable option that also takes commas, in order and once each.

    Raises
    ------
    typer.BadParameter
        If values were given, but no name in them.
    """
    names = [name.strip() for value in values for name in value.split(",")]
    found = list(dict.fromkeys(name for name in names if name))
    if values and not found:
        raise typer.BadParameter(f"{','.join(values)!r} holds no name; give one, or leave the option out")
    return found
