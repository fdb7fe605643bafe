"""How different the same code looks from itself: the noise floor below which nothing is called faster."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from .schema import Measurement
from .statistics import median

# No two medians are trusted to differ by less, whatever an A/A run shows.
LEAST_FLOOR = 0.01
# Where buffers come to lie in memory and in caches differs between processes and stays for the life of one, so the
# rounds of one run cannot show it; such differences of the same code are seen up to this much.
FLOOR_WITHOUT_AA = 0.05
_ROUNDS_WITHOUT_RECORD = 10
_FEWEST_ROUNDS = 4
# A dozen rounds cannot tell a stronger correlation, nor fewer independent rounds and degrees of freedom, from these.
_MOST_CORRELATION, _LEAST_INDEPENDENT, _LEAST_FREEDOM = 0.9, 4 / 3, 3.0


@dataclass(frozen=True)
class NoiseFloor:
    """Relative differences that mean nothing, by case, and what they come from."""

    by_key: dict[str, float]
    basis: str
    overall: float

    def of(self, key: str) -> float:
        """Return a case's floor: its own, and not less than that of all cases."""
        return max(self.by_key.get(key, self.overall), self.overall)


def round_medians(row: Measurement) -> list[float]:
    """Return the median of every round of a row, in seconds per call."""
    sizes = row.method.get("round_sizes")
    if not isinstance(sizes, list) or sum(sizes) != len(row.samples_s):
        step = max(1, math.ceil(len(row.samples_s) / _ROUNDS_WITHOUT_RECORD))
        sizes = [len(row.samples_s[i : i + step]) for i in range(0, len(row.samples_s), step)]
    medians, start = [], 0
    for size in sizes:
        if size:
            medians.append(median(row.samples_s[start : start + size]))
        start += size
    return medians


def noise_floor(
    a: Iterable[Measurement],
    b: Iterable[Measurement],
    aa: tuple[Iterable[Measurement], Iterable[Measurement]] | None = None,
) -> NoiseFloor:
    """Return the noise floor of a comparison of ``a`` with ``b``.

    Parameters
    ----------
    aa
        Rows of two runs of the same code. Their differences bound the next one: the 95 % prediction interval of
        a difference whose spread is that of all cases together. Without such runs 5 % is taken.

    The rounds of ``a`` and ``b`` count in either case: each run is split into the even and the odd rounds, and into
    the earlier and the later half; and what both runs' drift lets their medians differ by is estimated (see `drift`).
    """
    found: dict[str, float] = {}
    variances: dict[str, float] = {}
    for row in (*a, *b):
        if row.status == "ok" and row.samples_s:
            rounds = round_medians(row)
            found[row.key] = max(found.get(row.key, 0.0), _split_difference(rounds))
            variances[row.key] = variances.get(row.key, 0.0) + drift(rounds) ** 2
    for key, variance in variances.items():
        found[key] = max(found[key], math.expm1(math.sqrt(variance)))
    differences = _aa_differences(aa) if aa is not None else {}
    if not differences:
        return NoiseFloor(
            found, f"no A/A run: {FLOOR_WITHOUT_AA:.0%}, or the drift between rounds of both runs", FLOOR_WITHOUT_AA
        )
    for key, difference in differences.items():
        found[key] = max(found.get(key, 0.0), difference)
    overall = max(LEAST_FLOOR, _next_difference(list(differences.values())))
    return NoiseFloor(found, f"A/A run of {len(differences)} cases", overall)


def drift(rounds: list[float]) -> float:
    """Return half the width of the 95 % interval of a run's mean over rounds, in the logarithm of time.

    Neighbouring rounds share what disturbs the machine, so n rounds tell no more than n (1 - r) / (1 + r) independent
    ones, where r is the correlation of a round with the next (a first-order autoregression). The estimate of r is too
    low by (1 + 4 r) / n (Kendall, Biometrika 41, 1954, p. 403), which is added. The variance within the run misses
    what the whole run drifted; it is divided by 1 - 1 / (independent rounds). The two runs of a comparison add in
    squares. Fewer than four rounds show nothing: 0.
    """
    from scipy.special import stdtrit

    n = len(rounds)
    if n < _FEWEST_ROUNDS:
        return 0.0
    logs = [math.log(value) for value in rounds]
    centre = sum(logs) / n
    off = [value - centre for value in logs]
    squares = sum(value * value for value in off)
    if squares == 0:
        return 0.0
    seen = sum(x * y for x, y in pairwise(off)) / squares
    r = min(max(seen + (1 + 4 * seen) / n, 0.0), _MOST_CORRELATION)
    independent = max(n * (1 - r) / (1 + r), _LEAST_INDEPENDENT)
    error = math.sqrt(squares / (n - 1) / (1 - 1 / independent) / independent)
    return float(stdtrit(max(independent - 1, _LEAST_FREEDOM), 0.975)) * error


def _aa_differences(aa: tuple[Iterable[Measurement], Iterable[Measurement]]) -> dict[str, float]:
    first, second = ({row.key: row for row in rows if row.status == "ok" and row.samples_s} for rows in aa)
    return {
        key: _difference(median(round_medians(first[key])), median(round_medians(second[key])))
        for key in first.keys() & second.keys()
    }


def _next_difference(differences: list[float]) -> float:
    """Return what the next difference stays below with 95 %: Student's t with one degree of freedom per case."""
    from scipy.special import stdtrit

    n = len(differences)
    spread = math.sqrt(sum(math.log1p(d) ** 2 for d in differences) / n)
    return math.expm1(float(stdtrit(n, 0.975)) * spread)


def _split_difference(rounds: list[float]) -> float:
    if len(rounds) < 2:
        return 0.0
    middle = len(rounds) // 2
    halves = (rounds[::2], rounds[1::2]), (rounds[:middle], rounds[middle:])
    return max(_difference(median(x), median(y)) for x, y in halves)


def _difference(x: float, y: float) -> float:
    return max(x, y) / min(x, y) - 1
