"""Advantages from rewards: normalised within the group of one prompt, or by generalised advantage estimation.

``group``, for the rewards ``r`` of the ``group_size`` responses to one prompt::

    advantage = (r - mean(r)) / (std(r) + 1e-6)     the sample standard deviation, n - 1; none of a group of one
    advantage = r - mean(r)                         without scaling

``gae``, per response of length ``n``, with values ``V`` and ``V[n] = 0``, from the end::

    delta[t] = r[t] + gamma V[t + 1] - V[t]
    advantage[t] = delta[t] + gamma lam advantage[t + 1]
    returns[t] = advantage[t] + V[t]

Both are 0 after a response's end. Shao et al. 2024, DeepSeekMath, section 4.1.2; Schulman et al. 2016, High-Dimensional
Continuous Control Using Generalized Advantage Estimation, equation 16. The version without scaling: Liu et al. 2025,
Understanding R1-Zero-Like Training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...attention.lengths import LENGTHS, sequence_lengths
from ...contract import Arrays, Check, Cost, Inputs, Operator, Workload, require
from ...precision import compare_floats, tolerance

STD_EPSILON = 1e-6


@dataclass(frozen=True)
class Advantages(Workload):
    """A batch of responses.

    Parameters
    ----------
    groups, group_size
        Prompts, and responses per prompt; GAE takes their product as its number of rows.
    kind
        ``group`` or ``gae``.
    length
        Tokens per row, for ``gae``.
    lengths
        Distribution of the responses' lengths, one of `kernels.attention.lengths.LENGTHS`, for ``gae``.
    scaled
        Whether ``group`` divides by the standard deviation.
    gamma, lam
        Discount and trace decay of ``gae``.
    """

    operator: ClassVar[str] = "rl.advantages"

    groups: int = 64
    group_size: int = 8
    kind: str = "gae"
    length: int = 8192
    lengths: str = "constant"
    scaled: bool = True
    gamma: float = 1.0
    lam: float = 0.95

    def __post_init__(self) -> None:
        require(self.groups >= 1, "groups", self.groups, "give at least one prompt")
        require(self.group_size >= 1, "group_size", self.group_size, "give at least one response per prompt")
        require(self.kind in ("group", "gae"), "kind", self.kind, "choose group or gae")
        require(self.length >= 1, "length", self.length, "give at least one token per response")
        require(self.lengths in LENGTHS, "lengths", self.lengths, f"choose one of {', '.join(LENGTHS)}")
        for name in ("gamma", "lam"):
            value = getattr(self, name)
            require(0 <= value <= 1, name, value, "give 0 to 1")

    @property
    def rows(self) -> int:
        """Responses."""
        return self.groups * self.group_size

    @property
    def tokens(self) -> int:
        """Tokens of all responses, for ``gae``."""
        return sum(sequence_lengths(self.lengths, self.rows, 1, self.length))


def cost(workload: Advantages) -> Cost:
    """Count rewards and values of existing tokens read once, and whole rows of both outputs written once.

    ``gae``: two fused multiply-adds, a subtraction and an addition per token. ``group``: 6 FLOP per reward.
    """
    w = workload
    if w.kind == "group":
        size = 4.0 * w.rows
        return Cost(flops={"vector.fp32": 6.0 * w.rows}, read_bytes={"dram": size}, write_bytes={"dram": size})
    return Cost(
        flops={"vector.fp32": 6.0 * w.tokens},
        read_bytes={"dram": 8.0 * w.tokens + 4.0 * w.rows},
        write_bytes={"dram": 8.0 * w.rows * w.length},
    )


def make_inputs(workload: Advantages, seed: int) -> Inputs:
    """Draw ``reward[groups, group_size]`` of 0 and 1, or ``reward`` and ``value`` ``[rows, length]`` and ``lengths``.

    GAE's rewards are small per token and large at the end. Places after the end hold numbers that must not count.
    """
    w, rng = workload, np.random.default_rng(seed)
    if w.kind == "group":
        solved = rng.random((w.groups, 1))
        return Inputs(w, seed, {"reward": (rng.random((w.groups, w.group_size)) < solved).astype(np.float32)})
    shape = (w.rows, w.length)
    lengths = rng.permutation(np.array(sequence_lengths(w.lengths, w.rows, 1, w.length), np.int32))
    reward = rng.standard_normal(shape, dtype=np.float32) * np.float32(0.01)
    reward[np.arange(w.rows), lengths - 1] += 1.0
    value = rng.standard_normal(shape, dtype=np.float32) * np.float32(0.3)
    return Inputs(w, seed, {"reward": reward, "value": value, "lengths": lengths})


def reference(inputs: Inputs) -> Arrays:
    """Compute the outputs in float64."""
    w, a = inputs.workload, inputs.arrays
    assert isinstance(w, Advantages)
    reward = a["reward"].astype(np.float64)
    if w.kind == "group":
        centred = reward - reward.mean(1, keepdims=True)
        if w.scaled:
            degrees = max(w.group_size - 1, 1)
            centred = centred / (np.sqrt((centred**2).sum(1, keepdims=True) / degrees) + STD_EPSILON)
        return {"advantage": centred}
    exists = np.arange(w.length) < a["lengths"][:, None]
    reward, value = np.where(exists, reward, 0.0), np.where(exists, a["value"].astype(np.float64), 0.0)
    following = np.append(value[:, 1:], np.zeros((w.rows, 1)), axis=1)
    advantage = reward + w.gamma * following - value
    for t in range(w.length - 2, -1, -1):
        advantage[:, t] += w.gamma * w.lam * advantage[:, t + 1]
    return {"advantage": advantage, "returns": advantage + value}


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Allow the rounding of fp32 sums over the stretch of tokens that the trace decay leaves, or over a group."""
    w = inputs.workload
    assert isinstance(w, Advantages)
    if w.kind == "group":
        # The standard deviation of equal rewards is their rounding, which epsilon divides; 0 and 1 have none.
        return compare_floats(output, expected, tolerance("fp32", w.group_size), {"advantage": 1.0})
    return compare_floats(output, expected, tolerance("fp32", w.length))


OPERATOR = Operator(
    name="rl.advantages",
    summary="advantages from rewards: normalised per group, or by generalised advantage estimation",
    phases=("train",),
    workload_type=Advantages,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
