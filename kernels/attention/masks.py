"""Which keys a query sees: causal or all, in a sliding window, after a cached prefix, for one sequence or a batch.

A sequence has ``queries`` query tokens and ``keys`` keys, and their ends coincide: query ``i`` stands at position
``p = keys - queries + i``. With ``keys == queries`` that is a prompt, with more keys a chunk after a cached prefix, and
with one query a step of decoding. With fewer keys the first queries stand before every key. The visible keys are one
range, ``low <= key < high``:

    full:    0 <= key < keys
    causal:  0 <= key < p + 1, with a window only the last ``window`` of them: from ``p + 1 - window``

A row may see nothing, where ``p < 0``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..contract import require

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Mask:
    """A rule for all sequences of a workload.

    Parameters
    ----------
    causal
        Whether a query sees no key after its own position.
    window
        How many keys a query sees at most, its own included; 0 for no bound. Causal masks only.
    """

    causal: bool = True
    window: int = 0

    def __post_init__(self) -> None:
        require(self.window >= 0, "window", self.window, "give a number of keys, or 0 for all")
        require(self.causal or not self.window, "window", self.window, "a window needs causal=True; give 0")

    def ranges(self, queries: int, keys: int) -> tuple[Integers, Integers]:
        """Return the first visible key of every query and the first after the last one; equal where it sees none."""
        if not self.causal:
            return np.zeros(queries, np.int64), np.full(queries, keys, np.int64)
        high = np.maximum(np.arange(keys - queries, keys, dtype=np.int64) + 1, 0)
        low = np.maximum(high - self.window, 0) if self.window else np.zeros_like(high)
        return low, high

    def dense(self, queries: int, keys: int) -> npt.NDArray[np.bool_]:
        """Return the visible pairs, ``[queries, keys]``: for references and tests."""
        low, high = (bound[:, None] for bound in self.ranges(queries, keys))
        key = np.arange(keys)
        return (low <= key) & (key < high)

    def pairs(self, queries: int, keys: int) -> int:
        """Return the number of visible query-key pairs, exactly."""
        return _count(self, queries, keys)[0]

    def keys_seen(self, queries: int, keys: int) -> int:
        """Return the number of keys that at least one query sees."""
        return _count(self, queries, keys)[1]

    def hides_nothing(self, queries: int, keys: int) -> bool:
        """Return whether every query sees every key."""
        return self.pairs(queries, keys) == queries * keys

    def block_range(self, first: int, stop: int, queries: int, keys: int) -> tuple[int, int]:
        """Return the range of keys that some query from ``first`` up to ``stop`` sees; empty ranges are equal."""
        low, high = self.ranges(queries, keys)
        # Both bounds rise with the query, so that no visible key lies outside.
        return min(int(low[first]), int(high[stop - 1])), int(high[stop - 1])

    def totals(self, sequences: Iterable[tuple[int, int]]) -> tuple[int, int]:
        """Return the visible pairs and the keys seen, summed over ``(queries, keys)`` of a batch."""
        counts = [_count(self, queries, keys) for queries, keys in sequences]
        return sum(pairs for pairs, _ in counts), sum(seen for _, seen in counts)


@cache
def _count(mask: Mask, queries: int, keys: int) -> tuple[int, int]:
    if queries == 0 or keys == 0:
        return 0, 0
    low, high = mask.ranges(queries, keys)
    # Ranges of consecutive queries touch or overlap, so that together they are one range.
    first = int(low[high > low][0]) if (high > low).any() else 0
    return int(np.sum(high - low)), int(high[-1]) - first


def attention_flops(pairs: float, heads: int, key_dim: int, value_dim: int) -> float:
    """Return the FLOP of both matrix products: ``2 key_dim`` for a score and ``2 value_dim`` for its weighted value."""
    return 2.0 * pairs * heads * (key_dim + value_dim)


def offsets(lengths: Iterable[int]) -> npt.NDArray[Any]:
    """Return where sequences of a ragged batch begin when their tokens stand one after another, with the end last.

    As int32, the form that variable-length attention takes (``cu_seqlens``).
    """
    return np.concatenate([[0], np.cumsum(list(lengths))]).astype(np.int32)
