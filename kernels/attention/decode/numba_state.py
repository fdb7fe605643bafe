"""The state of a softmax over a part of a sequence's keys, and how work is laid out, in compiled code.

The state of a sequence is, per KV head and query row, the largest score so far in powers of two (``tops``), the sum of
weights relative to it (``sums``) and the sum of weights times values (``products [kv_heads, rows * head_dim]``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

_LOG2_E, _LN_2 = math.log2(math.e), math.log(2.0)
_MINUS_INF = np.float32(-np.inf)


@njit
def plan(lengths: Any, tokens: int, window: int, firsts: Any, ends: Any) -> None:
    """Write the first key that any query of a sequence sees, and where the sequence ends on the line of all keys."""
    end = 0
    for b in range(lengths.size):
        firsts[b] = max(0, lengths[b] - tokens + 1 - window) if window > 0 else 0
        end += lengths[b] - firsts[b]
        ends[b] = end


@njit
def first_after(ends: Any, position: int) -> int:
    """Return the first sequence that ends after a position on the line of all keys."""
    low, high = 0, ends.size
    while low < high:
        middle = (low + high) // 2
        if ends[middle] > position:
            high = middle
        else:
            low = middle + 1
    return low


@njit
def clear(tokens: int, length: int, window: int, bounds: Any, tops: Any, sums: Any, products: Any) -> None:
    """Start a sequence: which keys its rows see, and an empty state."""
    heads, rows = tops.shape
    for row in range(rows):
        high = length - tokens + row // (rows // tokens) + 1
        bounds[row, 0], bounds[row, 1] = max(0, high - window) if window > 0 else 0, high
    for head in range(heads):
        for row in range(rows):
            tops[head, row], sums[head, row] = _MINUS_INF, np.float32(0.0)
        for i in range(products.shape[1]):
            products[head, i] = np.float32(0.0)


@njit
def save(tops: Any, sums: Any, products: Any, to_tops: Any, to_sums: Any, to_products: Any) -> None:
    """Copy a state. An assignment of whole arrays would compile the error of unequal shapes along, for seconds."""
    for head in range(tops.shape[0]):
        for row in range(tops.shape[1]):
            to_tops[head, row], to_sums[head, row] = tops[head, row], sums[head, row]
        for i in range(products.shape[1]):
            to_products[head, i] = products[head, i]


@njit
def absorb(tops: Any, sums: Any, products: Any, other_tops: Any, other_sums: Any, other_products: Any) -> None:
    """Merge the state of another part of the same sequence into the first."""
    heads, rows = tops.shape
    dim = products.shape[1] // rows
    for head in range(heads):
        for row in range(rows):
            mine, theirs = tops[head, row], other_tops[head, row]
            top = mine if mine > theirs else theirs
            if top == _MINUS_INF:
                continue
            factor = np.float32(2.0 ** np.float64(mine - top))
            other_factor = np.float32(2.0 ** np.float64(theirs - top))
            tops[head, row] = top
            sums[head, row] = sums[head, row] * factor + other_sums[head, row] * other_factor
            for i in range(row * dim, (row + 1) * dim):
                products[head, i] = products[head, i] * factor + other_products[head, i] * other_factor


@njit
def finish(b: int, group: int, tops: Any, sums: Any, products: Any, sinks: Any, out: Any, lse: Any) -> None:
    """Write the outputs of a sequence from its state."""
    heads, rows = tops.shape
    dim = out.shape[3]
    for head in range(heads):
        for row in range(rows):
            token, q_head = row // group, head * group + row % group
            top, total, factor = np.float64(tops[head, row]), np.float64(sums[head, row]), 1.0
            if sinks.size > 0:
                sink = np.float64(sinks[q_head]) * _LOG2_E
                new = sink if sink > top else top
                factor = 2.0 ** (top - new)
                total = total * factor + 2.0 ** (sink - new)
                top = new
            lse[b, token, q_head] = _LN_2 * (top + math.log2(total))
            scale = np.float32(factor / total)
            for d in range(dim):
                out[b, token, q_head, d] = products[head, row * dim + d] * scale
