"""Compare two runs case by case: is B faster than A, by how much, and is that more than noise?

The unit of evidence is the round, not the sample: samples of one round share what disturbed the machine in that
moment and are not independent. A difference counts only if it is significant over rounds, and if its whole interval
lies beyond the noise floor, which the same code compared with itself (A/A) sets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from .noise import NoiseFloor, noise_floor, round_medians
from .schema import Measurement

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Verdict = Literal["same", "faster", "slower", "failed", "missing", "new"]
SIGNIFICANCE = 0.05
_RESAMPLES = 4000


class CompareError(ValueError):
    """Runs that cannot be compared; the message says why."""


@dataclass(frozen=True)
class CaseComparison:
    """One case in both runs.

    Parameters
    ----------
    verdict
        ``same`` (no difference beyond noise), ``faster`` or ``slower`` (B than A), ``failed`` (in B), ``missing`` (in
        B) or ``new`` (absent or failed in A).
    ratio
        Time of B over time of A, of the medians over rounds; below 1 means that B is faster.
    ratio_low, ratio_high
        95 % interval of the ratio, by bootstrap over rounds.
    p_value
        Two-sided Mann-Whitney test of the rounds, adjusted for the number of cases (Holm).
    effect
        Cliff's delta of the rounds: -1 if every round of B is faster than every round of A, +1 if slower.
    noise_floor
        The relative difference that the same code shows against itself.
    """

    key: str
    verdict: Verdict
    message: str = ""
    a_s: float | None = None
    b_s: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    p_value: float | None = None
    effect: float | None = None
    noise_floor: float | None = None

    @property
    def difference(self) -> float:
        """Relative difference of B's time from A's; 0 without a result."""
        return 0.0 if self.ratio is None else self.ratio - 1


@dataclass(frozen=True)
class Comparison:
    """Two runs, case by case, with what made the noise floor and remarks on what limits the comparison."""

    cases: list[CaseComparison]
    noise_basis: str
    remarks: list[str]

    def offenders(self, fail_above: float) -> list[CaseComparison]:
        """Return the cases that fail a gate: missing, failed, or slower by more than ``fail_above`` (0.05 is 5 %)."""
        return [
            case
            for case in self.cases
            if case.verdict in ("missing", "failed") or (case.verdict == "slower" and case.difference > fail_above)
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def compare(
    a: Iterable[Measurement],
    b: Iterable[Measurement],
    *,
    aa: tuple[Iterable[Measurement], Iterable[Measurement]] | None = None,
) -> Comparison:
    """Compare the rows of two runs.

    Parameters
    ----------
    a, b
        The latest row of every case, such as ``load_run(path).measurement_rows``.
    aa
        Rows of two runs of the same code, which set the noise floor; see `noise.noise_floor`.

    Raises
    ------
    CompareError
        If the runs have no case in common.
    """
    rows_a, rows_b = {row.key: row for row in a}, {row.key: row for row in b}
    if not rows_a.keys() & rows_b.keys():
        raise CompareError("the runs have no case in common; compare runs of the same suite, device and cache state")
    floor = noise_floor(rows_a.values(), rows_b.values(), aa)
    lines = [_compare_case(key, rows_a.get(key), rows_b.get(key), floor) for key in dict.fromkeys([*rows_a, *rows_b])]
    return Comparison(_judged(lines), floor.basis, _remarks(rows_a, rows_b))


def _compare_case(key: str, a: Measurement | None, b: Measurement | None, floor: NoiseFloor) -> CaseComparison:
    if b is None:
        return CaseComparison(key, "missing", "B has no row of this case", a_s=a.median_s if a else None)
    if b.status != "ok" or not b.samples_s:
        also = "" if a is None or a.status == "ok" else f"; A failed too ({a.status})"
        return CaseComparison(key, "failed", f"B {b.status}: {b.message}{also}", a_s=a.median_s if a else None)
    if a is None or a.status != "ok" or not a.samples_s:
        why = "A has no row of this case" if a is None else f"A {a.status}: {a.message}"
        return CaseComparison(key, "new", why, b_s=b.median_s)
    return _compare_rounds(key, round_medians(a), round_medians(b), floor.of(key))


def _compare_rounds(key: str, a: Sequence[float], b: Sequence[float], floor: float) -> CaseComparison:
    import numpy as np
    from scipy.stats import mannwhitneyu

    x, y = np.asarray(a), np.asarray(b)
    test = mannwhitneyu(y, x, alternative="two-sided")
    low, high = _ratio_interval(x, y)
    a_s, b_s = float(np.median(x)), float(np.median(y))
    return CaseComparison(
        key,
        "same",
        a_s=a_s,
        b_s=b_s,
        ratio=b_s / a_s,
        ratio_low=low,
        ratio_high=high,
        p_value=float(test.pvalue),
        effect=2 * float(test.statistic) / (len(x) * len(y)) - 1,
        noise_floor=floor,
    )


def _ratio_interval(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the ratio of medians (Efron and Tibshirani, 1993, chapter 13)."""
    import numpy as np

    rng = np.random.default_rng(0)
    medians = [np.median(v[rng.integers(0, len(v), (_RESAMPLES, len(v)))], axis=1) for v in (x, y)]
    low, high = np.quantile(medians[1] / medians[0], [0.025, 0.975])
    return float(low), float(high)


def _judged(lines: list[CaseComparison]) -> list[CaseComparison]:
    """Adjust p-values for the number of tests (Holm, 1979) and give verdicts."""
    tested = sorted((line for line in lines if line.p_value is not None), key=lambda line: line.p_value or 0.0)
    verdicts: dict[str, CaseComparison] = {}
    largest = 0.0
    for rank, line in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - rank) * (line.p_value or 0.0)))
        verdicts[line.key] = CaseComparison(
            **{**asdict(line), "p_value": largest, "verdict": _verdict(line, largest), "message": ""}
        )
    return [verdicts.get(line.key, line) for line in lines]


def _verdict(line: CaseComparison, p_value: float) -> Verdict:
    low, high, floor = line.ratio_low or math.nan, line.ratio_high or math.nan, line.noise_floor or 0.0
    if p_value >= SIGNIFICANCE:
        return "same"
    if low > 1 + floor:
        return "slower"
    return "faster" if high < 1 / (1 + floor) else "same"


def _remarks(a: dict[str, Measurement], b: dict[str, Measurement]) -> list[str]:
    remarks = []
    for name, say in (("host", "hosts"), ("device_name", "devices")):
        values = [{getattr(row, name) for row in rows.values() if row.status == "ok"} for rows in (a, b)]
        if all(values) and values[0] != values[1]:
            texts = [" and ".join(sorted(v)) for v in values]
            remarks.append(f"the {say} differ: {texts[0]} in A, {texts[1]} in B")
    for name, rows in (("A", a), ("B", b)):
        throttled = sum(1 for row in rows.values() if row.state.throttled)
        if throttled:
            remarks.append(f"{throttled} cases of {name} have samples taken under throttling")
    return remarks
