"""How much there is to do in a step and on how many GPUs: the numbers of a scenario that may be arrays.

One shape and layout at many loads is one calculation: every field has the shape (points, 1), or is one number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .scenario import Scenario
from .work import Value

# Fields of a scenario that change nothing but its load.
LOAD_FIELDS = ("cluster", "algorithm.prompts", "algorithm.rollouts", "algorithm.train_batch")


@dataclass(frozen=True)
class Load:
    """Prompts, sequences and optimizer updates of a step; GPUs that generate and that train."""

    prompts: Value
    sequences: Value
    updates: Value
    generating: Value
    training: Value

    @classmethod
    def of(cls, scenario: Scenario) -> Load:
        """Return the load of one scenario."""
        a, c = scenario.algorithm, scenario.cluster
        return cls(a.prompts, a.sequences, a.updates, c.generating, c.training)

    @classmethod
    def stack(cls, scenarios: Sequence[Scenario]) -> Load:
        """Return the loads of scenarios that differ in nothing else, as columns."""
        rows = [Load.of(s) for s in scenarios]
        return cls(
            *(
                np.array([[getattr(row, name)] for row in rows], dtype=float)
                for name in ("prompts", "sequences", "updates", "generating", "training")
            )
        )
