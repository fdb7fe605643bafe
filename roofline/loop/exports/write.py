"""Write a loop cost to a file whose name says the format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from ....profiler.store import StoreError
from ..cost import LoopCost
from ..scenario_file import ScenarioError
from .focus import write_focus
from .inferencex import write_agg
from .workbook import write_workbook


def _parquet(cost: LoopCost, path: Path) -> None:
    cost.to_frame().to_parquet(path, index=False)


def _csv(cost: LoopCost, path: Path) -> None:
    cost.to_frame().to_csv(path, index=False)


def _json(cost: LoopCost, path: Path) -> None:
    path.write_text(json.dumps(cost.as_dict(), indent=2, allow_nan=False) + "\n", encoding="utf-8")


_BY_ENDING: dict[str, Callable[[LoopCost, Path], object]] = {
    ".focus.csv": write_focus,
    ".parquet": _parquet,
    ".csv": _csv,
    ".json": _json,
    ".xlsx": write_workbook,
}


def write_cost(cost: LoopCost, path: str | Path) -> Path:
    """Write a loop cost.

    The name decides: ``.parquet``, ``.csv`` and ``.json`` are one row per phase and system with its provenance,
    ``.xlsx`` a workbook, ``.focus.csv`` rows of FOCUS 1.2, ``agg_<name>.json`` results as InferenceX writes them.

    Raises
    ------
    ScenarioError
        If the ending is not known, or a library for it is missing.
    StoreError
        If the file cannot be written.
    """
    path = Path(path)
    if path.name.startswith("agg_") and path.suffix == ".json":
        write: Callable[[LoopCost, Path], object] | None = write_agg
    else:
        write = next((w for ending, w in _BY_ENDING.items() if path.name.endswith(ending)), None)
    if write is None:
        known = ", ".join(_BY_ENDING)
        raise ScenarioError(f"{path}: the ending says no format; end it in {known}, or name it agg_<name>.json")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(cost, path)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from None
    return path
