"""Split ragged experts into work of known size."""

from __future__ import annotations

from typing import Any

from numba import njit

from ... import simd
from ...matmul.few_rows import FEW
from ...matmul.panels import CHUNK

_LANES = simd.LANES
# Reading and copying the weights costs about as much as so many rows.
_WEIGHT_ROWS = 16


def most_tasks(slots: int, experts: int) -> int:
    """Return how many tasks `plan` can make: a first piece per expert, and pieces of at least one vector of rows."""
    return experts + slots // _LANES + 1


@njit
def plan(counts: Any, threads: int, tasks: Any, few: Any) -> Any:
    """List the work: pieces of experts with many rows, and experts with few.

    Parameters
    ----------
    counts
        Rows per expert.
    tasks
        Filled with expert, first row, rows, and the sum of the weights of the pieces before.
    few
        Filled with expert, first row, rows, and the sum of the rows before.

    Returns
    -------
    tuple
        How many entries of either list were made, and the weight of all pieces.
    """
    many = 0
    for count in counts:
        if count > FEW:
            many += count
    # With few rows in all, smaller pieces keep every thread busy.
    share = (many + threads - 1) // threads
    piece = min(CHUNK, max(_LANES, (share + _LANES - 1) // _LANES * _LANES))
    first, number, few_number, few_rows, weight = 0, 0, 0, 0, 0
    for e in range(counts.size):
        count = counts[e]
        if count > FEW:
            pieces = (count + piece - 1) // piece
            size = (count + pieces * _LANES - 1) // (pieces * _LANES) * _LANES
            done = 0
            while done < count:
                rows = min(size, count - done)
                tasks[number, 0], tasks[number, 1], tasks[number, 2] = e, first + done, rows
                tasks[number, 3] = weight
                weight += (rows + _LANES - 1) // _LANES * _LANES + _WEIGHT_ROWS
                number += 1
                done += rows
        elif count > 0:
            few[few_number, 0], few[few_number, 1], few[few_number, 2] = e, first, count
            few[few_number, 3] = few_rows
            few_rows += count
            few_number += 1
        first += count
    return number, few_number, weight
