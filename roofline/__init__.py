"""What measurements mean: roofs, efficiency, projections with bands, figures, the report, and the loop cost.

>>> from roofcast.profiler import load_run
>>> from roofcast.roofline import write_projections
>>> from roofcast.roofline.explain import explain
>>> run = load_run("runs/mine")
>>> projections = write_projections(run, ["b200-hgx", "vera-rubin-nvl72"])
>>> print("\\n".join(explain(run, projections[0].id).lines()))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ceilings import Ceiling, Ceilings
    from .plot import write_figures
    from .projected import Projection
    from .projection import project, specification_only
    from .projection_table import read_projections, write_projections
    from .report import write_report
    from .run_ceilings import ceilings_of_run
    from .speedup import speedups
    from .targets import Target, load_target

__all__ = [
    "Ceiling",
    "Ceilings",
    "Projection",
    "Target",
    "ceilings_of_run",
    "load_target",
    "project",
    "read_projections",
    "specification_only",
    "speedups",
    "write_figures",
    "write_projections",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that importing the room stays light."""
    home = {
        "Ceiling": "ceilings",
        "Ceilings": "ceilings",
        "Projection": "projected",
        "Target": "targets",
        "ceilings_of_run": "run_ceilings",
        "load_target": "targets",
        "project": "projection",
        "read_projections": "projection_table",
        "specification_only": "projection",
        "speedups": "speedup",
        "write_figures": "plot",
        "write_projections": "projection_table",
        "write_report": "report",
    }.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{home}", __name__), name)
