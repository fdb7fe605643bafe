"""Fit the calibrated parameters to the calibration set: ``python -m roofcast.roofline.loop.calibrate``.

The fit minimises the mean absolute log error plus a pull towards the values in ``parameters.yaml``, because twenty
rows of ten configurations do not determine six parameters by themselves. It takes some minutes and writes nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

import numpy as np

from .cost import make_context, run_step
from .ground_truth import NotEnoughError, Published, read_rows
from .ground_truth_steps import published_step
from .inputs import parameter_inputs
from .system import System
from .work import Array

# Parameter and the standard deviation of the logarithm that it may move by.
FITTED = {
    "rollout.iteration_overhead_s": 0.8,
    "rollout.sequence_overhead_s": 1.0,
    "train.dense_factor": 0.35,
    "train.moe_factor": 0.4,
    "step.overhead_s": 0.6,
    "sync.colocated_efficiency": 0.5,
}
_PULL = 0.02


def calibration_steps() -> list[Published]:
    """Return the published steps of the calibration set."""
    found = []
    for row in read_rows():
        if row["record_type"] != "e2e_step":
            continue
        try:
            step = published_step(row)
        except NotEnoughError:
            continue
        if step.set == "calibration":
            found.append(step)
    return found


def log_errors(steps: list[Published], parameters: Mapping[str, float], systems: dict[str, System]) -> Array:
    """Return log(predicted / published) of each step with some parameters fixed."""
    errors = []
    for step in steps:
        scenario = step.scenario.model_copy(update={"parameters": dict(parameters)})
        system = systems.setdefault(step.system, System.load(step.system))
        _, made = run_step(make_context(scenario, system, vary=False))
        errors.append(np.log(float(made.seconds.reshape(-1)[0]) / step.published_s))
    return np.array(errors)


def calibrate(evaluations: int = 260) -> dict[str, float]:
    """Return fitted values of `FITTED`."""
    from scipy.optimize import minimize

    steps, systems = calibration_steps(), {}
    start = {item.name: item.mid for item in parameter_inputs()}
    width = np.array(list(FITTED.values()))

    def values(theta: Array) -> dict[str, float]:
        return {name: float(start[name] * np.exp(move)) for name, move in zip(FITTED, theta, strict=True)}

    def loss(theta: Array) -> float:
        errors = log_errors(steps, values(theta), systems)
        return float(np.mean(np.abs(errors)) + _PULL * np.sum((theta / width) ** 2))

    bounds = [(-2.5, 1.5)] * len(FITTED)
    found = minimize(loss, np.zeros(len(FITTED)), method="Powell", bounds=bounds, options={"maxfev": evaluations})
    return values(found.x)


if __name__ == "__main__":
    json.dump(calibrate(), sys.stdout, indent=2)
    sys.stdout.write("\n")
