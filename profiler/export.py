"""Write a run as tables that other programs read: Parquet, CSV or JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from .store import Run
from .whole_files import whole_files

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ("parquet", "csv", "json")
TABLES = ("measurements", "samples", "ceilings")


class ExportError(ValueError):
    """A table that cannot be written; the message says why."""


def export_run(run: Run, format: str, folder: Path | None = None) -> list[Path]:  # noqa: A002 (the option's name)
    """Write ``measurements``, ``samples`` and ``ceilings`` of a run, one file each.

    Parameters
    ----------
    format
        ``parquet``, ``csv`` or ``json`` (a list of records). In the first two, columns that hold several values
        (workload, cost, roofs, method, ...) hold them as JSON text, so that every file opens everywhere.
    folder
        Where to write; default: the run folder.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    ExportError
        If the format is unknown or the folder cannot be written.
    """
    if format not in FORMATS:
        raise ExportError(f"format {format!r}: choose one of {', '.join(FORMATS)}")
    folder = folder or run.path
    paths = [folder / f"{name}.{format}" for name in TABLES]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with whole_files(*paths) as beside:
            for name, path in zip(TABLES, beside, strict=True):
                _write(getattr(run, name), path, format)
    except OSError as error:
        raise ExportError(f"{folder}: cannot write here: {error.strerror}; choose another folder") from None
    return paths


def _write(frame: pd.DataFrame, path: Path, kind: str) -> None:
    if kind == "json":
        path.write_text(frame.to_json(orient="records", indent=1, double_precision=15) + "\n", encoding="utf-8")
        return
    flat = frame.copy()
    for name in flat.columns:
        if flat[name].map(lambda value: isinstance(value, dict | list)).any():
            flat[name] = flat[name].map(lambda value: json.dumps(value, allow_nan=False))
    if kind == "csv":
        flat.to_csv(path, index=False)
    else:
        flat.to_parquet(path, index=False)
