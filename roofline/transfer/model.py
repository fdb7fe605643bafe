"""Carry measured times from one device to another: the overhead stays, the rest goes with the roofs or the clock.

For a row that took ``t`` on the source, with ``o`` the fixed time of its kernel and ``r`` its roofs::

    e  = r_source / (t - o)                      the share of the roof that it reached, at most 1
    b  = e ** exponent                           how far the rest of its time is the roof's
    x  = issue ** mix * clock ** (1 - mix)       source over target
    t' = o + (t - o) * (r_target / r_source) ** b * x ** (1 - b)

A kernel at its roof speeds up as the roof does. One far below waits for something else - few blocks, latency, scalar
instructions - and speeds up as the clock does. ``exponent`` says how fast the one turns into the other, by class of
operator, fitted on pairs of GPUs (`fit`). The row's own efficiency, its residual, is carried whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .device import Speeds
from .terms import Array, combine, terms

if TYPE_CHECKING:
    import pandas as pd

# The constant of a kernel is this share of this quantile of its times on the source.
OVERHEAD_SHARE, OVERHEAD_QUANTILE = 0.9, 0.005
_LEAST_EFFICIENCY = 1e-4


@dataclass(frozen=True)
class Parameters:
    """What is fitted.

    Parameters
    ----------
    exponent
        By operator class; ``other`` stands in for classes that no pair of GPUs had.
    power
        The p-norm by which a row's roofs combine.
    mix
        Share of the issue rate (SMs x clock) against the clock alone, for what no roof explains.
    """

    exponent: Mapping[str, float] = field(default_factory=lambda: {"other": 0.15})
    power: float = 2.0
    mix: float = 0.25

    def exponents(self, classes: pd.Series) -> Array:
        """Return the exponent of every row."""
        named = {str(name): self.exponent.get(str(name), self.exponent["other"]) for name in classes.unique()}
        return np.asarray(classes.astype(object).map(named), dtype=np.float64)


@dataclass(frozen=True)
class Carried:
    """Predicted times and what led to them, one entry per row; times in seconds."""

    time_s: Array
    overhead_s: Array
    efficiency: Array
    share_of_roof: Array
    roof_source_s: Array
    roof_target_s: Array
    terms_target_s: Array


def overheads(rows: pd.DataFrame) -> Array:
    """Return the fixed time of every row's kernel, seconds: the same for all rows of a group."""
    low = rows.groupby("group", observed=True)["time_s"].quantile(OVERHEAD_QUANTILE)
    return OVERHEAD_SHARE * np.asarray(rows["group"].astype(object).map(low), dtype=np.float64)


def positions(rows: pd.DataFrame) -> list[npt.NDArray[np.intp]]:
    """Return the positions of each group's rows."""
    import pandas as pd

    codes, _ = pd.factorize(rows["group"].astype(object))
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def carry(
    rows: pd.DataFrame,
    overhead_s: Array,
    source: Speeds,
    target: Speeds,
    parameters: Parameters,
    *,
    cached: bool = True,
) -> Carried:
    """Return the times of measured rows on another device.

    Parameters
    ----------
    rows
        Measured rows, `roofline.silicon.columns`.
    overhead_s
        Fixed time per row, below its ``time_s``.
    cached
        See `terms`.
    """
    here, there = terms(rows, source, cached=cached), terms(rows, target, cached=cached)
    roof_here, roof_there = combine(here, parameters.power), combine(there, parameters.power)
    measured = rows["time_s"].to_numpy(float)
    # A row faster than its kernel's fixed time is an outlier; it keeps its own time as that.
    overhead_s = np.minimum(overhead_s, (1 - 1e-3) * measured)
    rest = measured - overhead_s
    efficiency = np.clip(roof_here / rest, _LEAST_EFFICIENCY, 1.0)
    share = efficiency ** parameters.exponents(rows["operator_class"])
    issue = parameters.mix * np.log(source.issue / target.issue) + (1 - parameters.mix) * np.log(
        source.clock / target.clock
    )
    time = overhead_s + rest * np.exp(share * np.log(roof_there / roof_here) + (1 - share) * issue)
    return Carried(time, overhead_s, efficiency, share, roof_here, roof_there, there)
