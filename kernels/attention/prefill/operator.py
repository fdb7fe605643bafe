"""Prefill attention: many query tokens per sequence over contiguous keys and values, with the log-sum-exp.

With the queries ``q`` of one head, keys ``k`` and values ``v`` of the head it shares, and ``scale = head_dim**-0.5``::

    s = scale * q @ k.T              softcap * tanh(s / softcap) with a softcap
    out = softmax(s) @ v             over the keys that a query sees: see `kernels.attention.masks`
    lse = log(sum(exp(s)))

A sink is a logit per query head without a value (gpt-oss): it takes part in the softmax and in ``lse``. A query that
sees nothing gives zeros, and an ``lse`` of -inf, or its sink. ``lse`` is an optional output of an implementation, since
torch's attention does not give it; `check` compares it where it is given.

Sequences stand one after another: ``q, out [query tokens, q_heads, head_dim]``, ``k, v [key tokens, kv_heads,
head_dim]``, ``lse [query tokens, q_heads]``; sequence ``b`` has the tokens from ``offsets[b]`` up to
``offsets[b + 1]``.
Query heads ``g * kv_head ... g * kv_head + g - 1`` share a KV head, with ``g = q_heads / kv_heads``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...contract import Cost, Inputs, Operator, Workload, require
from ...precision import BYTES, store
from ..lengths import require_lengths, sequence_lengths
from ..masks import Mask, attention_flops, offsets
from .reference import compare, reference

PRECISIONS = ("fp32", "bf16")
_HEAD_DIM_STEP, _HEAD_DIM_MOST = 16, 256
# Of one score: scaling, maximum, subtraction, addition to the sum.
_SOFTMAX_FLOPS = 4


@dataclass(frozen=True)
class AttentionPrefill(Workload):
    """Prompts, or chunks of them after what is cached.

    Parameters
    ----------
    batch
        Sequences.
    length
        Query tokens of the longest sequence.
    q_heads, kv_heads
        Heads of queries, and of keys and values; the first is a multiple of the second.
    head_dim
        Numbers per head, a multiple of 16.
    prefix
        Keys before a sequence's first query, cached by earlier chunks. Negative: so many queries stand before the first
        key and see nothing.
    precision
        Storage of queries, keys, values and ``out``, ``fp32`` or ``bf16``; ``lse`` is fp32.
    causal
        Whether a query sees no later key.
    window
        How many keys a query sees, its own included; 0 for all.
    sinks
        Whether every query head has a sink.
    softcap
        Bound of the scores, 0 for none.
    lengths
        Distribution of the query tokens: see `kernels.attention.lengths`.
    shortest
        Query tokens of the shortest sequence under ``uniform`` and ``log_uniform``, a lower bound under ``lognormal``.
    """

    operator: ClassVar[str] = "attention.prefill"

    batch: int = 1
    length: int = 2048
    q_heads: int = 32
    kv_heads: int = 4
    head_dim: int = 128
    prefix: int = 0
    precision: str = "fp32"
    causal: bool = True
    window: int = 0
    sinks: bool = False
    softcap: float = 0.0
    lengths: str = "constant"
    shortest: int = 1

    def __post_init__(self) -> None:
        require(self.batch >= 1, "batch", self.batch, "give at least one sequence")
        require(self.length >= 1, "length", self.length, "give at least one query token")
        require_lengths(self.lengths, self.shortest, self.length)
        require(self.kv_heads >= 1, "kv_heads", self.kv_heads, "give at least one head")
        whole = self.q_heads >= 1 and self.q_heads % self.kv_heads == 0
        require(whole, "q_heads", self.q_heads, f"give a multiple of kv_heads = {self.kv_heads}")
        fits = 0 < self.head_dim <= _HEAD_DIM_MOST and self.head_dim % _HEAD_DIM_STEP == 0
        require(fits, "head_dim", self.head_dim, f"give a multiple of {_HEAD_DIM_STEP}, at most {_HEAD_DIM_MOST}")
        some = self.prefix > -self.length
        require(some, "prefix", self.prefix, f"give more than -length = {-self.length}, so that there is a key")
        require(self.length + self.prefix < 2**31, "prefix", self.prefix, "positions are 32-bit; give less than 2**31")
        known = self.precision in PRECISIONS
        require(known, "precision", self.precision, f"choose one of {', '.join(PRECISIONS)}")
        require(self.softcap >= 0, "softcap", self.softcap, "give a bound of the scores, or 0 for none")
        _ = self.mask

    @property
    def mask(self) -> Mask:
        """Which keys a query sees."""
        return Mask(self.causal, self.window)

    @property
    def group(self) -> int:
        """Query heads per KV head."""
        return self.q_heads // self.kv_heads

    @property
    def scale(self) -> float:
        """What scores are multiplied by."""
        return self.head_dim**-0.5

    def sequences(self) -> list[tuple[int, int]]:
        """Return query tokens and keys of the sequences, shortest first."""
        lengths = sequence_lengths(self.lengths, self.batch, self.shortest, self.length)
        return [(length, max(length + self.prefix, 0)) for length in lengths]


def cost(workload: AttentionPrefill) -> Cost:
    """Count the work: visible pairs only, every visible key and value read once, one exponential per score."""
    w = workload
    pairs, keys = w.mask.totals(w.sequences())
    tokens = sum(queries for queries, _ in w.sequences())
    scores, rows = float(pairs) * w.q_heads, float(tokens) * w.q_heads
    size = BYTES[w.precision]
    return Cost(
        flops={
            f"matrix.{w.precision}": attention_flops(pairs, w.q_heads, w.head_dim, w.head_dim),
            "vector.fp32": _SOFTMAX_FLOPS * scores,
        },
        read_bytes={"dram": size * w.head_dim * (rows + 2.0 * keys * w.kv_heads) + (4.0 * w.q_heads if w.sinks else 0)},
        write_bytes={"dram": size * w.head_dim * rows + 4.0 * rows},
        # A tanh is one too.
        exponentials=scores * (2 if w.softcap else 1),
    )


def make_inputs(workload: Any, seed: int) -> Inputs:
    """Draw queries, keys and values from the standard normal distribution; shuffle which sequence has which length.

    ``q``, ``k``, ``v``; ``query_offsets`` and ``key_offsets`` ``[batch + 1]`` (int32); with sinks ``sinks[q_heads]``
    (fp32).
    """
    w, rng = workload, np.random.default_rng(seed)
    sequences = rng.permutation(np.asarray(w.sequences()))

    def draw(*shape: int) -> np.ndarray:
        return store(rng.standard_normal(shape, dtype=np.float32), w.precision)

    query_offsets, key_offsets = (offsets(sequences[:, i].tolist()) for i in range(2))
    keys = (int(key_offsets[-1]), w.kv_heads, w.head_dim)
    arrays = {
        "q": draw(int(query_offsets[-1]), w.q_heads, w.head_dim),
        "k": draw(*keys),
        "v": draw(*keys),
        "query_offsets": query_offsets,
        "key_offsets": key_offsets,
    }
    if w.sinks:
        arrays["sinks"] = rng.standard_normal(w.q_heads, dtype=np.float32)
    return Inputs(w, seed, arrays)


OPERATOR = Operator(
    name="attention.prefill",
    summary="grouped-query attention of prompts: causal or full, chunked, ragged, windowed, with sinks",
    phases=("rollout", "reward", "logprob", "train"),
    workload_type=AttentionPrefill,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
