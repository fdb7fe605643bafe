"""How far predicted steps are from published ones, on rows that did and did not set the parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .cost import make_context, run_step
from .ground_truth import NotEnoughError, PublishedStep, published_step, read_rows
from .phase import DoesNotFitError
from .system import System


@dataclass(frozen=True)
class Compared:
    """One published step beside its prediction, seconds."""

    step: PublishedStep
    low_s: float
    mid_s: float
    high_s: float

    @property
    def ratio(self) -> float:
        """Predicted over published."""
        return self.mid_s / self.step.step_time_s

    @property
    def covered(self) -> bool:
        """Whether the published time lies in the band."""
        return self.low_s <= self.step.step_time_s <= self.high_s

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        s = self.step
        return {
            "set": s.set,
            "source": s.source,
            "place": s.place,
            "system": s.system,
            "model": s.scenario.model.name,
            "gpus": s.scenario.cluster.gpus,
            "schedule": s.scenario.schedule,
            "precision": s.scenario.precision.rollout,
            "published_s": s.step_time_s,
            "predicted_low_s": self.low_s,
            "predicted_mid_s": self.mid_s,
            "predicted_high_s": self.high_s,
            "ratio": self.ratio,
            "covered": self.covered,
        }


@dataclass(frozen=True)
class Validation:
    """All comparisons, and the rows that could not be predicted with the reason for each."""

    rows: list[Compared]
    skipped: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        """Return scores per set, source and system, and all rows, as plain JSON values."""
        held = [r for r in self.rows if r.step.set == "held_out"]
        groups = sorted({(r.step.set, r.step.source, r.step.system) for r in self.rows})
        return {
            "held_out": score(held),
            "calibration": score([r for r in self.rows if r.step.set == "calibration"]),
            "by_source": [
                {"set": g[0], "source": g[1], "system": g[2]}
                | score([r for r in self.rows if (r.step.set, r.step.source, r.step.system) == g])
                for g in groups
            ],
            "rows": [r.as_dict() for r in self.rows],
            "skipped": self.skipped,
        }


def score(rows: Sequence[Compared]) -> dict[str, Any]:
    """Return count, median absolute error, bias (median of predicted / published) and coverage of the band."""
    if not rows:
        return {"rows": 0, "median_abs_error": None, "bias": None, "coverage": None}
    ratio = np.array([r.ratio for r in rows])
    return {
        "rows": len(rows),
        "median_abs_error": float(np.median(np.abs(ratio - 1.0))),
        "bias": float(np.median(ratio)),
        "coverage": float(np.mean([r.covered for r in rows])),
        "band_width": float(np.median([r.high_s / r.low_s for r in rows])),
    }


def validate(path: str | Path | None = None) -> Validation:
    """Compare predicted with published steps.

    Parameters
    ----------
    path
        A file with the columns of ``rl_ground_truth.csv``, whose rows all count as held out unless split.yaml lists
        them; default: the packaged rows.

    Raises
    ------
    ScenarioError
        If the file cannot be read or lacks columns.
    """
    compared: list[Compared] = []
    skipped: Counter[str] = Counter()
    systems: dict[str, System] = {}
    for row in read_rows(path):
        try:
            step = published_step(row, any_set=path is not None)
            compared.append(_compare(step, systems.setdefault(step.system, System.load(step.system))))
        except NotEnoughError as error:
            skipped[str(error)] += 1
        except DoesNotFitError as error:
            skipped[f"does not fit: {error}"] += 1
    return Validation(compared, dict(skipped.most_common()))


def _compare(step: PublishedStep, system: System) -> Compared:
    context = make_context(step.scenario, system)
    _, made = run_step(context)
    seconds = np.broadcast_to(made.seconds, (context.inputs.variants, 1))
    band = context.inputs.band(seconds)
    return Compared(step, band.low, band.mid, band.high)
