"""From a step to a run: steps from the user or from a learning curve, and what a point of pass rate costs."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .scenario import Scenario
from .scenario_file import ScenarioError
from .sections import LearningCurve

_ENDS = ("low", "mid", "high")


def pass_rate(curve: LearningCurve, steps: float) -> float:
    """Return the pass rate after some steps."""
    if steps <= 0:
        return curve.start
    return curve.start + (curve.ceiling - curve.start) / (1.0 + (curve.midpoint_steps / steps) ** curve.exponent)


def steps_to(curve: LearningCurve, rate: float) -> float:
    """Return the steps to a pass rate.

    Raises
    ------
    ScenarioError
        If the curve never reaches it.
    """
    if rate <= curve.start:
        return 0.0
    if rate >= curve.ceiling:
        raise ScenarioError(
            f"goal.pass_rate = {rate:g}: the curve ends at its ceiling of {curve.ceiling:g}; choose a lower one"
        )
    share = (rate - curve.start) / (curve.ceiling - curve.start)
    return curve.midpoint_steps * (share / (1.0 - share)) ** (1.0 / curve.exponent)


def fit_curve(points: Sequence[tuple[float, float]]) -> LearningCurve:
    """Fit a learning curve to (steps, pass rate) by least squares; ``error`` is the root mean square residual.

    Raises
    ------
    ScenarioError
        If there are fewer than five points, or they do not rise.
    """
    from scipy.optimize import least_squares

    known = np.array(sorted(points), dtype=float)
    if len(known) < 5:
        raise ScenarioError(f"a learning curve needs five points or more, not {len(known)}")
    steps, rates = known[:, 0], known[:, 1]
    if rates[-1] <= rates[0] or not np.all((rates >= 0) & (rates <= 1)):
        raise ScenarioError("pass rates must lie between 0 and 1 and end above where they start")

    def curve(x: Any) -> LearningCurve:
        start, gain, midpoint, exponent = x
        ceiling = min(1.0, float(start + gain))
        return LearningCurve(
            start=float(start), ceiling=ceiling, midpoint_steps=float(np.exp(midpoint)), exponent=float(exponent)
        )

    def residual(x: Any) -> Any:
        made = curve(x)
        return [pass_rate(made, s) - r for s, r in zip(steps, rates, strict=True)]

    first = [max(rates[0], 0.0), max(rates[-1] - rates[0], 0.01), np.log(np.median(steps[steps > 0])), 1.0]
    bounds = ([0.0, 1e-4, np.log(1e-3), 0.2], [0.999, 1.0, np.log(1e7), 5.0])
    found = least_squares(residual, np.clip(first, *bounds), bounds=bounds)
    error = float(np.sqrt(np.mean(np.square(found.fun))))
    return curve(found.x).model_copy(update={"error": min(error, 1.0)})


def read_points(path: str | Path) -> list[tuple[float, float]]:
    """Return (steps, pass rate) of a CSV with these two columns: ``steps,pass_rate``.

    Raises
    ------
    ScenarioError
        If it cannot be read or a value is no number.
    """
    try:
        with Path(path).open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: cannot be read ({error})") from None
    points = []
    for line, row in enumerate(rows, start=2):
        try:
            points.append((float(row["steps"]), float(row["pass_rate"])))
        except (KeyError, TypeError, ValueError):
            raise ScenarioError(f"{path}:{line}: needs numbers in the columns steps and pass_rate") from None
    return points


def runs(scenario: Scenario, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a whole run per system: steps, hours, GPU-hours, energy and money, with bands.

    With a goal there are also the points of pass rate gained, and dollars per point. The band of the steps is where
    the curve reaches the goal less or plus its fit's error; it multiplies with that of the step's dollars.
    """
    steps = _steps(scenario)
    if steps is None:
        return []
    made = []
    for row in rows:
        if row["phase"] != "step":
            continue
        one = {"system": row["system"]}
        one |= {f"steps_{end}": steps[end] for end in _ENDS}
        for stem, unit, factor in (
            ("time", "_s", 1 / 3600.0),
            ("gpu_hours", "", 1.0),
            ("kwh", "", 1.0),
            ("usd", "", 1.0),
        ):
            name = "hours" if stem == "time" else stem
            one |= {f"{name}_{end}": row[f"{stem}_{end}{unit}"] * factor * steps[end] for end in _ENDS}
        one |= {f"usd_per_rollout_{end}": row[f"usd_{end}"] / scenario.algorithm.sequences for end in _ENDS}
        if scenario.goal:
            points = 100.0 * (scenario.goal.pass_rate - scenario.goal.curve.start)
            one |= {"pass_rate": scenario.goal.pass_rate, "points_gained": points}
            if points > 0:
                one |= {f"usd_per_point_{end}": one[f"usd_{end}"] / points for end in _ENDS}
        made.append(one)
    return made


def _steps(scenario: Scenario) -> dict[str, float] | None:
    if scenario.goal is None:
        steps = scenario.algorithm.steps
        return dict.fromkeys(_ENDS, float(steps)) if steps else None
    curve, rate = scenario.goal.curve, scenario.goal.pass_rate
    # Beyond the ceiling no number of steps would do; half of what is left keeps the end of the band finite.
    later = min(rate + curve.error, rate + 0.5 * (curve.ceiling - rate))
    return {"low": steps_to(curve, rate - curve.error), "mid": steps_to(curve, rate), "high": steps_to(curve, later)}
