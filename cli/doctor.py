"""``roofcast doctor``: what works on this machine, and what to do about what does not."""

from __future__ import annotations

import typer

from ._options import Json


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("doctor")(doctor)


def doctor(json: Json = False) -> None:
    """Show what works on this machine and what to do about what does not; exit 1 if something needed is missing.

    Example: roofcast doctor
    """
    from ..profiler.doctor import examine
    from ._output import console, print_json, table

    findings = examine()
    if json:
        print_json([finding.as_dict() for finding in findings])
    else:
        cells = [(f.name, f.level, f.seen, f.remedy) for f in findings]
        console().print(table("", ("what", "state", "seen", "what to do"), cells))
    if any(finding.level == "missing" for finding in findings):
        raise typer.Exit(1)
