"""Phases of many scenarios on one system, at the middle of all inputs: numbers only, each worked out once.

A phase reads only some fields of a scenario (`READS`), so scenarios that share them share the phase. This is what
makes searching and sweeping quick: a grid of a million points has only some hundred different rollouts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..around import reward_phase, sync_phase
from ..cost import make_context
from ..generate import rollout_phase
from ..learn import logprob_phase, train_phase, trainer_memory, training_bytes
from ..load import Load
from ..money import price_input, watts
from ..phase import Context, DoesNotFitError, Phase
from ..scenario import Scenario
from ..system import System
from ..work import Array

_WORKED = (
    *("model", "algorithm", "lengths", "precision", "cluster"),
    *("parameters.model", "parameters.collective", "parameters.kernel"),
)
_SANDBOX = ("reward", "parameters.reward")
_LEARNT = (*_WORKED, "rollout.turns", "rollout.observation_tokens", "train", "parameters.train")
READS: dict[str, tuple[str, ...]] = {
    "rollout": (*_WORKED, "rollout", "schedule", "parameters.rollout", "parameters.memory", *_SANDBOX),
    "reward": ("algorithm.prompts", "algorithm.rollouts", "rollout.turns", "rollout.tool_seconds", *_SANDBOX),
    "logprob": _LEARNT,
    "train": _LEARNT,
    "weight_sync": (
        *("model", "precision", "parameters.sync", "cluster"),
        *("rollout", "train", "weight_sync", "delta_share"),
    ),
}
_BUILD: dict[str, Callable[[Context], Phase]] = {
    "rollout": rollout_phase,
    "reward": reward_phase,
    "logprob": logprob_phase,
    "train": train_phase,
    "weight_sync": sync_phase,
}
_LOADED: dict[str, Callable[[Context, Load], Phase]] = {
    "rollout": rollout_phase,
    "logprob": logprob_phase,
    "train": train_phase,
}
_SCALED = ("rollout", "logprob", "train")


class Quick:
    """Middle seconds of phases on one system.

    Parameters
    ----------
    system
        Where.
    run
        A run folder whose projections to use.
    """

    def __init__(self, system: str | System, run: str | Path | None = None) -> None:
        self.system = system if isinstance(system, System) else System.load(system)
        self._run = run
        self._contexts: dict[Any, Context] = {}
        self._prices: dict[str, float] = {}

    def context(self, scenario: Scenario) -> Context:
        """Return a context at the middle; scenarios of the same model, precisions and parameters share its inputs."""
        m, p = scenario.model, scenario.precision
        key = (m.moe is None, m.recurrent is None, p.rollout, p.train, *sorted(scenario.parameters.items()))
        known = self._contexts.get(key)
        if known is None:
            known = make_context(scenario, self.system, self._run, vary=False, explained=False)
            self._contexts[key] = known
        return Context(scenario, self.system, known.times, known.inputs, explained=False)

    def phase(self, name: str, scenario: Scenario) -> Phase:
        """Return a phase.

        Raises
        ------
        DoesNotFitError
            If the system cannot hold it.
        """
        context = self.context(scenario)
        made = _BUILD[name](context)
        return made.scaled(context.inputs("model.residual")) if name in _SCALED else made

    def seconds(self, name: str, scenario: Scenario) -> float:
        """Return the seconds of a phase, infinite where it does not fit."""
        try:
            return float(self.phase(name, scenario).seconds.reshape(-1)[0])
        except DoesNotFitError:
            return float("inf")

    def seconds_at(self, name: str, scenario: Scenario, load: Load) -> Array:
        """Return the seconds of a phase (rollout, logprob or train) at many loads: (points,), infinite as above."""
        context = self.context(scenario)
        points = len(np.atleast_1d(load.sequences))
        try:
            made = _LOADED[name](context, load).scaled(context.inputs("model.residual"))
        except DoesNotFitError:
            return np.full(points, np.inf)
        seconds = np.broadcast_to(made.seconds, (points, 1))[:, 0]
        if name != "train":
            return seconds
        held = np.broadcast_to(training_bytes(context, load), (points, 1))[:, 0]
        return np.where(held <= trainer_memory(context), seconds, np.inf)

    def overhead(self, scenario: Scenario) -> float:
        """Return the seconds of a step in no phase."""
        return self.context(scenario).inputs.by_name["step.overhead_s"].mid

    def price(self, scenario: Scenario) -> float:
        """Return USD per GPU and hour."""
        return price_input(scenario, self.system).mid

    def watts(self, scenario: Scenario) -> float:
        """Return all-in watts per GPU."""
        return float(watts(self.context(scenario).inputs)[0].reshape(-1)[0])
