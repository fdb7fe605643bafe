"""Keep a loop cost in a run folder: ``loop.parquet`` and ``loop.csv``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...profiler.store import StoreError
from ...profiler.whole_files import whole_files
from .cost import LoopCost

NAME = "loop"


def write_loop(folder: str | Path, cost: LoopCost) -> list[Path]:
    """Write the rows of a loop cost; the CSV leaves out ``provenance``.

    Raises
    ------
    StoreError
        If the folder cannot be written.
    """
    folder = Path(folder)
    frame = cost.to_frame()
    files = [folder / f"{NAME}.parquet", folder / f"{NAME}.csv"]
    try:
        with whole_files(*files) as (parquet, csv):
            frame.to_parquet(parquet, index=False)
            frame.drop(columns=["provenance"]).to_csv(csv, index=False)
    except OSError as error:
        raise StoreError(f"{folder}: cannot write the loop cost here: {error.strerror or error}") from None
    return files


def read_loop(folder: str | Path) -> list[dict[str, Any]]:
    """Return the rows kept in a run folder; an empty list if there are none.

    Raises
    ------
    StoreError
        If the file is not what `write_loop` wrote.
    """
    file = Path(folder) / f"{NAME}.parquet"
    if not file.exists():
        return []
    import pandas as pd

    try:
        rows = pd.read_parquet(file).to_dict("records")
        return [{str(k): json.loads(v) if k == "provenance" else v for k, v in row.items()} for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{file}: cannot be read ({error}); make it again with roofcast loop") from None
