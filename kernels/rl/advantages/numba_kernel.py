"""GAE goes over several rows at once, since each token of a row waits for the next one's advantage."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit, prange

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from .operator import STD_EPSILON, Advantages

# Four chains of multiply-adds of latency 4 keep one unit busy.
_ROWS = 4


@njit(forceinline=True)
def _step(
    reward: Any, value: Any, advantage: Any, returns: Any, r: int, t: int, carry: Any, gamma: Any, decay: Any
) -> Any:
    """Do one token; the carry is the advantage and the value of the one after it."""
    following_advantage, following_value = carry
    v = value[r, t]
    a = reward[r, t] + gamma * following_value - v + decay * following_advantage
    advantage[r, t] = a
    returns[r, t] = a + v
    return a, v


@cache
def _kernels() -> Any:
    @njit(parallel=True, error_model="numpy")
    def group(reward, scaled, advantage):
        groups, size = reward.shape
        for g in prange(groups):
            mean = 0.0
            for i in range(size):
                mean += np.float64(reward[g, i])
            mean /= size
            squares = 0.0
            for i in range(size):
                squares += (np.float64(reward[g, i]) - mean) ** 2
            factor = 1.0 / (np.sqrt(squares / max(size - 1, 1)) + STD_EPSILON) if scaled else 1.0
            for i in range(size):
                advantage[g, i] = (np.float64(reward[g, i]) - mean) * factor

    @njit(parallel=True, error_model="numpy")
    def gae(reward, value, lengths, gamma, decay, advantage, returns):
        rows = reward.shape[0]
        zero = np.float32(0.0)
        for task in prange(-(-rows // _ROWS)):
            first, stop = task * _ROWS, min((task + 1) * _ROWS, rows)
            shared = np.int64(lengths[first])
            for r in range(first, stop):
                shared = min(shared, np.int64(lengths[r]))
                advantage[r, lengths[r] :] = zero
                returns[r, lengths[r] :] = zero
            c0 = c1 = c2 = c3 = (zero, zero)
            # What the longer rows have beyond the shortest, one row after another.
            for r in range(first, stop):
                carry = (zero, zero)
                for t in range(lengths[r] - 1, (shared if stop - first == _ROWS else 0) - 1, -1):
                    carry = _step(reward, value, advantage, returns, r, t, carry, gamma, decay)
                if r == first:
                    c0 = carry
                elif r == first + 1:
                    c1 = carry
                elif r == first + 2:
                    c2 = carry
                else:
                    c3 = carry
            if stop - first == _ROWS:
                for t in range(shared - 1, -1, -1):
                    c0 = _step(reward, value, advantage, returns, first, t, c0, gamma, decay)
                    c1 = _step(reward, value, advantage, returns, first + 1, t, c1, gamma, decay)
                    c2 = _step(reward, value, advantage, returns, first + 2, t, c2, gamma, decay)
                    c3 = _step(reward, value, advantage, returns, first + 3, t, c3, gamma, decay)

    return group, gae


@implementation("rl.advantages", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """All buffers are made here."""
    w, a = inputs.workload, inputs.arrays
    assert isinstance(w, Advantages)
    group, gae = _kernels()
    out: Arrays = {"advantage": np.empty(a["reward"].shape, np.float32)}
    if w.kind == "group":
        return Prepared(lambda: group(a["reward"], w.scaled, out["advantage"]), lambda: dict(out))
    out["returns"] = np.empty(a["reward"].shape, np.float32)
    factors = (np.float32(w.gamma), np.float32(w.gamma * w.lam))
    arguments = (a["reward"], a["value"], a["lengths"], *factors, out["advantage"], out["returns"])
    return Prepared(lambda: gae(*arguments), lambda: dict(out))
