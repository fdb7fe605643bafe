"""Sequence lengths as a distribution: how many sequences are still running after t tokens."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, model_validator

from .work import Array

_POINTS = 256


class _Lengths(BaseModel):
    """Base: what follows from a survival curve. Lengths are in tokens and end at ``longest``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @property
    def longest(self) -> float:
        """Length at which a sequence is cut."""
        raise NotImplementedError

    def survival(self, t: Array) -> Array:
        """Return the share of sequences longer than ``t`` tokens."""
        raise NotImplementedError

    @cached_property
    def grid(self) -> tuple[Array, Array, Array]:
        """Midpoints of steps up to the longest length, their widths, and the survival there.

        Steps widen with the length, so that short lengths are resolved as well as the tail.
        """
        edges = self.longest * np.linspace(0.0, 1.0, _POINTS + 1) ** 2
        middle = 0.5 * (edges[1:] + edges[:-1])
        return middle, np.diff(edges), self.survival(middle)

    @property
    def mean(self) -> float:
        """Mean length: the integral of the survival curve."""
        _, step, alive = self.grid
        return float(np.sum(alive * step))

    @property
    def mean_square(self) -> float:
        """Mean of the squared length."""
        middle, step, alive = self.grid
        return float(2.0 * np.sum(middle * alive * step))

    @property
    def pairs(self) -> float:
        """Mean number of query-key pairs of causal attention within a sequence."""
        return 0.5 * (self.mean_square + self.mean)


class Fixed(_Lengths):
    """Every sequence has the same length."""

    distribution: Literal["fixed"] = "fixed"
    tokens: PositiveFloat

    @property
    def longest(self) -> float:
        """Length of all."""
        return self.tokens

    def survival(self, t: Array) -> Array:
        """Return 1 below the length."""
        return np.where(t < self.tokens, 1.0, 0.0)


class LogNormal(_Lengths):
    """Log-normal lengths cut at ``max``; ``mean`` is that of the lengths after the cut, as logs report it.

    ``sigma`` is the standard deviation of the logarithm. A cut sequence counts with length ``max``.
    """

    distribution: Literal["lognormal"] = "lognormal"
    mean_tokens: PositiveFloat = Field(alias="mean")
    sigma: Annotated[float, Field(gt=0, le=3)]
    max: PositiveFloat

    @model_validator(mode="after")
    def _possible(self) -> LogNormal:
        if self.mean_tokens >= 0.98 * self.max:
            raise ValueError(
                f"mean = {self.mean_tokens:g} must be below 98 % of max = {self.max:g}; lower it or use fixed"
            )
        return self

    @property
    def longest(self) -> float:
        """The cut."""
        return self.max

    @cached_property
    def mu(self) -> float:
        """Mean of the logarithm before the cut, found by bisection."""
        low, high = np.log(self.mean_tokens) - 12.0, np.log(self.max) + 12.0
        for _ in range(80):
            middle = 0.5 * (low + high)
            if _cut_mean(middle, self.sigma, self.max) < self.mean_tokens:
                low = middle
            else:
                high = middle
        return float(0.5 * (low + high))

    def survival(self, t: Array) -> Array:
        """Return the log-normal survival below the cut."""
        from scipy.special import ndtr

        z = (self.mu - np.log(np.maximum(t, 1e-9))) / self.sigma
        return np.where(t < self.max, ndtr(z), 0.0)


def _cut_mean(mu: float, sigma: float, cut: float) -> float:
    """Mean of min(X, cut) for log-normal X."""
    from scipy.special import ndtr

    z = (np.log(cut) - mu) / sigma
    return float(np.exp(mu + sigma**2 / 2) * ndtr(z - sigma) + cut * ndtr(-z))


class Quantiles(_Lengths):
    """Lengths as measured: ``points`` maps a share of sequences to the length that this share does not exceed."""

    distribution: Literal["quantiles"] = "quantiles"
    points: dict[float, PositiveFloat]

    @model_validator(mode="after")
    def _possible(self) -> Quantiles:
        shares, lengths = list(self.points), list(self.points.values())
        rising = all(a < b for a, b in pairwise(shares)) and sorted(lengths) == lengths
        if not rising or len(shares) < 2 or shares[0] < 0 or shares[-1] != 1:
            raise ValueError("points must rise in share and length, have two or more entries and end at share 1")
        return self

    @property
    def longest(self) -> float:
        """The last point."""
        return list(self.points.values())[-1]

    def survival(self, t: Array) -> Array:
        """Return the survival between the points, linear in the length; it starts at (0, 0)."""
        shares, lengths = [0.0, *self.points], [0.0, *self.points.values()]
        return np.clip(1.0 - np.interp(t, lengths, shares), 0.0, 1.0)


Lengths = Annotated[Fixed | LogNormal | Quantiles, Field(discriminator="distribution")]
