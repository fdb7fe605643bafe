"""Where each choice's row stands, from the choice of each row; one share of the rows per thread."""

from __future__ import annotations

from numba import get_num_threads, njit, prange


@njit(parallel=True, error_model="numpy")
def invert(source, row_of) -> None:
    """Write ``row_of[source[r]] = r``."""
    threads = get_num_threads()
    for t in prange(threads):
        for row in range(source.size * t // threads, source.size * (t + 1) // threads):
            row_of[source[row]] = row
