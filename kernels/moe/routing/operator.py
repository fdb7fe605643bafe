"""Choose experts for tokens, weigh them, and order the choices by expert.

With logits ``x`` of one token over all experts:

- ``softmax``: ``weight = softmax(x)`` at the ``top_k`` largest logits;
- ``softmax_after_topk``: ``weight = softmax`` over the ``top_k`` largest logits alone (gpt-oss);
- ``sigmoid``: ``weight = sigmoid(x)`` at the ``top_k`` largest of ``sigmoid(x) + bias``. With ``groups`` above 1,
  experts stand in groups of consecutive numbers, a group's score is the sum of its two largest, and only experts in
  the ``groups_kept`` best groups can be chosen (DeepSeek-V3, arXiv 2412.19437, section 2.1.2).

``renormalize`` divides a token's weights by their sum (for sigmoid by the sum plus 1e-20, as DeepSeek-V3 does), then
``scale`` multiplies them. Choices are ordered best first; among equals the lowest expert, or group, comes first.

Infinities and NaN. Selection is always defined: choices are distinct and in range. NaN logits rank last: as -inf under
the softmax gates, where they have weight 0, and below every other expert under sigmoid, where their gate is 0. Softmax
weights of a token whose largest logit is +inf or -inf are NaN. Zeros of either sign are equal.

The permutation: ``counts[e]`` choices of expert ``e``; ``offsets[e]`` where they begin, each expert padded to a
multiple of ``block``, and at the end the total; ``source`` the choices, ``token * top_k + slot``, in expert order and
within an expert in token order. Padding, and what is left to the fixed length (`Routing.capacity`), holds ``tokens *
top_k``. With ``block`` above 1, ``block_expert`` names the expert of each block, -1 after the last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...contract import Cost, Inputs, Operator, Workload, require
from ...distributions import checked_skew, draw_logits, popularity
from ...precision import BYTES, store
from .reference import compare, reference

GATES = ("softmax", "sigmoid", "softmax_after_topk")
EXPERTS_MOST, TOP_K_MOST = 1024, 32
# Standard deviation of the drawn correction bias: small beside the spread of sigmoid(x), so that the skew remains.
_BIAS_SPREAD = 0.02


@dataclass(frozen=True)
class Routing(Workload):
    """Router logits of tokens over experts.

    Parameters
    ----------
    tokens, experts, top_k
        Shape; up to 1024 experts, of which up to 32 are chosen.
    gate
        ``softmax``, ``sigmoid`` (with a correction bias) or ``softmax_after_topk``.
    groups, groups_kept
        Group-limited selection of the sigmoid gate; 1 and 1 for none.
    renormalize
        Whether a token's weights are divided by their sum. ``softmax_after_topk`` always sums to 1.
    scale
        Factor of the weights.
    skew, skew_parameter
        Popularity of the experts, see `kernels.distributions`.
    block
        Multiple to which each expert's rows are padded, for grouped matmul.
    precision
        Storage of the logits, ``fp32`` or ``bf16``; weights and bias are fp32.
    """

    operator: ClassVar[str] = "moe.routing"

    tokens: int = 8192
    experts: int = 128
    top_k: int = 8
    gate: str = "softmax"
    groups: int = 1
    groups_kept: int = 1
    renormalize: bool = True
    scale: float = 1.0
    skew: str = "uniform"
    skew_parameter: float | None = None
    block: int = 1
    precision: str = "fp32"

    def __post_init__(self) -> None:
        require(self.tokens >= 1, "tokens", self.tokens, "give at least one token")
        require(1 <= self.experts <= EXPERTS_MOST, "experts", self.experts, f"give 1 to {EXPERTS_MOST}")
        most = min(self.experts, TOP_K_MOST)
        require(1 <= self.top_k <= most, "top_k", self.top_k, f"give 1 to {most} (at most the experts, and 32)")
        slots = self.tokens * self.top_k
        require(slots < 2**31 - 2**25, "tokens", self.tokens, "choices are numbered in 32 bits; give fewer tokens")
        require(self.gate in GATES, "gate", self.gate, f"choose one of {', '.join(GATES)}")
        self._check_groups()
        finite = math.isfinite(self.scale) and self.scale > 0
        require(finite, "scale", self.scale, "give a finite number above 0")
        parameter = checked_skew(self.skew, self.skew_parameter, self.experts)
        object.__setattr__(self, "skew_parameter", parameter if self.skew != "uniform" else None)
        require(1 <= self.block <= 1024, "block", self.block, "give 1 (no padding) to 1024 rows")
        require(self.precision in ("fp32", "bf16"), "precision", self.precision, "choose fp32 or bf16")

    def _check_groups(self) -> None:
        divides = self.groups >= 1 and self.experts % self.groups == 0
        require(divides, "groups", self.groups, f"give a divisor of experts = {self.experts}")
        only_sigmoid = self.groups == 1 or self.gate == "sigmoid"
        require(only_sigmoid, "groups", self.groups, "group-limited selection needs gate = 'sigmoid'; give 1")
        kept = 1 <= self.groups_kept <= self.groups
        require(kept, "groups_kept", self.groups_kept, f"give 1 to groups = {self.groups}")
        enough = self.groups_kept * (self.experts // self.groups) >= self.top_k
        require(enough, "groups_kept", self.groups_kept, f"the kept groups must hold top_k = {self.top_k} experts")

    @property
    def slots(self) -> int:
        """Number of choices, ``tokens * top_k``."""
        return self.tokens * self.top_k

    @property
    def capacity(self) -> int:
        """Length of ``source``: the most rows that padding can lead to."""
        touched_most = min(self.experts, self.slots)
        return (self.slots + touched_most * (self.block - 1)) // self.block * self.block


def least_compares(items: int, chosen: int) -> float:
    """Return the comparisons that suffice to find and order the largest of some items by a tournament.

    ``n - k + sum of ceil(log2 j) for j from n - k + 2 to n`` (Knuth, The Art of Computer Programming 3, 5.3.3,
    equation 6, after Kislitsyn).
    """
    return float(items - chosen + sum(math.ceil(math.log2(j)) for j in range(items - chosen + 2, items + 1)))


def cost(workload: Routing) -> Cost:
    """Count the work: logits read once, weights, experts and permutation written once.

    A softmax weight that is renormalised needs the exponentials of the chosen logits alone.
    """
    w = workload
    tokens, chosen = float(w.tokens), w.top_k
    of_all = w.gate == "sigmoid" or (w.gate == "softmax" and not w.renormalize)
    exponentials = w.experts if of_all else chosen
    # Softmax: subtract the maximum, sum; divide. Sigmoid: 1 / (1 + e) and + bias; sum and divide.
    softmax, sigmoid = 2 * exponentials + chosen, 3 * w.experts + 2 * chosen * w.renormalize
    flops = sigmoid if w.gate == "sigmoid" else softmax
    flops += chosen * (w.scale != 1.0)
    compares = least_compares(w.experts, chosen)
    if w.groups > 1:
        size = w.experts // w.groups
        compares = w.groups * least_compares(size, min(2, size)) + least_compares(w.groups, w.groups_kept)
        compares += least_compares(w.groups_kept * size, chosen)
        flops += w.groups
    blocks = w.capacity // w.block if w.block > 1 else 0
    written = 8.0 * w.slots + 4.0 * (w.capacity + 2 * w.experts + 1 + blocks)
    bias = 4.0 * w.experts if w.gate == "sigmoid" else 0.0
    return Cost(
        flops={"vector.fp32": tokens * flops},
        read_bytes={"dram": tokens * w.experts * BYTES[w.precision] + bias},
        write_bytes={"dram": written},
        exponentials=tokens * exponentials,
        compares=tokens * compares,
        launches=2,  # an expert's offset is known when all tokens are counted
    )


def make_inputs(workload: Routing, seed: int) -> Inputs:
    """Draw ``logits[tokens, experts]`` under the skew and, for sigmoid, ``bias[experts]``."""
    w, rng = workload, np.random.default_rng(seed)
    logits = draw_logits(rng, w.tokens, popularity(w.experts, w.skew, w.skew_parameter))
    arrays: dict[str, np.ndarray] = {"logits": store(logits, w.precision)}
    if w.gate == "sigmoid":
        arrays["bias"] = (_BIAS_SPREAD * rng.standard_normal(w.experts)).astype(np.float32)
    return Inputs(w, seed, arrays)


OPERATOR = Operator(
    name="moe.routing",
    summary="gate, top-k experts per token, weights, and the permutation of the choices by expert",
    phases=("rollout", "logprob", "train"),
    workload_type=Routing,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
