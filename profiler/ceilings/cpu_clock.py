"""The clock that the core really runs at: virtual machines hide it, and the system tells only a nominal one."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit

from ..clock import time_calls

_LINKS = 16
_ROUNDS = 40_000
_SAMPLES = 40


@cache
def _chain() -> Any:
    @njit
    def chain(rounds: int, a: Any, b: Any) -> Any:
        value = a
        for _ in range(rounds):
            # Sum and exclusive-or in turn cannot be merged, and each is one cycle on every CPU since the nineties.
            for _ in range(_LINKS):
                value = (value + a) ^ b
        return value

    return chain


def measure_clock_hz() -> float:
    """Return the clock of one core in Hz while it is busy: the best of many runs of a chain of dependent additions."""
    chain = _chain()
    a, b = np.uint64(1), np.uint64(7)

    def run() -> None:
        chain(_ROUNDS, a, b)

    run()
    seconds = min(time_calls((run,)) for _ in range(_SAMPLES))
    return 2 * _LINKS * _ROUNDS / seconds
