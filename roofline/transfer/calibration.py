"""Teach a transfer: exponents and bands for targets of one family, from pairs of GPUs outside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..silicon import silicon_gpu
from ..silicon.package import tables_folder
from .anchors import choose, features, part_of, recalibrate
from .conformal import COVERED, Bands, bands, coverage, size_of, weighted_quantile
from .fit import fit, trial_errors
from .lessons import Lesson, lessons
from .model import Parameters, carry, positions
from .pairs import teaching_pairs

if TYPE_CHECKING:
    import pandas as pd

# Numbers of anchors that a band is taught for.
ANCHOR_COUNTS = (4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Calibration:
    """What a transfer onto one family of targets uses.

    Parameters
    ----------
    family
        The family that took no part; "" where none was left out.
    parameters, bands
        As fitted.
    pairs
        The pairs of GPUs that taught, by basis.
    left_out
        Share of rows inside the band, by basis, where each development GPU's family was left out of the teaching in
        turn and then predicted: the mean over classes.
    anchored
        Ends of the band with anchors, in posterior deviations, by their number.
    """

    family: str
    parameters: Parameters
    bands: Bands
    pairs: Mapping[str, Sequence[str]]
    left_out: Mapping[str, float]
    anchored: Mapping[int, tuple[float, float]] = field(default_factory=dict)

    def anchored_ends(self, count: int) -> tuple[float, float]:
        """Return the ends of the band with ``count`` anchors, in posterior deviations.

        Raises
        ------
        ValueError
            If nothing was taught with anchors.
        """
        if not self.anchored:
            raise ValueError("this calibration was taught without anchors")
        return self.anchored[min(self.anchored, key=lambda taught: abs(np.log(taught / count)))]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "family": self.family,
            "power": self.parameters.power,
            "mix": self.parameters.mix,
            "exponent": dict(self.parameters.exponent),
            "anchored": {count: list(ends) for count, ends in self.anchored.items()},
            "left_out": dict(self.left_out),
            "pairs": {basis: list(pairs) for basis, pairs in self.pairs.items()},
            "bands": {
                basis: {name: {size: list(ends) for size, ends in sizes.items()} for name, sizes in classes.items()}
                for basis, classes in self.bands.ends.items()
            },
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Calibration:
        """Return a calibration from what `as_dict` gave."""
        parameters = Parameters(dict(values["exponent"]), float(values["power"]), float(values["mix"]))
        ends = {
            basis: {name: {size: (e[0], e[1]) for size, e in sizes.items()} for name, sizes in classes.items()}
            for basis, classes in values["bands"].items()
        }
        anchored = {int(count): (ends[0], ends[1]) for count, ends in values["anchored"].items()}
        return cls(values["family"], parameters, Bands(ends), values["pairs"], values["left_out"], anchored)


def taught_basis(basis: str) -> str:
    """Return the basis whose errors teach another: two generations are judged by one, and widened (`widened_steps`)."""
    return "next_generation" if basis == "two_generations" else basis


def calibrate(family: str | None, *, held_out: bool = False) -> Calibration:
    """Teach a transfer onto targets of a family from the measured tables.

    Parameters
    ----------
    family
        The target's; no GPU of it takes part. None leaves none out.
    held_out
        Let the pairs onto data-centre Blackwell teach too: for targets that come after it.
    """
    return _calibrate(str(tables_folder()), family, held_out)


@lru_cache(maxsize=8)
def _calibrate(tables: str, family: str | None, held_out: bool) -> Calibration:
    taught = lessons(teaching_pairs(family, held_out=held_out))
    trials = trial_errors(taught)
    everything = [(lesson.source, lesson.target) for lesson in taught]
    parameters = fit(trials, everything)
    made = bands(errors(taught, parameters))
    held = _left_out(taught, trials)
    by_basis: dict[str, list[str]] = {}
    for lesson in taught:
        by_basis.setdefault(taught_basis(lesson.basis), []).append(f"{lesson.source} to {lesson.target}")
    anchored = {count: anchored_band(taught, parameters, count) for count in ANCHOR_COUNTS}
    return Calibration(family or "", parameters, made, by_basis, held, anchored)


def _left_out(taught: Sequence[Lesson], trials: pd.DataFrame) -> dict[str, float]:
    """Return by basis the coverage where each family was left out, mean over classes."""
    import pandas as pd

    held: list[pd.DataFrame] = []
    for family in sorted({silicon_gpu(lesson.target).family for lesson in taught}):
        rest = [lesson for lesson in taught if family not in lesson.families]
        tested = [lesson for lesson in taught if family in lesson.families
                  and silicon_gpu(lesson.target).family == family]  # fmt: skip
        if not rest or not tested:
            continue
        blind = fit(trials, [(lesson.source, lesson.target) for lesson in rest])
        without = bands(errors(rest, blind))
        left = errors(tested, blind)
        for basis, rows in left.groupby("basis"):
            if basis in without.ends:
                held.append(coverage(without, str(basis), rows).assign(basis=basis))
    if not held:
        return {}
    by_class = pd.concat(held).groupby(["basis", "operator_class"])["held"].mean()
    return {str(basis): float(share) for basis, share in by_class.groupby("basis").mean().items()}


def anchored_band(taught: Sequence[Lesson], parameters: Parameters, count: int) -> tuple[float, float]:
    """Return the 10th and 90th percentile of log errors with anchors, in posterior deviations."""
    errors, weights = [np.zeros(1)], [np.zeros(1)]
    for lesson in taught:
        if lesson.basis == "same_architecture":
            continue
        rows, measured = lesson.rows, lesson.rows["target_s"].to_numpy()
        carried = carry(rows, rows["overhead_s"].to_numpy(), *lesson.speeds, parameters)
        # A third of the groups is enough for two percentiles.
        for at in positions(rows)[::3]:
            if len(at) < 2 * count:
                continue
            part = part_of(carried, at)
            places = features(part)
            chosen = choose(places, count)
            found = recalibrate(part, places, chosen, measured[at[chosen]])
            left = np.setdiff1d(np.arange(len(at)), chosen)
            errors.append(np.log(measured[at[left]] / found.time_s[left]) / found.deviation[left])
            weights.append(np.full(len(left), 1 / len(left)))
    together = np.concatenate(errors), np.concatenate(weights)
    tail = (1 - COVERED) / 2
    return min(weighted_quantile(*together, tail), 0.0), max(weighted_quantile(*together, 1 - tail), 0.0)


def errors(taught: Sequence[Lesson], parameters: Parameters) -> pd.DataFrame:
    """Return the errors on lessons, one line per row; their weights make every group of every pair count once."""
    import pandas as pd

    parts = []
    for lesson in taught:
        rows = lesson.rows
        found = carry(rows, rows["overhead_s"].to_numpy(), *lesson.speeds, parameters)
        group = rows["group"].astype(str)
        parts.append(
            pd.DataFrame(
                {
                    "basis": taught_basis(lesson.basis),
                    "pair": f"{lesson.source}>{lesson.target}",
                    "operator_class": rows["operator_class"].astype(str),
                    "group": f"{lesson.source}>{lesson.target} " + group,
                    "size": size_of(found.overhead_s, found.time_s),
                    "weight": 1.0 / group.groupby(group).transform("size").to_numpy(),
                    "error": np.log(rows["target_s"].to_numpy() / found.time_s),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)
