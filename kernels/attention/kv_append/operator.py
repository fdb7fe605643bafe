"""Write the keys and values of new tokens to the pages of the cache, the keys rotated to their positions on the way.

A sequence that holds ``starts[b]`` keys gets ``new_tokens`` more, at positions ``p = starts[b] + i``. Of each key the
first half ``a`` and the second half ``b`` are rotated together (Su et al. 2021, RoFormer, arXiv 2104.09864, section
3.4.2, with the halves paired as in GPT-NeoX), values are copied::

    a, b = a * cos[p] - b * sin[p], b * cos[p] + a * sin[p]

``rotary[positions, head_dim]`` (fp32) holds the cosines of a position and behind them its sines, as engines keep them.
Pages are those of `attention.decode`: ``k_pages, v_pages [pages, kv_heads, page_size, head_dim]``, key ``j`` of
sequence ``b`` in page ``page_table[b, j // page_size]`` at ``j % page_size``.

An implementation returns what it wrote, read back from its pages as ``k, v [batch, new_tokens, kv_heads, head_dim]``,
and ``others``, the sum of the bits of all other slots, which are not its to touch (see `read_back`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...contract import Arrays, Check, Cost, Inputs, Operator, Workload, require
from ...precision import BYTES, compare_floats, store, tolerance, widen
from ..lengths import require_lengths, sequence_lengths

_HEAD_DIM_STEP, _HEAD_DIM_MOST = 16, 512


@dataclass(frozen=True)
class KvAppend(Workload):
    """New tokens of a batch of sequences.

    Parameters
    ----------
    batch, new_tokens
        Sequences, and new tokens of each.
    context
        Keys that the longest sequence holds afterwards.
    kv_heads, head_dim
        Heads of keys and values, and numbers per head, a multiple of 16.
    page_size
        Keys per page.
    precision
        Storage of keys and values: ``fp32`` or ``bf16``.
    lengths, shortest
        Distribution of the keys held afterwards, see `kernels.attention.lengths`; at least ``new_tokens``.
    base
        Base of the rotary frequencies.
    """

    operator: ClassVar[str] = "attention.kv_append"

    batch: int = 64
    new_tokens: int = 1
    context: int = 4096
    kv_heads: int = 4
    head_dim: int = 128
    page_size: int = 16
    precision: str = "bf16"
    lengths: str = "constant"
    shortest: int = 1
    base: float = 1e6

    def __post_init__(self) -> None:
        require(self.batch >= 1, "batch", self.batch, "give at least one sequence")
        require_lengths(self.lengths, self.shortest, self.context)
        inside = 1 <= self.new_tokens <= self.context
        require(inside, "new_tokens", self.new_tokens, f"give 1 to context = {self.context}")
        require(self.kv_heads >= 1, "kv_heads", self.kv_heads, "give at least one head")
        fits = 0 < self.head_dim <= _HEAD_DIM_MOST and self.head_dim % _HEAD_DIM_STEP == 0
        require(fits, "head_dim", self.head_dim, f"give a multiple of {_HEAD_DIM_STEP}, at most {_HEAD_DIM_MOST}")
        require(self.page_size >= 1, "page_size", self.page_size, "give at least one key per page")
        require(self.precision in ("fp32", "bf16"), "precision", self.precision, "choose fp32 or bf16")
        require(1 < self.base < 1e12, "base", self.base, "give a number above 1, such as 10000")

    def held_before(self) -> tuple[int, ...]:
        """Return the keys that the sequences hold before, in ascending order."""
        shortest = max(self.shortest, self.new_tokens)
        return tuple(n - self.new_tokens for n in sequence_lengths(self.lengths, self.batch, shortest, self.context))


def cost(workload: KvAppend) -> Cost:
    """Count keys and values read and written once, and the cosines and sines of every position once.

    A pair takes four products and two sums.
    """
    w = workload
    starts = w.held_before()
    positions = {p for start in set(starts) for p in range(start, start + w.new_tokens)}
    pages = sum((s + w.new_tokens - 1) // w.page_size - s // w.page_size + 1 for s in starts)
    elements = float(w.batch * w.new_tokens) * w.kv_heads * w.head_dim
    moved = 2 * elements * BYTES[w.precision]
    return Cost(
        flops={"vector.fp32": 3 * elements},
        read_bytes={"dram": moved + 4.0 * (len(positions) * w.head_dim + pages + w.batch)},
        write_bytes={"dram": moved},
    )


def rotary_table(w: KvAppend) -> npt.NDArray[np.float32]:
    """Return ``[context, head_dim]``: cosines of ``p * base**(-2i / head_dim)``, then sines."""
    half = w.head_dim // 2
    angles = np.arange(w.context)[:, None] * w.base ** (-np.arange(half) / half)
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def make_inputs(workload: KvAppend, seed: int) -> Inputs:
    """Draw keys, values and what the pages hold; shuffle sequences and pages.

    ``k, v [batch, new_tokens, kv_heads, head_dim]``, ``k_pages``, ``v_pages``, ``page_table[batch, most pages]``
    (int32, -1 where a sequence has no page), ``starts[batch]`` (int32) and ``rotary``.
    """
    w, rng = workload, np.random.default_rng(seed)
    starts = rng.permutation(np.asarray(w.held_before(), np.int32))
    counts = -(-(starts + w.new_tokens) // w.page_size)
    order = rng.permutation(int(counts.sum())).astype(np.int32)
    page_table = np.full((w.batch, int(counts.max())), -1, np.int32)
    page_table[np.arange(page_table.shape[1]) < counts[:, None]] = order

    def draw(*shape: int) -> npt.NDArray[Any]:
        return store(rng.standard_normal(shape, dtype=np.float32), w.precision)

    new, pool = (w.batch, w.new_tokens, w.kv_heads, w.head_dim), (order.size, w.kv_heads, w.page_size, w.head_dim)
    arrays: Arrays = {"k": draw(*new), "v": draw(*new), "k_pages": draw(*pool), "v_pages": draw(*pool)}
    arrays |= {"page_table": page_table, "starts": starts, "rotary": rotary_table(w)}
    return Inputs(w, seed, arrays)


def slots(inputs: Inputs) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return page and place of every new token, both ``[batch, new_tokens]``."""
    w, arrays = inputs.workload, inputs.arrays
    assert isinstance(w, KvAppend)
    position = arrays["starts"][:, None].astype(np.int64) + np.arange(w.new_tokens)
    page = np.take_along_axis(arrays["page_table"], position // w.page_size, axis=1)
    return page.astype(np.int64), position % w.page_size


def read_back(k_pages: npt.NDArray[Any], v_pages: npt.NDArray[Any], inputs: Inputs) -> Arrays:
    """Return the new tokens' keys and values from stored pages, and the sums of the bits of all other slots.

    ``others[2]`` (uint64): of the keys' pages and of the values' pages.
    """
    page, place = slots(inputs)
    out: Arrays = {}
    others = []
    for name, pages in (("k", k_pages), ("v", v_pages)):
        own = np.ascontiguousarray(pages[page, :, place])
        out[name] = widen(own)
        bits = np.dtype(f"u{pages.itemsize}")
        others.append(pages.view(bits).sum(dtype=np.uint64) - own.view(bits).sum(dtype=np.uint64))
    return {**out, "others": np.array(others, np.uint64)}


def reference(inputs: Inputs) -> Arrays:
    """Return the rotated keys in float64, the values, and the sums of the other slots."""
    w, arrays = inputs.workload, inputs.arrays
    assert isinstance(w, KvAppend)
    position = arrays["starts"][:, None] + np.arange(w.new_tokens)
    cos, sin = np.split(arrays["rotary"].astype(np.float64)[position][:, :, None], 2, axis=3)
    a, b = np.split(widen(arrays["k"]).astype(np.float64), 2, axis=3)
    untouched = read_back(arrays["k_pages"], arrays["v_pages"], inputs)
    k = np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=3)
    return {"k": k, "v": widen(arrays["v"]), "others": untouched["others"]}


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Require the values and all other slots as they were; allow the keys an fp32 sum of two and their storage."""
    w = inputs.workload
    assert isinstance(w, KvAppend)
    for name, what in (("v", "the values differ"), ("others", "slots were written that hold other tokens")):
        if name not in output or not np.array_equal(output[name], expected[name], equal_nan=name == "v"):
            return Check(False, np.inf, f"{name}: {what}")
    return compare_floats(output, {"k": expected["k"]}, tolerance("fp32", 2, output=w.precision))


OPERATOR = Operator(
    name="attention.kv_append",
    summary="new keys, rotated, and values to the pages of the cache",
    phases=("rollout",),
    workload_type=KvAppend,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
