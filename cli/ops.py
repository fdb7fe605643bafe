"""``roofcast ops``: the operators and their implementations."""

from __future__ import annotations

import typer

from ._options import Json


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("ops")(ops)


def ops(json: Json = False) -> None:
    """List the operators, the phases of the loop they run in and their implementations.

    Example: roofcast ops
    """
    from ..kernels import get_operator, implementation_names, operator_names
    from ._output import console, print_json, table

    rows = []
    for name in operator_names():
        operator = get_operator(name)
        rows.append(
            {
                "operator": name,
                "summary": operator.summary,
                "phases": list(operator.phases),
                "implementations": implementation_names(name),
                "workload_fields": list(operator.workload_type.__dataclass_fields__),
            }
        )
    if json:
        print_json(rows)
        return
    cells = [(r["operator"], ", ".join(r["implementations"]), ", ".join(r["phases"]), r["summary"]) for r in rows]
    console().print(table("", ("operator", "implementations", "phases", "what it does"), cells))
