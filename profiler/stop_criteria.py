"""When to stop sampling. A criterion is a small object with one method; users add their own.

A criterion sees all samples so far and the seconds spent on them, and answers with the reason to stop, which the row
keeps, or with an empty string.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .statistics import entropy_bits, median_interval


class StopCriterion(Protocol):
    """Decides from the samples so far whether more are worth their time."""

    def reason(self, samples_s: Sequence[float], elapsed_s: float) -> str:
        """Return why to stop, or an empty string to go on."""
        ...


@dataclass(frozen=True)
class NarrowInterval:
    """Stop when the 95 % confidence interval of the median is within ``target`` of it, to either side."""

    target: float = 0.01
    min_samples: int = 12

    def reason(self, samples_s: Sequence[float], elapsed_s: float) -> str:
        """Return why to stop, or an empty string to go on."""
        if len(samples_s) < self.min_samples:
            return ""
        width = median_interval(samples_s).relative_half_width
        return f"median known to {width:.2%} (target {self.target:.2%})" if width <= self.target else ""


@dataclass(frozen=True)
class NoiseSettled:
    """Stop when the noise no longer changes: more samples would repeat the same distribution.

    The entropy of the distribution of samples grows while new behaviour appears (the idea of NVBench's entropy
    criterion). It has settled when the first half of the samples and all of them agree within ``tolerance_bits``.
    Bins are ``bin_fraction`` of the median wide: finer structure does not matter to the result.
    """

    tolerance_bits: float = 0.05
    bin_fraction: float = 0.01
    min_samples: int = 100

    def reason(self, samples_s: Sequence[float], elapsed_s: float) -> str:
        """Return why to stop, or an empty string to go on."""
        n = len(samples_s)
        if n < self.min_samples:
            return ""
        change = abs(entropy_bits(samples_s, self.bin_fraction) - entropy_bits(samples_s[: n // 2], self.bin_fraction))
        return f"noise stopped falling (entropy changed by {change:.3f} bit)" if change <= self.tolerance_bits else ""


@dataclass(frozen=True)
class TimeBudget:
    """Stop when sampling has taken ``budget_s`` seconds, flushes included; at least ``min_samples`` are taken."""

    budget_s: float
    min_samples: int = 3

    def reason(self, samples_s: Sequence[float], elapsed_s: float) -> str:
        """Return why to stop, or an empty string to go on."""
        spent = elapsed_s >= self.budget_s and len(samples_s) >= self.min_samples
        return f"time budget of {self.budget_s:g} s ended" if spent else ""


@dataclass(frozen=True)
class SampleLimit:
    """Stop at ``limit`` samples, so that rows stay readable."""

    limit: int = 5000

    def reason(self, samples_s: Sequence[float], elapsed_s: float) -> str:
        """Return why to stop, or an empty string to go on."""
        return f"limit of {self.limit} samples reached" if len(samples_s) >= self.limit else ""


def first_reason(criteria: Iterable[StopCriterion], samples_s: Sequence[float], elapsed_s: float) -> str:
    """Return the first criterion's reason to stop, or an empty string."""
    return next((why for c in criteria if (why := c.reason(samples_s, elapsed_s))), "")
