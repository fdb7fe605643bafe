"""Which working set reaches which memory level, and whether the level can be seen at all.

A level is measured in a set that lies well inside it and well outside the level before, and it is named only if its
knee is seen: the next level outwards must be slower by `KNEE`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..machine import Machine

# Below this step a knee is not told from noise.
KNEE = 1.15
# Share of a cache that a set may fill: other data, and replacement that is not perfect, take the rest.
_FILL = 0.5
# A set must exceed the level before by this factor to find next to nothing there.
_CLEAR = 1.5
# STREAM's rule asks for arrays of four times the last-level cache.
_DRAM_FACTOR = 4
_DRAM_LEAST = 128 << 20
_MEMORY_SHARE = 0.25


@dataclass(frozen=True)
class Level:
    """A memory level as a number of threads see it together.

    ``set_bytes`` is the working set to measure it in, over all threads; ``capacity_bytes`` is None for main memory.
    ``inside`` and ``outside`` are the rates of the sweep in it and one level further out, None before a sweep.
    """

    name: str
    set_bytes: int
    capacity_bytes: int | None = None
    inside: float | None = None
    outside: float | None = None


def levels(machine: Machine, threads: int) -> list[Level]:
    """Return the levels that can be told apart by size, innermost first, main memory last.

    The last cache is called ``llc``, the ones before ``l1``, ``l2``. A cache that is not clearly larger than the one
    before it (over all threads) is left out: no working set would see it alone.
    """
    found: list[Level] = []
    before = 0
    for cache in machine.caches:
        instances = -(-threads // max(1, cache.shared_by))
        # Threads of one cache share it; those that sit on other cores bring a cache of their own.
        capacity = cache.size_bytes * instances
        least, most = int(before * _CLEAR), int(capacity * _FILL)
        if most > least:
            is_last = cache is machine.caches[-1]
            found.append(Level("llc" if is_last else f"l{cache.level}", most, capacity))
        before = capacity
    return [*found, Level("dram", dram_set_bytes(machine))]


def dram_set_bytes(machine: Machine) -> int:
    """Return the size of one array that the caches cannot hold: four times all last-level caches, at least 128 MiB.

    At most a quarter of the memory is taken for all three arrays of a triad; on a machine with little memory the set
    may be smaller than asked, and the rows say how large it was.
    """
    caches = (machine.last_level_bytes() or 0) * _DRAM_FACTOR
    most = int(machine.usable_memory_bytes * _MEMORY_SHARE / 3)
    return min(max(_DRAM_LEAST, caches), most)


def sweep_sizes(machine: Machine, threads: int) -> list[int]:
    """Return the working sets of a sweep: from 8 KiB per thread to the set of main memory, two per doubling."""
    size, most, found = float(8192 * threads), dram_set_bytes(machine), []
    while size < most:
        found.append(int(size))
        size *= 2**0.5
    return [*found, most]


def seen_levels(known: Sequence[Level], sweep: Sequence[tuple[int, float]]) -> list[Level]:
    """Return the levels whose knee a sweep shows, each with the set that was fastest inside it.

    Parameters
    ----------
    known
        The levels by size (see `levels`), innermost first, main memory last.
    sweep
        Working set in bytes and rate, by size.
    """
    found: list[Level] = []
    # A sweep that ends before main memory says nothing of it; its last point then stands for what lies further out.
    outer_rate = _best(sweep, known[-1].set_bytes * 0.9, float("inf")) or sweep[-1][1]
    seen = [known[-1]]
    for index in range(len(known) - 2, -1, -1):
        level = known[index]
        capacity = level.capacity_bytes or 0
        before = (known[index - 1].capacity_bytes or 0) if index else 0
        inside = [(size, rate) for size, rate in sweep if before * _CLEAR <= size <= capacity * 0.75]
        if not inside:
            continue
        size, rate = max(inside, key=lambda point: point[1])
        if rate >= KNEE * outer_rate:
            seen.append(Level(level.name, size, capacity, rate, outer_rate))
            outer_rate = rate
    found.extend(reversed(seen))
    return found


def knee_text(name: str, seen: Sequence[Level]) -> str:
    """Return the step of the sweep that a level is named by, in words."""
    level = next((level for level in seen if level.name == name), None)
    if level is None or level.inside is None or level.outside is None:
        return "outside every cache of the sweep of working sets"
    return (
        f"knee in the sweep of working sets: {level.inside / 1e9:.3g} GB/s in {level.set_bytes} bytes, "
        f"{level.outside / 1e9:.3g} GB/s one level further out"
    )


def _best(sweep: Sequence[tuple[int, float]], least: float, most: float) -> float:
    return max((rate for size, rate in sweep if least <= size <= most), default=0.0)
