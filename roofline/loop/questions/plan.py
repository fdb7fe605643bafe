"""Plan: the GPU count, split and parallelism with the least dollars or time, and why nothing works where nothing does.

The search is at the middle of the inputs; the plan that it chooses is then worked out with bands.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..cost import LoopCost, loop_cost
from ..quantity import parse
from ..scenario import Scenario
from ..scenario_file import ScenarioError, load_scenario
from .layouts import gpu_counts
from .quick import Quick
from .search import Choice, Objective, Search

_MUCH_LARGER = 16


@dataclass(frozen=True)
class Plan:
    """What the search found.

    Parameters
    ----------
    best
        The plan of least ``objective`` within the deadline; none if nothing works.
    smallest
        The one with the fewest GPUs within the deadline.
    by_count
        The best plan of each GPU count that fits, within the deadline or not.
    reasons
        Why counts do not work, and what would make an infeasible request feasible.
    cost
        The best plan with bands.
    """

    system: str
    objective: Objective
    deadline_s: float | None
    best: Choice | None
    smallest: Choice | None
    by_count: list[Choice]
    reasons: list[str]
    searched: int
    cost: LoopCost | None

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {
            "system": self.system,
            "objective": self.objective,
            "deadline_s": self.deadline_s,
            "best": self.best.as_dict() if self.best else None,
            "smallest": self.smallest.as_dict() if self.smallest else None,
            "by_count": [choice.as_dict() for choice in self.by_count],
            "reasons": self.reasons,
            "searched": self.searched,
            "step": self.cost.rows[-1] | {"provenance": None} if self.cost else None,
        }


def plan(
    scenario: Scenario | str | Path,
    system: str,
    *,
    objective: Objective = "usd",
    deadline_s: float | None = None,
    most_gpus: int | None = None,
    run: str | Path | None = None,
) -> Plan:
    """Search GPU count, split between generation and training, and parallelism.

    Parameters
    ----------
    deadline_s
        Longest step.
    most_gpus
        Largest count tried; default: four times the scenario's.

    Raises
    ------
    ScenarioError, hwprofiles.UnknownProfileError, PriceError
        As `loop_cost`.
    """
    base = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    most = most_gpus or 4 * base.cluster.gpus
    search = Search(base, Quick(system, run))
    tried = gpu_counts(search.quick.system, most)
    by_count = [found for gpus in tried if (found := search.best_of(gpus, objective))]
    within = [c for c in by_count if deadline_s is None or c.time_s <= deadline_s]
    best = min(within, key=lambda c: getattr(c, objective), default=None)
    reasons = search.memory_reasons()
    if best is None:
        reasons += _remedies(search, by_count, deadline_s, most)
    cost = loop_cost(best.scenario, [system], run) if best else None
    return Plan(
        search.quick.system.name, objective, deadline_s, best, within[0] if within else None,
        by_count, reasons, search.searched, cost,
    )  # fmt: skip


def _remedies(search: Search, by_count: list[Choice], deadline_s: float | None, most: int) -> list[str]:
    """What would make the request feasible."""
    larger = [g for g in gpu_counts(search.quick.system, most * _MUCH_LARGER) if g > most]
    if not by_count:
        for gpus in larger:
            if search.best_of(gpus, "time_s"):
                return [f"nothing fits up to {most} GPUs; {gpus} are the fewest that hold it: raise the limit"]
        return [
            f"nothing fits, not even {larger[-1] if larger else most} GPUs; choose a system with more memory, a "
            "narrower precision, train.recompute: full, or fewer train.microbatch_tokens"
        ]
    fastest = min(by_count, key=lambda c: c.time_s)
    made = [
        f"no plan up to {most} GPUs keeps {deadline_s:.4g} s; the fastest takes {fastest.time_s:.4g} s on "
        f"{fastest.scenario.cluster.gpus} GPUs: allow that long"
    ]
    for gpus in larger:
        found = search.best_of(gpus, "time_s")
        if found and deadline_s is not None and found.time_s <= deadline_s:
            return [*made, f"or allow {gpus} GPUs, which take {found.time_s:.4g} s"]
    phase = max(fastest.seconds, key=lambda name: fastest.seconds[name])
    return [*made, f"more GPUs alone do not help; {phase} takes {fastest.seconds[phase]:.4g} s of it"]


def fewest_gpus(scenario: Scenario | str | Path, system: str, most: int = 4096) -> int | None:
    """Return the fewest GPUs of a system that hold the scenario, of the counts that a plan tries."""
    base = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    search = Search(base, Quick(system))
    return next((n for n in gpu_counts(search.quick.system, most) if search.best_of(n, "time_s")), None)


def read_deadline(text: str) -> float:
    """Return the seconds of a time with a unit.

    Raises
    ------
    ScenarioError
        If it is none.
    """
    try:
        seconds = parse(text, "s")
    except ValueError as error:
        raise ScenarioError(f"deadline {text!r}: {error}") from None
    if seconds <= 0:
        raise ScenarioError(f"deadline {text!r}: must be above 0")
    return seconds
