"""What a run's own measurements say of operators on a system: projections, turned into factors on time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..projection import Projection
from ..tables import class_of_operator
from .phase import BASES
from .system import System
from .time_source import OperatorFactor


def factors_on(run: str | Path | Sequence[Projection] | None, system: System) -> dict[str, OperatorFactor]:
    """Return factors by operator from a run folder, ``silicon:GPU`` or projections; nothing without any.

    Raises
    ------
    profiler.store.StoreError
        If the folder is not a run.
    UnknownGpuError, SiliconMissingError
        If there are no measured tables of the GPU.
    """
    if run is None:
        return {}
    if isinstance(run, str) and (gpu := silicon_source(run)):
        from .from_silicon import silicon_factors

        return silicon_factors(gpu, system)
    projections = _of_folder(Path(run), system) if isinstance(run, str | Path) else list(run)
    return factors_of(projections, system)


def silicon_source(run: str) -> str:
    """Return the GPU of ``silicon:GPU``, or nothing where a text names a folder."""
    kind, _, gpu = run.partition(":")
    return gpu if kind == "silicon" else ""


def _of_folder(folder: Path, system: System) -> list[Projection]:
    """Return the projections kept in the folder, or made now if it has none onto this system."""
    from ...profiler.store import load_run
    from ..projection_table import NothingToProjectError, project_run, read_projections

    run = load_run(folder)
    kept = [p for p in read_projections(folder) if _onto(p, system)]
    if kept:
        return kept
    try:
        return project_run(run, [system.profile])
    except NothingToProjectError:
        return []


def _onto(projection: Projection, system: System) -> bool:
    return projection.target in (system.name, *system.profile.aliases)


def factors_of(projections: Sequence[Projection], system: System) -> dict[str, OperatorFactor]:
    """Return one factor per operator: its projections against the class of kernels at the same roof.

    Several workloads of one operator count by the geometric mean, its cold rows alone where there are any; the
    weakest basis among them is named.
    """
    groups: dict[str, list[Projection]] = {}
    for p in projections:
        if p.source_key and _onto(p, system):
            groups.setdefault(p.operator, []).append(p)
    return {operator: _factor([p for p in g if p.cache_state == "cold"] or g) for operator, g in groups.items()}


def _factor(group: list[Projection]) -> OperatorFactor:
    kind = class_of_operator(group[0].operator)
    against = [kind.stretch(p.roof_s)[1] * (kind.floor(1) + p.roof_s) for p in group]
    low, mid, high = (
        float(
            np.exp(
                np.mean([np.log(getattr(p, f"time_{end}_s") / plain) for p, plain in zip(group, against, strict=True)])
            )
        )
        for end in ("low", "mid", "high")
    )
    named = [f"{p.id} {p.operator}@{p.target} from {p.source_key}".strip() for p in group]
    basis = max((p.basis for p in group), key=BASES.index)
    return OperatorFactor(min(low, mid), mid, max(high, mid), basis, "projection " + "; ".join(named))
