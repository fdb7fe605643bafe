"""How far predicted times are from published ones, on rows that did and did not set the parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .around import sync_phase
from .cost import make_context, run_step
from .generate import prefill_seconds, rollout_phase
from .ground_truth import NotEnoughError, Published, read_rows, split
from .ground_truth_phases import inference_rows, published_decode, published_sync, published_training, step_spread
from .ground_truth_steps import published_step
from .learn import train_phase
from .phase import Context, DoesNotFitError
from .system import System
from .work import Array

PHASES = ("step", "train", "weight_sync", "decode")


@dataclass(frozen=True)
class Compared:
    """One published time beside its prediction, seconds."""

    published: Published
    low_s: float
    mid_s: float
    high_s: float

    @property
    def ratio(self) -> float:
        """Predicted over published."""
        return self.mid_s / self.published.published_s

    @property
    def covered(self) -> bool:
        """Whether the published time lies in the band."""
        return self.low_s <= self.published.published_s <= self.high_s

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        p = self.published
        return {
            "set": p.set,
            "phase": p.phase,
            "source": p.source,
            "place": p.place,
            "system": p.system,
            "model": p.scenario.model.name,
            "gpus": p.scenario.cluster.gpus,
            "schedule": p.scenario.schedule,
            "precision": p.scenario.precision.rollout,
            "weight_sync": p.scenario.weight_sync,
            "published_s": p.published_s,
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
        """Return scores per set, phase, source and system, and all rows, as plain JSON values.

        ``held_out`` and ``calibration`` are the scores of whole steps; ``held_out_phases`` those of single phases.
        ``step_spread`` is how far single steps of one run are from its mean.
        """
        groups = sorted({_group(r) for r in self.rows}, key=lambda g: (PHASES.index(g[0]), *g[1:]))
        return {
            "held_out": score(self._of("held_out", "step")),
            "calibration": score(self._of("calibration", "step")),
            "held_out_phases": {phase: score(self._of("held_out", phase)) for phase in PHASES[1:]},
            "by_source": [
                dict(zip(("phase", "set", "source", "system", "method"), g, strict=True))
                | score([r for r in self.rows if _group(r) == g])
                for g in groups
            ],
            "rows": [r.as_dict() for r in self.rows],
            "skipped": self.skipped,
            "step_spread": step_spread(),
        }

    def _of(self, chosen: str, phase: str) -> list[Compared]:
        return [r for r in self.rows if r.published.set == chosen and r.published.phase == phase]


def _group(row: Compared) -> tuple[str, str, str, str, str]:
    p = row.published
    return p.phase, p.set, p.source, p.system, p.scenario.weight_sync if p.phase == "weight_sync" else ""


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
    """Compare predicted with published times.

    Parameters
    ----------
    path
        A file with the columns of ``rl_ground_truth.csv``, whose rows all count as held out unless split.yaml lists
        them; default: the packaged files.

    Raises
    ------
    ScenarioError
        If the file cannot be read or lacks columns.
    """
    compared: list[Compared] = []
    skipped: Counter[str] = Counter()
    systems: dict[str, System] = {}
    for make in _published(path):
        try:
            published = make()
            system = systems.setdefault(published.system, System.load(published.system))
            compared.append(_compare(published, system))
        except NotEnoughError as error:
            skipped[str(error)] += 1
        except DoesNotFitError as error:
            skipped[f"does not fit: {error}"] += 1
    return Validation(compared, dict(skipped.most_common()))


def _published(path: str | Path | None) -> Iterator[Callable[[], Published]]:
    """Yield, per row and phase, what makes it a scenario."""
    given = path is not None
    for row in read_rows(path):
        kind = row["record_type"]
        if kind == "e2e_step":
            yield lambda row=row: published_step(row, any_set=given)
        elif kind == "train_only":
            yield lambda row=row: published_training(row, any_set=given)
        elif kind != "weight_sync":
            yield lambda kind=kind: _no_time(kind)
        if kind in ("weight_sync", "e2e_step") and row.get("weight_sync_s"):
            yield lambda row=row: published_sync(row, any_set=given)
    if not given:
        for row in inference_rows():
            yield lambda row=row: published_decode(row)


def _no_time(kind: str) -> Published:
    raise NotEnoughError(f"{kind or 'record_type is empty'}: states no time")


def _compare(published: Published, system: System) -> Compared:
    context = make_context(published.scenario, system)
    seconds = np.broadcast_to(_PREDICT[published.phase](context), (context.inputs.variants, 1))
    band = context.inputs.band(seconds)
    return Compared(published, band.low, band.mid, band.high)


def _step(context: Context) -> Array:
    return run_step(context)[1].seconds


def _train(context: Context) -> Array:
    """A microbatch ends before the optimizer."""
    phase = train_phase(context)
    phase.terms = [term for term in phase.terms if term.name != "optimizer"]
    return phase.scaled(context.inputs("model.residual")).seconds


def _sync(context: Context) -> Array:
    return sync_phase(context).seconds


def _decode(context: Context) -> Array:
    """Seconds per token: an iteration, and the share of other requests' prompts that are read between its tokens."""
    s = context.scenario
    whole = rollout_phase(context).scaled(context.inputs("model.residual")).seconds
    prefill = prefill_seconds(context)
    share = float(prefill[0, 0] / (whole[0, 0] - prefill[0, 0]))
    if share > split()["assumptions"]["prefill_share_at_most"]:
        raise NotEnoughError("reads prompts for most of the time, not known when")
    return whole / s.lengths.response.mean


_PREDICT: dict[str, Callable[[Context], Array]] = {
    "step": _step,
    "train": _train,
    "weight_sync": _sync,
    "decode": _decode,
}
