"""Latency and bandwidth of a link from the times of messages of several sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LinkFit:
    """``time = latency_s + bytes / bytes_per_s`` and how far the times are from it.

    ``median_error`` is the median of the relative errors, as a fraction.
    """

    latency_s: float
    bytes_per_s: float
    median_error: float

    def time_s(self, nbytes: float) -> float:
        """Return the time of a message."""
        return self.latency_s + nbytes / self.bytes_per_s


def fit_link(sizes_bytes: Sequence[float], times_s: Sequence[float]) -> LinkFit:
    """Fit both terms, neither negative, by least squares of the relative errors (Hockney 1994, the alpha-beta model).

    Raises
    ------
    ValueError
        If there are fewer than two different sizes, or a time is not positive.
    """
    from scipy.optimize import nnls

    sizes, times = np.asarray(sizes_bytes, float), np.asarray(times_s, float)
    if np.unique(sizes).size < 2 or sizes.size != times.size:
        raise ValueError(f"{np.unique(sizes).size} sizes and {times.size} times: give two different sizes or more")
    if not np.all(times > 0):
        raise ValueError(f"times_s = {times.min()}: a time is positive")
    terms = np.stack([1 / times, sizes / times], axis=1)
    # Both columns to one size: bytes and seconds are nine orders of magnitude apart.
    norms = np.linalg.norm(terms, axis=0)
    (latency, per_byte), _ = nnls(terms / norms, np.ones(times.size))
    latency, per_byte = latency / norms[0], per_byte / norms[1]
    error = np.abs(terms @ [latency, per_byte] - 1)
    return LinkFit(float(latency), float(1 / per_byte) if per_byte > 0 else np.inf, float(np.median(error)))
