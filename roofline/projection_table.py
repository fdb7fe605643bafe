"""Keep a run's projections: ``projections.parquet`` and ``.csv``, and read them back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..profiler.store import Run, StoreError
from ..profiler.whole_files import whole_files
from .projection import Projection, project
from .run_ceilings import ceilings_of_run

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_TARGETS = ("b200-hgx", "gb300-nvl72", "vera-rubin-nvl72")
NAME = "projections"
# Columns that hold structure; they are JSON text in the files.
_NESTED = ("workload", "terms", "factors", "sources", "notes")


class NothingToProjectError(StoreError):
    """A run without a row that can be projected; the message says why and what to do."""


def project_run(run: Run, targets: Sequence[Any] = DEFAULT_TARGETS, *, fastest: bool = True) -> list[Projection]:
    """Project a run's measured rows onto targets, with ids ``P1``, ``P2`` ... in the order of rows and targets.

    Raises
    ------
    NothingToProjectError
        If no row of the run can be projected.
    hwprofiles.UnknownProfileError
        If a target has no profile.
    """
    found: list[Projection] = []
    for ceilings in ceilings_of_run(run).values():
        found += project(run.measurement_rows, ceilings, targets, fastest=fastest)
    if not found:
        raise NothingToProjectError(f"{run.path}: {_why_nothing(run)}")
    return [dataclasses.replace(p, id=f"P{number}") for number, p in enumerate(found, 1)]


def _why_nothing(run: Run) -> str:
    if not any(row.status == "ok" for row in run.measurement_rows):
        return "holds no correct measurement to project; run roofcast bench into it first"
    return "its measurements have no measured ceiling to stand under; run roofcast ceilings into it first"


def to_frame(projections: Iterable[Projection]) -> pd.DataFrame:
    """Return a table, one row per projection; structure (terms, factors, sources) is JSON text."""
    import pandas as pd

    names = [field.name for field in dataclasses.fields(Projection)]
    lines = []
    for item in projections:
        line = {name: getattr(item, name) for name in names}
        lines.append(line | {name: json.dumps(line[name], allow_nan=False) for name in _NESTED})
    return pd.DataFrame(lines, columns=names)


def write_projections(run: Run, targets: Sequence[Any] = DEFAULT_TARGETS, *, fastest: bool = True) -> list[Projection]:
    """Project a run and write ``projections.parquet`` and ``projections.csv`` into its folder.

    Raises
    ------
    NothingToProjectError, hwprofiles.UnknownProfileError
        As `project_run`.
    StoreError
        If the folder cannot be written.
    """
    found = project_run(run, targets, fastest=fastest)
    frame = to_frame(found)
    flat = frame.assign(sources=["; ".join(_citation(s) for s in p.sources.values()) for p in found])
    try:
        with whole_files(run.path / f"{NAME}.parquet", run.path / f"{NAME}.csv") as (parquet, csv):
            frame.to_parquet(parquet, index=False)
            flat.drop(columns=["terms", "factors"]).to_csv(csv, index=False)
    except OSError as error:
        raise StoreError(f"{run.path}: cannot write projections here: {error.strerror or error}") from None
    return found


def _citation(source: Any) -> str:
    return f"{source['key']}: {source['title']} ({source['date']})"


def read_projections(path: Path) -> list[Projection]:
    """Read ``projections.parquet`` of a run folder; an empty list if there is none.

    Raises
    ------
    StoreError
        If the file is there but is not what `write_projections` wrote.
    """
    file = path / f"{NAME}.parquet"
    if not file.exists():
        return []
    import pandas as pd

    try:
        frame = pd.read_parquet(file)
        return [_from_line(line) for line in frame.to_dict("records")]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{file}: cannot be read ({error}); make it again with roofcast project {path}") from None


def _from_line(line: dict[Any, Any]) -> Projection:
    values: dict[str, Any] = {
        name: (None if value is None or value != value else value) for name, value in line.items()
    }
    values |= {name: json.loads(line[name]) for name in _NESTED}
    for name in ("terms", "factors", "notes"):
        values[name] = tuple(values[name])
    return Projection(**values)
