"""How well predicted times meet measured ones, every kernel group counting once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .terms import Array

if TYPE_CHECKING:
    import pandas as pd

ALL = "all"


def score(
    rows: pd.DataFrame, measured_s: Array, mid_s: Array, low_s: Array | None = None, high_s: Array | None = None
) -> list[dict[str, Any]]:
    """Return one line per operator class and one for all.

    Within a group: median and 90th percentile of ``|predicted / measured - 1|``, median of
    ``log(predicted / measured)``, share of rows inside the band, median of high over low. A class's figure is the mean
    over its groups; ``bias`` is the mean logarithm turned back into a fraction.
    """
    import pandas as pd

    ratio = mid_s / measured_s
    columns = {
        "operator_class": rows["operator_class"].astype(str).to_numpy(),
        "group": rows["group"].astype(str).to_numpy(),
        "error": np.abs(ratio - 1),
        "log": np.log(ratio),
    }
    if low_s is not None and high_s is not None:
        columns["inside"] = ((measured_s >= low_s) & (measured_s <= high_s)).astype(float)
        columns["ratio"] = high_s / low_s
    grouped = pd.DataFrame(columns).groupby(["operator_class", "group"])
    groups = grouped["error"].agg(n="size", median="median", p90=lambda e: e.quantile(0.9))
    groups["log"] = grouped["log"].median()
    if low_s is not None:
        groups["inside"], groups["ratio"] = grouped["inside"].mean(), grouped["ratio"].median()
    groups = groups.reset_index()
    lines = [_line(str(name), own) for name, own in groups.groupby("operator_class")]
    return [*lines, _line(ALL, groups)]


def _line(name: str, groups: pd.DataFrame) -> dict[str, Any]:
    banded = "inside" in groups
    return {
        "operator_class": name,
        "groups": len(groups),
        "n": int(groups["n"].sum()),
        "median_abs_error": float(groups["median"].mean()),
        "p90_abs_error": float(groups["p90"].mean()),
        "bias": float(np.expm1(groups["log"].mean())),
        "coverage": float(groups["inside"].mean()) if banded else None,
        "band_ratio": float(groups["ratio"].median()) if banded else None,
    }


def worst_groups(rows: pd.DataFrame, measured_s: Array, mid_s: Array, count: int = 12) -> list[dict[str, Any]]:
    """Return the groups with the largest median error, for naming what went wrong."""
    import pandas as pd

    frame = pd.DataFrame({
        "group": rows["group"].astype(str).to_numpy(),
        "error": np.abs(mid_s / measured_s - 1),
        "log": np.log(mid_s / measured_s),
    })  # fmt: skip
    found = frame.groupby("group").agg(n=("error", "size"), error=("error", "median"), log=("log", "median"))
    found = found.sort_values("error", ascending=False).head(count).reset_index()
    return [
        {
            "group": r["group"],
            "n": int(r["n"]),
            "median_abs_error": float(r["error"]),
            "bias": float(np.expm1(r["log"])),
        }
        for r in found.to_dict("records")
    ]
