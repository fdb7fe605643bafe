"""Bands from the errors that the same method made on other pairs of GPUs, by basis, class of operator and size.

The error of a row is ``log(measured / predicted)``. For a basis, a class and a size the band is the 10th to the 90th
percentile of the errors on the teaching pairs, every kernel group of every pair weighing the same. Three kinds of
errors mix, so that little evidence does not make a narrow band: those of the class itself; those of all classes, as if
these gave ``_PRIOR_GROUPS`` groups; and those of other bases, which get the share ``1 / (n + 2)`` of the weight where
``n`` pairs of GPUs taught the basis (the rule of succession: the chance that the next pair is unlike all before it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .terms import Array

if TYPE_CHECKING:
    import pandas as pd

COVERED = 0.8
# Size: how much of the predicted time is the kernel's fixed time.
SIZES = ("small", "middle", "large")
_SIZE_EDGES = (0.25, 0.6)
_PRIOR_GROUPS = 8.0
OTHER = "other"

Ends = tuple[float, float]


@dataclass(frozen=True)
class Bands:
    """Ends of the band in logarithms of measured over predicted: ``ends[basis][class][size] = (low, high)``."""

    ends: Mapping[str, Mapping[str, Mapping[str, Ends]]]

    def taught(self, basis: str) -> str:
        """Return the basis itself, or the next wider one where no pair of GPUs taught it."""
        order = ("same_architecture", "next_generation", "downward")
        wider = order[order.index(basis) :] if basis in order else order
        return next((name for name in (*wider, *reversed(order)) if name in self.ends), basis)

    def of(self, basis: str, classes: pd.Series, sizes: np.ndarray[Any, Any]) -> tuple[Array, Array]:
        """Return the factors on the low and the high end of every row."""
        by_class = self.ends[self.taught(basis)]
        low, high = np.empty(len(classes)), np.empty(len(classes))
        named = classes.astype(str).to_numpy()
        for name in np.unique(named):
            entry = by_class.get(name, by_class[OTHER])
            table = np.array([entry[size] for size in SIZES])
            at = named == name
            low[at], high[at] = table[sizes[at], 0], table[sizes[at], 1]
        # The middle stays within the band.
        return np.exp(np.minimum(low, 0.0)), np.exp(np.maximum(high, 0.0))


def size_of(overhead_s: Array, time_s: Array) -> np.ndarray[Any, Any]:
    """Return the index into `SIZES` of every row."""
    share = overhead_s / time_s
    return np.where(share > _SIZE_EDGES[1], 0, np.where(share > _SIZE_EDGES[0], 1, 2))


def bands(errors: pd.DataFrame) -> Bands:
    """Return bands from errors, one line per row.

    Columns ``basis``, ``pair``, ``operator_class``, ``size`` (index), ``weight`` (of one row of its group), ``error``.
    """
    made: dict[str, dict[str, dict[str, Ends]]] = {}
    for basis, rows in errors.groupby("basis"):
        others = errors[errors["basis"] != basis]
        surprise = 1.0 / (rows["pair"].nunique() + 2) if len(others) else 0.0
        made[str(basis)] = {OTHER: _by_size([(rows, 1.0 - surprise), (others, surprise)])}
        for name, own in rows.groupby("operator_class"):
            count = own["weight"].sum()
            within = count / (count + _PRIOR_GROUPS) * (1.0 - surprise)
            shares = [(own, within), (rows, 1.0 - surprise - within), (others, surprise)]
            made[str(basis)][str(name)] = _by_size(shares)
    return Bands(made)


def _by_size(mixed: Sequence[tuple[pd.DataFrame, float]]) -> dict[str, Ends]:
    """Return the ends for each size, from errors that share the weight as given."""
    found: dict[str, Ends] = {}
    tail = (1 - COVERED) / 2
    for index, size in enumerate(SIZES):
        errors, weights = [], []
        for rows, share in mixed:
            # A size without rows takes the errors of all sizes.
            here = rows[rows["size"] == index] if (rows["size"] == index).any() else rows
            if len(here) and share > 0:
                errors.append(here["error"].to_numpy())
                weights.append(share * here["weight"].to_numpy() / here["weight"].sum())
        together = np.concatenate(errors), np.concatenate(weights)
        found[size] = weighted_quantile(*together, tail), weighted_quantile(*together, 1 - tail)
    return found


def weighted_quantile(values: Array, weights: Array, share: float) -> float:
    """Return the value below which a share of the weight lies."""
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    at = np.searchsorted(below, share * below[-1])
    return float(values[order][min(int(at), len(values) - 1)])


def coverage(made: Bands, basis: str, errors: pd.DataFrame) -> pd.DataFrame:
    """Return by class and group the share of rows inside the band: columns ``operator_class``, ``group``, ``held``."""
    low, high = made.of(basis, errors["operator_class"], errors["size"].to_numpy())
    inside = (errors["error"] >= np.log(low)) & (errors["error"] <= np.log(high))
    framed: Any = errors.assign(held=inside.astype(float))
    return framed.groupby(["operator_class", "group"], as_index=False)["held"].mean()
