"""Decode attention: few query tokens per sequence over a paged cache of keys and values.

With the query ``q`` of one head, keys ``k`` and values ``v`` of the head it shares, and ``scale = head_dim**-0.5``::

    s = scale * k @ q            over the keys that the query may see
    out = softmax(s) @ v
    lse = log(sum(exp(s)))

A sequence of length ``n`` ends in its query tokens: token ``i`` of ``query_tokens`` has position
``p = n - query_tokens + i`` and sees the keys up to ``p``, with a window only the last ``window`` of them. A sink is a
logit per query head without a value: it takes part in the softmax and in ``lse``. `lse` is an optional output of an
implementation, since torch's attention does not give it; `check` compares it where it is given.

The cache is ``k_pages, v_pages [pages, kv_heads, page_size, head_dim]``; key ``j`` of sequence ``b`` stands in page
``page_table[b, j // page_size]`` at ``j % page_size``. Query heads ``g * kv_head ... g * kv_head + g - 1`` share a KV
head, with ``g = q_heads / kv_heads``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...contract import Cost, Inputs, Operator, Workload, require
from ...precision import BYTES, store
from ..lengths import require_lengths, sequence_lengths
from .reference import compare, reference

PRECISIONS = ("fp32", "bf16")
_HEAD_DIM_STEP, _HEAD_DIM_MOST = 16, 512
# Of one score: scaling, maximum, subtraction, addition to the sum.
_SOFTMAX_FLOPS = 4


@dataclass(frozen=True)
class AttentionDecode(Workload):
    """One step of decoding for a batch of sequences.

    Parameters
    ----------
    batch
        Sequences.
    context
        Keys of the longest sequence, the query tokens included.
    q_heads, kv_heads
        Heads of queries, and of keys and values; the first is a multiple of the second.
    head_dim
        Numbers per head, a multiple of 16.
    page_size
        Keys per page.
    precision
        Storage of queries, keys and values, ``fp32`` or ``bf16``; outputs are fp32.
    lengths
        Distribution of the lengths: see `kernels.attention.lengths`.
    shortest
        Keys of the shortest sequence under ``uniform`` and ``log_uniform``, and a lower bound under ``lognormal``; at
        least ``query_tokens`` is taken.
    window
        How many keys a query sees, its own included; 0 for all.
    sinks
        Whether every query head has a sink.
    query_tokens
        Query tokens per sequence: 1, or more when drafted tokens are verified.
    """

    operator: ClassVar[str] = "attention.decode"

    batch: int = 8
    context: int = 4096
    q_heads: int = 32
    kv_heads: int = 4
    head_dim: int = 128
    page_size: int = 16
    precision: str = "fp32"
    lengths: str = "constant"
    shortest: int = 1
    window: int = 0
    sinks: bool = False
    query_tokens: int = 1

    def __post_init__(self) -> None:
        require(self.batch >= 1, "batch", self.batch, "give at least one sequence")
        require_lengths(self.lengths, self.shortest, self.context)
        require(self.kv_heads >= 1, "kv_heads", self.kv_heads, "give at least one head")
        whole = self.q_heads >= 1 and self.q_heads % self.kv_heads == 0
        require(whole, "q_heads", self.q_heads, f"give a multiple of kv_heads = {self.kv_heads}")
        fits = 0 < self.head_dim <= _HEAD_DIM_MOST and self.head_dim % _HEAD_DIM_STEP == 0
        require(fits, "head_dim", self.head_dim, f"give a multiple of {_HEAD_DIM_STEP}, at most {_HEAD_DIM_MOST}")
        require(self.page_size >= 1, "page_size", self.page_size, "give at least one key per page")
        known = self.precision in PRECISIONS
        require(known, "precision", self.precision, f"choose one of {', '.join(PRECISIONS)}")
        require(self.window >= 0, "window", self.window, "give a number of keys, or 0 for all")
        inside = 1 <= self.query_tokens <= self.context
        require(inside, "query_tokens", self.query_tokens, f"give 1 to context = {self.context}")

    @property
    def group(self) -> int:
        """Query heads per KV head."""
        return self.q_heads // self.kv_heads

    @property
    def scale(self) -> float:
        """What scores are multiplied by."""
        return self.head_dim**-0.5

    def sequence_lengths(self) -> tuple[int, ...]:
        """Return the lengths of the sequences in ascending order."""
        shortest = max(self.shortest, self.query_tokens)
        return sequence_lengths(self.lengths, self.batch, shortest, self.context)


def _visible(workload: AttentionDecode) -> tuple[float, float, float]:
    """Return query-key pairs, keys that some query sees, and pages that hold such keys, over the batch."""
    w = workload
    pairs = keys = pages = 0
    for length in w.sequence_lengths():
        ends = range(length - w.query_tokens + 1, length + 1)
        pairs += sum(min(end, w.window) if w.window else end for end in ends)
        first = max(ends[0] - w.window, 0) if w.window else 0
        keys += length - first
        pages += (length - 1) // w.page_size - first // w.page_size + 1
    return float(pairs), float(keys), float(pages)


def cost(workload: AttentionDecode) -> Cost:
    """Count the work: every visible key and value read once, two products and one exponential per score."""
    w = workload
    pairs, keys, pages = _visible(w)
    rows = float(w.batch * w.query_tokens * w.q_heads)
    numbers = 2 * keys * w.kv_heads * w.head_dim + rows * w.head_dim
    tables = 4 * (pages + w.batch + (w.q_heads if w.sinks else 0))
    return Cost(
        flops={
            f"matrix.{w.precision}": 4 * pairs * w.q_heads * w.head_dim,
            "vector.fp32": _SOFTMAX_FLOPS * pairs * w.q_heads,
        },
        read_bytes={"dram": numbers * BYTES[w.precision] + tables},
        write_bytes={"dram": 4 * rows * (w.head_dim + 1)},
        exponentials=pairs * w.q_heads,
    )


def make_inputs(workload: AttentionDecode, seed: int) -> Inputs:
    """Draw queries, keys and values from the standard normal distribution; shuffle lengths and pages.

    ``q[batch, query_tokens, q_heads, head_dim]``, ``k_pages``, ``v_pages``, ``page_table[batch, most pages]`` (int32,
    -1 where a sequence has no page), ``lengths[batch]`` (int32) and, with sinks, ``sinks[q_heads]`` (fp32).
    """
    w, rng = workload, np.random.default_rng(seed)
    lengths = rng.permutation(np.asarray(w.sequence_lengths(), np.int32))
    counts = -(-lengths // w.page_size)
    order = rng.permutation(int(counts.sum())).astype(np.int32)
    page_table = np.full((w.batch, int(counts.max())), -1, np.int32)
    page_table[np.arange(page_table.shape[1]) < counts[:, None]] = order

    def draw(*shape: int) -> np.ndarray:
        return store(rng.standard_normal(shape, dtype=np.float32), w.precision)

    cache = (order.size, w.kv_heads, w.page_size, w.head_dim)
    arrays = {
        "q": draw(w.batch, w.query_tokens, w.q_heads, w.head_dim),
        "k_pages": draw(*cache),
        "v_pages": draw(*cache),
        "page_table": page_table,
        "lengths": lengths,
    }
    if w.sinks:
        arrays["sinks"] = rng.standard_normal(w.q_heads, dtype=np.float32)
    return Inputs(w, seed, arrays)


OPERATOR = Operator(
    name="attention.decode",
    summary="one step of grouped-query attention over a paged cache, sequences of any length",
    phases=("rollout",),
    workload_type=AttentionDecode,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
