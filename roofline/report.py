"""``report.html``: a run on one page that needs nothing from outside."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ..profiler.store import Run, StoreError
from ..profiler.whole_files import whole_files
from . import report_tables as tables
from .explain import explain
from .interactive import interactive_roofline
from .loop.table import read_loop
from .plot import write_figures
from .projection_table import read_projections
from .roofline_points import roofline_points
from .run_ceilings import ceilings_of_run

NAME = "report.html"


def write_report(run: Run, *, interactive: bool = True) -> Path:
    """Draw a run's figures and write ``report.html`` into its folder.

    Parameters
    ----------
    interactive
        Add the roofline as an interactive figure; the library that draws it adds 5 MB to the page.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    StoreError
        If the folder cannot be written, or what is derived from the run cannot be read.
    """
    pictures = [path for path in write_figures(run) if path.suffix == ".svg"]
    page = render_report(run, pictures, interactive=interactive)
    path = run.path / NAME
    try:
        with whole_files(path) as (beside,):
            beside.write_text(page, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{path}: cannot write the report here: {error.strerror or error}") from None
    return path


def render_report(run: Run, pictures: Sequence[Path] = (), *, interactive: bool = True) -> str:
    """Return the page as text; ``pictures`` are SVG files to show in it."""
    from jinja2 import Environment, StrictUndefined

    projections, loop = read_projections(run.path), read_loop(run.path)
    chains = [explain(run, item.id) for item in projections]
    context: dict[str, Any] = {
        "run_id": run.manifest.run_id,
        "title": f"roofcast on {run.manifest.machine.get('cpu_model') or run.manifest.host}",
        "created_at": run.manifest.created_at,
        "host": run.manifest.host,
        "complete": run.manifest.complete,
        "warnings": tables.warnings(run, projections),
        "machine": tables.machine(run),
        "ceilings": tables.ceilings(run),
        "results": tables.results(run),
        "failures": tables.failures(run),
        "projections": tables.projections(projections),
        "chains": [{"row": c.row, "title": c.title, "text": "\n".join(c.lines()[2:])} for c in chains],
        "loop": tables.loop(loop),
        "provenance": tables.provenance(run),
        "sources": tables.sources(projections),
        "figures": [{"title": path.stem.replace("_", " "), "data": _data_uri(path)} for path in pictures],
        "interactive": _interactive(run) if interactive else [],
    }
    shown = [name for name in ("figures", "projections", "loop") if _has(context[name])]
    names = ["machine", "ceilings", "results", *shown, "provenance"]
    context["sections"] = [(name.capitalize(), name) for name in names]
    template = (resources.files(f"{__package__}.data") / "report.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.from_string(template).render(context)


def _has(part: Any) -> bool:
    return bool(part.rows if isinstance(part, tables.Table) else part)


def _data_uri(path: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode("ascii")


def _interactive(run: Run) -> list[dict[str, str]]:
    made = []
    for device, ceilings in ceilings_of_run(run).items():
        rows = [row for row in run.measurement_rows if row.device == device]
        if not roofline_points(rows):
            continue
        figure = interactive_roofline(rows, ceilings)
        # The library comes once, inside the page; the logo would be a link to the outside.
        html = figure.to_html(
            full_html=False,
            include_plotlyjs=not made,
            div_id=f"roofline-{len(made)}",
            config={"displaylogo": False, "responsive": True},
        )
        made.append({"title": f"Roofline of {ceilings.title}", "html": html})
    return made
