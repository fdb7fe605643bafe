"""Verify drafted tokens against the target model, so that what is kept is distributed as the target's own tokens.

A draft is a tree: position 0 is the last token that is already certain, and position ``node`` has the drafted tokens
``branches * node + 1`` to ``branches * (node + 1)`` below it, each drawn from the draft's distribution there. With one
branch it is a sequence. At each position the children are tried in turn: ``x`` is accepted with probability
``min(1, p(x) / q(x))``; if it is rejected, ``max(p - q, 0)``, normalised, takes the place of ``p``. An accepted child
is the next position. Where no child is accepted a token is drawn from what has taken the place of ``p``, and after a
leaf one from ``p`` itself (Leviathan, Kalman and Matias, "Fast inference from transformers via speculative decoding",
ICML 2023, for one branch; Miao et al., "SpecInfer", ASPLOS 2024, for several).

After several rejections what is left is proportional to ``max(p - c q, 0)`` with one number ``c``: 0 at first, and
``c + sum(max(p - c q, 0))`` after each rejection. So a rejection costs one pass over two rows, and nothing is stored.

Node ``n`` is accepted by Philox's first word at ``offset + n``, the last token drawn by a 64-bit number at ``offset``.
A distribution that a draw needs and that holds a NaN or nothing gives token -1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...contract import Cost, Inputs, Operator, Workload, require
from .reference import compare, reference

_MOST_NODES = 4096


@dataclass(frozen=True)
class SpeculativeVerify(Workload):
    """Drafts of a batch of sequences.

    Parameters
    ----------
    batch
        Sequences.
    draft_length
        Tokens from the root of the tree to a leaf.
    branches
        Children of every position that is not a leaf.
    vocab
        Probabilities per position, in fp32.
    acceptance
        Probability that the first child of a position is accepted: ``sum(min(p, q))``.
    """

    operator: ClassVar[str] = "sampling.speculative_verify"

    batch: int = 16
    draft_length: int = 4
    branches: int = 1
    vocab: int = 151_936
    acceptance: float = 0.8

    def __post_init__(self) -> None:
        require(self.batch >= 1, "batch", self.batch, "give at least one sequence")
        require(self.draft_length >= 1, "draft_length", self.draft_length, "give at least one drafted token")
        require(self.branches >= 1, "branches", self.branches, "give at least one child per position")
        require(2 <= self.vocab < 2**31, "vocab", self.vocab, "give 2 tokens or more, and less than 2**31")
        require(bool(0.0 <= self.acceptance <= 1.0), "acceptance", self.acceptance, "give a probability")
        few = self.draft_length * np.log(self.branches) < np.log(_MOST_NODES) and self.draft_length <= _MOST_NODES
        few = bool(few) and self.nodes <= _MOST_NODES
        require(few, "draft_length", self.draft_length, f"a tree has at most {_MOST_NODES} nodes; give fewer")

    @property
    def nodes(self) -> int:
        """Drafted tokens per sequence."""
        return sum(self.branches**depth for depth in range(1, self.draft_length + 1))

    @property
    def inner(self) -> int:
        """Positions that have children."""
        return self.nodes // self.branches


def cost(workload: SpeculativeVerify) -> Cost:
    """Count the expected work: two probabilities per child tried, then one pass over the rows of the last position.

    The pass reads both distributions after a rejection and the target's alone after a leaf; rows are counted once
    however many children were rejected. Per token a fused multiply-add, a comparison with 0 and an addition.
    """
    w = workload
    passed = 1.0 - (1.0 - w.acceptance) * (1.0 - w.acceptance / 2) ** (w.branches - 1)
    to_leaf = passed**w.draft_length
    tried = w.branches * sum(passed**depth for depth in range(w.draft_length))
    rows = 2.0 - to_leaf
    return Cost(
        flops={"vector.fp32": w.batch * w.vocab * 4.0 * (1.0 - to_leaf) + w.batch * w.vocab * to_leaf},
        read_bytes={"dram": w.batch * (4.0 * w.vocab * rows + 12.0 * tried + 16.0)},
        write_bytes={"dram": w.batch * 4.0 * (w.draft_length + 3)},
        compares=float(w.batch * w.vocab),
    )


def _distributions(rng: np.random.Generator, w: SpeculativeVerify) -> tuple[Any, Any]:
    """Draw rows p and q that overlap by the acceptance: what they do not share lies on halves of the vocabulary."""
    h = np.exp(2.5 * rng.standard_normal((w.batch, w.nodes + 1, w.vocab), dtype=np.float32))
    h /= h.sum(-1, keepdims=True, dtype=np.float64)
    half = rng.permutation(w.vocab) < w.vocab // 2
    own, other = np.where(half, h, 0), np.where(half, 0, h)[:, : w.inner]
    own *= ((1 - w.acceptance) / own.sum(-1, keepdims=True, dtype=np.float64)).astype(np.float32)
    other *= ((1 - w.acceptance) / other.sum(-1, keepdims=True, dtype=np.float64)).astype(np.float32)
    h *= np.float32(w.acceptance)
    return h + own, h[:, : w.inner] + other


def make_inputs(workload: SpeculativeVerify, seed: int) -> Inputs:
    """Draw ``target[batch, nodes + 1, vocab]``, ``draft[batch, inner, vocab]`` and ``token[batch, nodes]`` from it."""
    w, rng = workload, np.random.default_rng(seed)
    target, draft = _distributions(rng, w)
    token = np.empty((w.batch, w.nodes), np.int32)
    for i in range(w.batch):
        for position in range(w.inner):
            cumulative = draft[i, position].cumsum(dtype=np.float64)
            chosen = np.searchsorted(cumulative, rng.random(w.branches) * cumulative[-1], side="right")
            token[i, position * w.branches : (position + 1) * w.branches] = np.minimum(chosen, w.vocab - 1)
    arrays = {"target": target, "draft": draft, "token": token}
    arrays["seed"] = rng.integers(0, 2**62, w.batch, dtype=np.int64)
    arrays["offset"] = rng.integers(0, 2**31, w.batch, dtype=np.int64)
    return Inputs(w, seed, arrays)


def check_tokens(inputs: Inputs) -> None:
    """Refuse drafted tokens outside the vocabulary, which kernels do not look for.

    Raises
    ------
    WorkloadError
        If there is one.
    """
    vocab, token = inputs.arrays["target"].shape[2], inputs.arrays["token"]
    outside = token[(token < 0) | (token >= vocab)]
    require(outside.size == 0, "token", outside[:3].tolist(), f"give numbers from 0 to {vocab - 1}")


OPERATOR = Operator(
    name="sampling.speculative_verify",
    summary="accept drafted tokens, a sequence or a tree, without changing the target's distribution",
    phases=("rollout",),
    workload_type=SpeculativeVerify,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
