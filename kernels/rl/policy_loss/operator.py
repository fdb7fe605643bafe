"""The clipped policy loss of GRPO and GSPO, and its gradient by the log-probabilities.

Per token ``t`` of sequence ``i``, with ``d = logprob - old_logprob`` and advantage ``A``::

    ratio = exp(d)                                   grpo
    ratio = exp(mean of d over the sequence)         gspo
    loss_t = -min(ratio A, clip(ratio, 1 - clip_low, 1 + clip_high) A) + kl * k3
    k3 = exp(e) - e - 1,   e = reference - logprob

    loss = sum over unmasked tokens of weight_i * loss_t
    weight_i = 1 / tokens of the batch               token
    weight_i = 1 / (sequences * tokens of i)         sequence
    weight_i = 1 / (sequences * length)              constant

The gradient is ``dloss / dlogprob``. A clipped token has gradient 0 but for its KL part; GSPO's ratio spreads over its
sequence. ``d`` and ``e`` may be up to 88, where exp ends in fp32.

Shao et al. 2024, DeepSeekMath (GRPO and k3, after Schulman's note on approximating KL); Yu et al. 2025, DAPO
(clip-higher and token-level weights); Zheng et al. 2025, Group Sequence Policy Optimization; Liu et al. 2025,
Understanding R1-Zero-Like Training (constant weights).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...attention.lengths import LENGTHS, sequence_lengths
from ...contract import Arrays, Check, Cost, Inputs, Operator, Workload, require
from ...precision import compare_floats, tolerance

ALGORITHMS = ("grpo", "gspo")
NORMALIZATIONS = ("token", "sequence", "constant")
# Tokens whose log ratio lies this near a clipping bound may fall on either side of it in fp32.
_AT_THE_BOUND = 1e-5


@dataclass(frozen=True)
class PolicyLoss(Workload):
    """A batch of responses, one row each, with tokens after a response's end masked.

    Parameters
    ----------
    sequences, length
        Rows, and tokens per row.
    algorithm
        ``grpo`` or ``gspo``.
    normalization
        ``token``, ``sequence`` or ``constant``.
    kl
        Coefficient of the KL term to a reference policy; 0 leaves it and its input out.
    clip_low, clip_high
        How far the ratio may fall below and rise above 1; a larger ``clip_high`` is clip-higher.
    lengths
        Distribution of the responses' lengths, one of `kernels.attention.lengths.LENGTHS`.
    drift
        Standard deviation of ``logprob - old_logprob``.
    """

    operator: ClassVar[str] = "rl.policy_loss"

    sequences: int = 512
    length: int = 8192
    algorithm: str = "grpo"
    normalization: str = "token"
    kl: float = 0.0
    clip_low: float = 0.2
    clip_high: float = 0.28
    lengths: str = "constant"
    drift: float = 0.2

    def __post_init__(self) -> None:
        require(self.sequences >= 1, "sequences", self.sequences, "give at least one sequence")
        require(self.length >= 1, "length", self.length, "give at least one token per sequence")
        require(self.algorithm in ALGORITHMS, "algorithm", self.algorithm, f"choose one of {', '.join(ALGORITHMS)}")
        known = self.normalization in NORMALIZATIONS
        require(known, "normalization", self.normalization, f"choose one of {', '.join(NORMALIZATIONS)}")
        require(0 <= self.kl < np.inf, "kl", self.kl, "give a coefficient, or 0 for none")
        require(0 < self.clip_low < 1, "clip_low", self.clip_low, "give a number between 0 and 1")
        require(0 < self.clip_high < np.inf, "clip_high", self.clip_high, "give a positive number")
        require(self.lengths in LENGTHS, "lengths", self.lengths, f"choose one of {', '.join(LENGTHS)}")
        require(0 <= self.drift <= 20, "drift", self.drift, "give 0 to 20")

    @property
    def tokens(self) -> int:
        """Unmasked tokens."""
        return sum(sequence_lengths(self.lengths, self.sequences, 1, self.length))

    def bounds(self) -> tuple[float, float]:
        """Return the logarithms of the lowest and the highest ratio that is not clipped."""
        return float(np.log1p(-self.clip_low)), float(np.log1p(self.clip_high))


def cost(workload: PolicyLoss) -> Cost:
    """Count log-probabilities of unmasked tokens and the whole mask read once, and the whole gradient written once.

    Per unmasked token a ratio takes 1 FLOP and an exponential, the loss and its gradient 6, KL 6 and an exponential.
    """
    w = workload
    tokens, places = float(w.tokens), float(w.sequences) * w.length
    inputs = 3 if w.kl else 2
    exponentials = (tokens if w.algorithm == "grpo" else w.sequences) + (tokens if w.kl else 0)
    return Cost(
        flops={"vector.fp32": tokens * (7 + (6 if w.kl else 0))},
        read_bytes={"dram": 4 * inputs * tokens + places + 4.0 * w.sequences},
        write_bytes={"dram": 4 * places + 4.0},
        exponentials=float(exponentials),
    )


def make_inputs(workload: PolicyLoss, seed: int) -> Inputs:
    """Draw log-probabilities of sampled tokens (most near 0, the rarest near -60), and advantages of unit variance.

    ``logprob``, ``old_logprob`` and, with KL, ``ref_logprob`` are ``[sequences, length]``; masked places hold numbers
    that must not count. ``mask`` is uint8, ``advantage`` is ``[sequences]``.
    """
    w, rng = workload, np.random.default_rng(seed)
    shape = (w.sequences, w.length)
    old = -(rng.standard_exponential(shape, dtype=np.float32) ** 2)
    old[rng.random(shape, dtype=np.float32) < 1e-3] = -60.0
    np.maximum(old, np.float32(-60.0), out=old)

    def near(base: Any) -> Any:
        moved = rng.standard_normal(shape, dtype=np.float32)
        moved *= np.float32(w.drift)
        moved += base
        return np.minimum(moved, np.float32(0.0), out=moved)

    lengths = rng.permutation(np.array(sequence_lengths(w.lengths, w.sequences, 1, w.length)))
    arrays: Arrays = {
        "logprob": near(old),
        "old_logprob": old,
        "mask": (np.arange(w.length) < lengths[:, None]).astype(np.uint8),
        "advantage": rng.standard_normal(w.sequences, dtype=np.float32),
    }
    if w.kl:
        arrays["ref_logprob"] = near(old)
    return Inputs(w, seed, arrays)


def sequence_weights(workload: PolicyLoss, counts: Any) -> Any:
    """Return the weight of each sequence's tokens, from its number of unmasked tokens, in float64."""
    w, counts = workload, np.asarray(counts, np.float64)
    if w.normalization == "token":
        return np.full(counts.size, 1.0 / max(counts.sum(), 1.0))
    if w.normalization == "constant":
        return np.full(counts.size, 1.0 / (w.sequences * w.length))
    return 1.0 / (w.sequences * np.maximum(counts, 1.0))


def reference(inputs: Inputs) -> Arrays:
    """Compute loss and gradient in float64; ``grad_other`` is the gradient on the other side of a near bound."""
    w, a = inputs.workload, inputs.arrays
    assert isinstance(w, PolicyLoss)
    on = a["mask"] != 0
    logprob = np.where(on, a["logprob"].astype(np.float64), 0.0)
    advantage = a["advantage"].astype(np.float64)[:, None]
    counts = on.sum(1)
    weight = sequence_weights(w, counts)[:, None] * on
    d = logprob - np.where(on, a["old_logprob"].astype(np.float64), 0.0)
    if w.algorithm == "gspo":
        d = np.broadcast_to(d.sum(1, keepdims=True) / np.maximum(counts, 1)[:, None], d.shape)
    low, high = w.bounds()
    ratio = np.exp(d)
    loss = -np.minimum(ratio * advantage, np.clip(ratio, 1 - w.clip_low, 1 + w.clip_high) * advantage)
    bound = np.where(advantage > 0, high, low)
    clipped = np.where(advantage > 0, d > high, d < low) & (advantage != 0)
    slope = -ratio * advantage
    near = np.abs(d - bound) < _AT_THE_BOUND
    grad = np.where(clipped, 0.0, slope)
    other = np.where(near, np.where(clipped, slope, 0.0), grad)
    if w.kl:
        e = np.where(on, a["ref_logprob"].astype(np.float64), 0.0) - logprob
        loss = loss + w.kl * (np.expm1(e) - e)
        grad, other = grad - w.kl * np.expm1(e), other - w.kl * np.expm1(e)
    return {"loss": np.array([np.sum(weight * loss)]), "grad": weight * grad, "grad_other": weight * other}


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Allow the rounding of fp32 sums; next to a clipping bound the gradient of either side is right.

    The loss may cancel, so its error is relative to the mean size of what is added: advantages are of size 1.
    """
    w = inputs.workload
    assert isinstance(w, PolicyLoss)
    got = np.asarray(output.get("grad", np.empty(0)), np.float64)
    want = expected["grad"]
    if got.shape == want.shape:
        other = expected["grad_other"]
        want = np.where(np.abs(got - other) < np.abs(got - want), other, want)
    size = float(np.mean(np.abs(inputs.arrays["advantage"]))) + 1.0
    allowed = tolerance("fp32", w.length)
    result = compare_floats(output, {"grad": want, "loss": expected["loss"]}, allowed, {"loss": size})
    if result.ok and np.any(got[inputs.arrays["mask"] == 0]):
        return Check(False, np.inf, "grad: a masked token has a gradient")
    return result


OPERATOR = Operator(
    name="rl.policy_loss",
    summary="clipped policy loss of GRPO and GSPO with KL, and its gradient by the log-probabilities",
    phases=("train",),
    workload_type=PolicyLoss,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
