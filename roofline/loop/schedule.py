"""How phases follow each other in a step, and whose GPUs each of them holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .phase import Phase
from .scenario import Scenario
from .work import Array, Value

PHASES = ("rollout", "reward", "logprob", "train", "weight_sync")


@dataclass(frozen=True)
class Step:
    """One step: its time, the GPU-seconds of each phase, and the rest.

    ``rest`` is the time in no phase, ``rest_gpu_seconds`` what GPUs spend there or waiting for the other side.
    ``staleness`` is by how many updates the sequences lag behind the policy that trains on them, at least.
    """

    seconds: Array
    gpu_seconds: dict[str, Array]
    rest: Array
    rest_gpu_seconds: Array
    staleness: float


def schedule(scenario: Scenario, phases: dict[str, Phase], overhead: Array) -> Step:
    """Return the step of a scenario's phases."""
    c = scenario.cluster
    return follow(
        scenario.schedule,
        {name: phases[name].seconds for name in PHASES},
        overhead,
        gpus=c.gpus,
        generating=c.generating,
        training=c.training,
    )


def follow(kind: str, t: dict[str, Array], overhead: Array, *, gpus: Value, generating: Value, training: Value) -> Step:
    """Return the step of a schedule; seconds and numbers of GPUs may be arrays that broadcast.

    ``sync``: phases one after the other. ``one_step_off``: generation (with verification) runs beside
    log-probabilities and training, then weights move. ``async``: the same, and generation does not stop for the
    weights, which move behind it; the slower side decides.
    """
    if kind == "sync":
        seconds = t["rollout"] + t["reward"] + t["logprob"] + t["train"] + t["weight_sync"] + overhead
    else:
        one_side, other_side = t["rollout"] + t["reward"], t["logprob"] + t["train"]
        if kind == "one_step_off":
            seconds = np.maximum(one_side, other_side) + t["weight_sync"] + overhead
        else:
            seconds = np.maximum(t["rollout"], other_side + t["weight_sync"] + overhead)
    held = {
        "rollout": generating,
        "reward": generating,
        "logprob": training,
        "train": training,
        "weight_sync": training if kind == "async" else gpus,
    }
    gpu_seconds = {name: t[name] * held[name] for name in PHASES}
    if kind == "async":
        gpu_seconds["reward"] = np.zeros((1, 1))
    used = sum(gpu_seconds.values(), start=np.zeros((1, 1)))
    rest_gpu = np.maximum(seconds * gpus - used, 0.0)
    staleness = {"sync": 0.0, "one_step_off": 1.0, "async": 1.0}[kind]
    if kind == "async":
        # A sequence is as old, in steps, as it takes to generate the longest one beside a step's training.
        staleness = max(1.0, float((t["rollout"] / seconds).reshape(-1)[0]))
    return Step(seconds, gpu_seconds, overhead, rest_gpu, staleness)
