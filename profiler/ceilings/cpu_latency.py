"""Memory latency by pointer chase: every load needs the address that the one before it brought."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from .candidates import Candidate

_LINE_WORDS = 8
_STEPS = 50_000


def cycle(lines: int, seed: int = 0) -> npt.NDArray[np.int64]:
    """Return an array of ``8 * lines`` words in which every line's first word holds the index of the next line's.

    The lines form one cycle in random order, so that no prefetcher can guess the next and no line comes again before
    all the others have been visited.
    """
    order = np.random.default_rng(seed).permutation(lines).astype(np.int64) * _LINE_WORDS
    words = np.zeros(lines * _LINE_WORDS, dtype=np.int64)
    words[order] = np.roll(order, -1)
    return words


@cache
def _chase() -> Callable[..., int]:
    @njit
    def chase(words: Any, start: int, steps: int) -> int:
        place = start
        for _ in range(steps):
            place = words[place]
        return place

    return chase


def latency_candidates(set_bytes: int) -> list[Candidate]:
    """Return the chase over a working set of one thread; a step is one dependent load."""
    words = cycle(max(2, set_bytes // (8 * _LINE_WORDS)))
    chase = _chase()
    place = [0]

    def run() -> None:
        # Going on where the last call ended, or a short call would visit the same lines again.
        place[0] = chase(words, place[0], _STEPS)

    label = "pointer chase, one line of 64 bytes per step, one random cycle; the huge pages that the system grants"
    return [Candidate(label, run, float(_STEPS), words.nbytes)]
