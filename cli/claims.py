"""``roofcast claims``: vendor claims beside the model."""

from __future__ import annotations

import typer

from ._options import Json


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("claims")(claims)


def claims(json: Json = False) -> None:
    """Set what vendors claim for Vera Rubin, with the stated conditions, beside what the model says under the same.

    Example: roofcast claims
    """
    from ..roofline.loop.questions.claims import claims as ask
    from ._output import console, print_json, table

    rows = ask()
    if json:
        print_json({"claims": rows})
        return
    shown = console()
    for row in rows:
        lines = [(name, row[name]) for name in ("conditions", "says", "assumed", "verdict", "source")]
        names = {"says": "the model says"}
        shown.print(table(row["claim"], ("", ""), [(names.get(name, name), text) for name, text in lines]))
