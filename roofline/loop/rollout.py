"""Decode as a simulation over the lengths: the batch fills the memory, then shrinks along the survival curve.

A replica holds ``n`` sequences to finish and can run ``cap`` at once. While sequences wait, the batch stays at the
cap and the running ones have the ages of a renewal process; when the queue is empty, the batch shrinks to the last
sequence. Time is the integral of the iteration time over the iterations. Everything is an expectation over lengths,
so no random number is drawn, and all quantities are arrays that broadcast: (variants or points, steps).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .lengths import Fixed, LogNormal, Quantiles
from .work import Array, Value


@dataclass(frozen=True)
class Curve:
    """Iterations of a replica: at each step ``weight`` iterations with ``batch`` sequences of mean ``context``.

    The last axis is the step: the full batch first, then the drain along the lengths.
    """

    weight: Array
    batch: Array
    context: Array

    @property
    def iterations(self) -> Array:
        """Iterations until the last sequence ends."""
        return np.sum(self.weight, axis=-1, keepdims=True)

    @property
    def tokens(self) -> Array:
        """Tokens generated."""
        return np.sum(self.weight * self.batch, axis=-1, keepdims=True)

    @property
    def mean_batch(self) -> Array:
        """Mean batch over the iterations."""
        return self.tokens / self.iterations


def decode_curve(
    lengths: Fixed | LogNormal | Quantiles,
    prompt: float,
    sequences: Value,
    cap: Value,
    *,
    step_sequences: Value | None = None,
    tail: bool = True,
) -> Curve:
    """Return the iterations that ``sequences`` per replica need.

    Parameters
    ----------
    lengths
        Response lengths in tokens.
    prompt
        Mean prompt length, part of every context.
    sequences, cap
        Per replica: to finish, and at most at once (at least 1).
    step_sequences
        Sequences of all replicas. The step ends with the longest of them, on the slowest replica.
    tail
        False: new sequences always arrive (asynchronous generation), so the batch never shrinks.
    """
    t, step, alive = lengths.grid
    n, c = _column(sequences), np.maximum(_column(cap), 1.0)
    everything = n if step_sequences is None else _column(step_sequences)
    mean, square = lengths.mean, lengths.mean_square
    running = np.minimum(n, c)
    stationary_context = prompt + square / (2.0 * mean)
    if not tail:
        return Curve(n * mean / running, running + np.zeros_like(n), stationary_context + np.zeros_like(running))

    remaining = np.cumsum((alive * step)[::-1])[::-1] - 0.5 * alive * step
    residual = remaining / mean
    weighted = np.cumsum((t * alive * step)[::-1])[::-1] - 0.5 * t * alive * step
    old_context = np.where(remaining > 0, weighted / np.maximum(remaining, 1e-300), t)
    # How far the running sequences have come apart when the queue empties: not at all without a queue, fully once
    # every slot has been refilled.
    mixed = np.clip((n - running) / running, 0.0, 1.0)
    survival = (1.0 - mixed) * alive + mixed * residual
    share = np.where(survival > 0, mixed * residual / np.maximum(survival, 1e-300), 0.0)
    context = prompt + (1.0 - share) * t + share * old_context

    # The last sequences are few: with probability `any_here` a replica still runs one, and then it runs batch of them.
    any_here = _any(survival, running)
    any_step = _any(survival, np.maximum(everything * running / n, running))
    batch = np.where(any_here > 0, running * survival / np.maximum(any_here, 1e-300), 1.0)
    drained = running * np.sum(survival * step, axis=-1, keepdims=True)
    full = np.maximum(n * mean - drained, 0.0) / running

    def joined(first: Value, rest: Array) -> Array:
        head = np.broadcast_to(first, (*rest.shape[:-1], 1))
        return np.concatenate([head, rest], axis=-1)

    return Curve(
        joined(full, any_step * step), joined(running, np.maximum(batch, 1.0)), joined(stationary_context, context)
    )


def decode_time(curve: Curve, iteration: Callable[[Array, Array], Array]) -> Array:
    """Return the seconds of a curve, with ``iteration(batch, context)`` the seconds of one iteration."""
    return np.sum(curve.weight * iteration(curve.batch, curve.context), axis=-1, keepdims=True)


def _any(share: Array, count: Array) -> Array:
    """Probability that any of ``count`` runs still: 1 - (1 - share)^count, exact for tiny shares."""
    with np.errstate(divide="ignore"):
        return -np.expm1(count * np.log1p(-np.clip(share, 0.0, 1.0)))


def _column(value: Value) -> Array:
    array = np.asarray(value, dtype=float)
    return array.reshape(-1, 1) if array.ndim < 2 else array
