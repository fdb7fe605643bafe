"""Recalibrate a transfer with a few measurements on the target itself.

The logarithm of measured over carried time is taken to vary smoothly with the row: a constant for the kernel, and a
part that depends on its roofs and its time (a Gaussian process with a squared exponential kernel; its deviations and
length were chosen on development GPUs). With ``k`` anchors the middle moves
by the posterior mean and the posterior deviation says where the anchors are far away. How wide the band must be for a
deviation is not assumed but taken from the same procedure on other pairs of GPUs (`calibration.anchored_band`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .model import Carried
from .terms import Array

# Deviations of the log error, before any anchor: of a kernel's constant, of the part that varies, of a measurement.
_CONSTANT, _VARYING, _NOISE = 0.5, 0.3, 0.08
# Length over which the varying part changes, in standard deviations of the features times the root of their number.
_LENGTH = 0.5
# Anchors are chosen among at most so many rows, so that choosing stays linear.
_CANDIDATES = 3000


@dataclass(frozen=True)
class Recalibrated:
    """Times with anchors: middle, and the posterior deviation of its logarithm."""

    time_s: Array
    deviation: Array


def part_of(carried: Carried, at: npt.NDArray[np.intp]) -> Carried:
    """Return some rows of what was carried."""
    return Carried(*(getattr(carried, name)[at] for name in Carried.__dataclass_fields__))


def features(carried: Carried) -> Array:
    """Return ``[rows, features]``: log time, share of overhead, log efficiency, log terms; each standardised."""
    terms = np.log(np.maximum(carried.terms_target_s[:, :3], 1e-9))
    columns = [
        np.log(carried.time_s),
        carried.overhead_s / carried.time_s,
        np.log(carried.efficiency),
        np.maximum(terms[:, 0], np.log(1e-8)),
        terms[:, 1],
        terms[:, 0] - terms[:, 1],
    ]
    made = np.stack(columns, axis=1)
    spread = made.std(axis=0)
    return (made - made.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0)


def choose(places: Array, count: int) -> npt.NDArray[np.intp]:
    """Return the rows to measure: those nearest to the centres of ``count`` clusters of the features."""
    import warnings

    from scipy.cluster.vq import kmeans2

    candidates = np.arange(len(places))
    if len(places) > _CANDIDATES:
        candidates = np.linspace(0, len(places) - 1, _CANDIDATES).astype(np.intp)
    seen, count = places[candidates], min(count, len(candidates))
    with warnings.catch_warnings():
        # An empty cluster keeps its centre, which is as good a place to measure as any.
        warnings.simplefilter("ignore", UserWarning)
        # So does one among rows that are all alike; its centre is then not a number.
        warnings.simplefilter("ignore", RuntimeWarning)
        centres, _ = kmeans2(seen, count, minit="++", seed=1, iter=8)
    centres = np.nan_to_num(centres)
    chosen: list[int] = []
    free = np.ones(len(seen), dtype=bool)
    for centre in centres:
        distance = np.where(free, ((seen - centre) ** 2).sum(axis=1), np.inf)
        chosen.append(int(np.argmin(distance)))
        free[chosen[-1]] = False
    return candidates[np.array(chosen)]


def recalibrate(carried: Carried, places: Array, anchors: npt.NDArray[np.intp], measured_s: Array) -> Recalibrated:
    """Return the times of all rows of one kernel, given those of its anchors.

    Parameters
    ----------
    places
        From `features`, ``[rows, features]``.
    anchors
        Indices of the measured rows.
    measured_s
        Their times on the target, seconds.
    """
    known = places[anchors]
    error = np.log(measured_s / carried.time_s[anchors])
    covariance = _kernel(known, known) + _NOISE**2 * np.eye(len(known))
    across = _kernel(places, known)
    solved = np.linalg.solve(covariance, np.column_stack([error, across.T]))
    mean = across @ solved[:, 0]
    variance = _CONSTANT**2 + _VARYING**2 - np.einsum("ij,ji->i", across, solved[:, 1:])
    return Recalibrated(carried.time_s * np.exp(mean), np.sqrt(np.maximum(variance, 0) + _NOISE**2))


def _kernel(left: Array, right: Array) -> Array:
    square = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)[None] - 2 * left @ right.T
    length = _LENGTH * np.sqrt(left.shape[1])
    return _CONSTANT**2 + _VARYING**2 * np.exp(-np.maximum(square, 0) / (2 * length**2))
