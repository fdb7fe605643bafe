"""Medians, their confidence intervals by order statistics, and the noise of samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

# Below this number of samples no interval between two of them covers the median with 95 %: 1 - 2 * 0.5**6 = 0.969.
FEWEST_FOR_INTERVAL = 6


@dataclass(frozen=True)
class MedianInterval:
    """A median with its confidence interval, in the unit of the samples."""

    median: float
    low: float
    high: float

    @property
    def relative_half_width(self) -> float:
        """Half the interval's width over the median; infinite for a median of zero."""
        return (self.high - self.low) / 2 / self.median if self.median > 0 else math.inf


def median(samples: Sequence[float]) -> float:
    """Return the median: the middle sample, or the mean of the two middle ones."""
    ordered = sorted(samples)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


@lru_cache(maxsize=4096)
def _lower_rank(n: int, confidence: float) -> int:
    """Return the largest 0-based rank r such that samples r and n-1-r enclose the median with the confidence.

    The number of samples below the median is binomial with p = 1/2, whatever the distribution (David and Nagaraja,
    Order Statistics, 3rd ed., section 7.1).
    """
    from scipy.special import bdtr

    tail = (1 - confidence) / 2
    rank = 0
    while rank + 1 < n - 1 - rank and bdtr(rank + 1, n, 0.5) <= tail:
        rank += 1
    return rank


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> MedianInterval:
    """Return the median and its distribution-free confidence interval.

    With fewer than six samples no such interval reaches 95 %; the range of the samples is returned instead.

    Raises
    ------
    ValueError
        If there are no samples.
    """
    if not samples:
        raise ValueError("samples is empty: a median needs at least one sample")
    ordered = sorted(samples)
    rank = _lower_rank(len(ordered), confidence) if len(ordered) >= FEWEST_FOR_INTERVAL else 0
    return MedianInterval(median(ordered), ordered[rank], ordered[len(ordered) - 1 - rank])


def entropy_bits(samples: Sequence[float], bin_fraction: float) -> float:
    """Return the Shannon entropy of the samples sorted into bins of ``bin_fraction`` of their median, in bits."""
    width = bin_fraction * median(samples)
    if width <= 0:
        return 0.0
    counts: dict[int, int] = {}
    for sample in samples:
        index = int(sample // width)
        counts[index] = counts.get(index, 0) + 1
    n = len(samples)
    return -sum(c / n * math.log2(c / n) for c in counts.values())
