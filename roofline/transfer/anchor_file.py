"""Measurements on the target that recalibrate a projection: read a file of them, and apply them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .anchors import features, part_of, recalibrate
from .calibration import Calibration
from .model import positions
from .predict import Predicted
from .terms import Array

if TYPE_CHECKING:
    import pandas as pd

_NEEDED = ("operator", "workload", "time_s")
_MOST = 256


class AnchorFileError(ValueError):
    """A file of anchors that cannot be used; the message names file, column and remedy."""


def read_anchors(path: Path) -> pd.DataFrame:
    """Read measurements: ``.csv``, ``.jsonl`` or ``.parquet`` with ``operator``, ``workload``, ``time_s``.

    ``workload`` is written as projections write it (``batch=8, context=4096, ...``); an optional ``kernel`` limits a
    row to one kernel, else it counts for all kernels of its operator.

    Raises
    ------
    AnchorFileError
        If the file cannot be read, lacks a column or holds a time that is not positive.
    """
    import pandas as pd

    readers = {".csv": pd.read_csv, ".parquet": pd.read_parquet, ".jsonl": lambda p: pd.read_json(p, lines=True)}
    reader = readers.get(path.suffix)
    if reader is None:
        raise AnchorFileError(f"{path}: give a .csv, .jsonl or .parquet file")
    try:
        found: pd.DataFrame = reader(path)
    except (OSError, ValueError) as error:
        raise AnchorFileError(f"{path}: cannot be read: {error}") from None
    for name in _NEEDED:
        if name not in found:
            raise AnchorFileError(f"{path}: column {name!r} is missing; needed are {', '.join(_NEEDED)}")
    times = pd.to_numeric(found["time_s"], errors="coerce")
    if bad := list(np.flatnonzero(~(times > 0))):
        raise AnchorFileError(
            f"{path}: time_s = {found['time_s'].iloc[bad[0]]!r} in row {bad[0] + 1}: give seconds > 0"
        )
    return found.assign(time_s=times)


def apply_anchors(
    rows: pd.DataFrame, before: Predicted, ends: tuple[Array, Array], anchors: pd.DataFrame, calibration: Calibration
) -> tuple[Array, Array, Array, npt.NDArray[np.int_]]:
    """Return low, middle and high time of every row, and how many anchors its kernel had.

    Kernels without an anchor keep ``ends``.
    """
    low, high = ends[0].copy(), ends[1].copy()
    mid, used = before.mid_s.copy(), np.zeros(len(rows), dtype=int)
    named = {name: rows[name].astype(str).to_numpy() for name in ("operator", "workload", "kernel")}
    by_kernel = "kernel" in anchors
    times = {
        (str(a["operator"]), str(a["workload"]), str(a["kernel"]) if by_kernel else ""): float(a["time_s"])
        for a in anchors.to_dict("records")
    }
    seen = np.array(
        [
            times.get((o, w, k if by_kernel else ""), np.nan)
            for o, w, k in zip(named["operator"], named["workload"], named["kernel"], strict=True)
        ]
    )
    if not np.isfinite(seen).any():
        raise AnchorFileError(
            f"none of the {len(anchors)} anchors is a measured row of the source; write operator and workload as "
            f"projections do, such as {named['operator'][0]}, {named['workload'][0]!r}"
        )
    for at in positions(rows):
        known = np.flatnonzero(np.isfinite(seen[at]))[:_MOST]
        if not len(known):
            continue
        part = part_of(before.carried, at)
        found = recalibrate(part, features(part), known, seen[at[known]])
        mid[at], used[at] = found.time_s, len(known)
        below, above = calibration.anchored_ends(len(known))
        low[at] = found.time_s * np.exp(below * found.deviation)
        high[at] = found.time_s * np.exp(above * found.deviation)
    return low, mid, high, used
