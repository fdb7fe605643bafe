"""Project many measured rows onto one device at once: low, middle and high, with or without anchors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .anchors import choose, features, part_of, recalibrate
from .calibration import Calibration, taught_basis
from .conformal import size_of
from .device import Speeds
from .model import Carried, carry, overheads, positions
from .pairs import TransferBasis, basis_between
from .terms import Array

if TYPE_CHECKING:
    import pandas as pd

# Two steps of a generation: their errors are taken to be independent.
_TWO_STEPS = 2.0**0.5


@dataclass(frozen=True)
class Predicted:
    """Times in seconds, one entry per row.

    Parameters
    ----------
    anchored
        Which rows served as anchors; none without them.
    basis
        What the rows' band stands on.
    """

    low_s: Array
    mid_s: Array
    high_s: Array
    basis: TransferBasis
    carried: Carried
    anchored: npt.NDArray[np.bool_]


def predict(rows: pd.DataFrame, source: Speeds, target: Speeds, calibration: Calibration) -> Predicted:
    """Project measured rows onto a device.

    Parameters
    ----------
    rows
        Rows of one device, columns as `roofline.silicon.columns`; with ``overhead_s`` if it is known already.
    calibration
        Taught without the target's family.
    """
    fixed = rows["overhead_s"].to_numpy(float) if "overhead_s" in rows else overheads(rows)
    carried = carry(rows, fixed, source, target, calibration.parameters)
    basis = basis_between(source, target)
    low, high = calibration.bands.of(
        taught_basis(basis), rows["operator_class"], size_of(carried.overhead_s, carried.time_s)
    )
    if basis == "two_generations":
        low, high = low**_TWO_STEPS, high**_TWO_STEPS
    time = carried.time_s
    return Predicted(time * low, time, time * high, basis, carried, np.zeros(len(rows), dtype=bool))


def with_anchors(
    rows: pd.DataFrame, before: Predicted, calibration: Calibration, count: int, measured_s: Array
) -> Predicted:
    """Recalibrate every kernel group with ``count`` anchors, chosen by how they spread over the rows.

    Parameters
    ----------
    before
        The rows projected without anchors.
    measured_s
        Times on the target; only those of the chosen anchors are looked at.
    """
    mid, deviation = before.mid_s.copy(), np.zeros(len(rows))
    anchored = np.zeros(len(rows), dtype=bool)
    for at in positions(rows):
        part = part_of(before.carried, at)
        places = features(part)
        chosen = choose(places, count)
        found = recalibrate(part, places, chosen, measured_s[at[chosen]])
        mid[at], deviation[at] = found.time_s, found.deviation
        anchored[at[chosen]] = True
    low, high = calibration.anchored_ends(count)
    return Predicted(
        mid * np.exp(low * deviation), mid, mid * np.exp(high * deviation), before.basis, before.carried, anchored
    )
