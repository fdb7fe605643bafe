"""The loop cost of a scenario on systems: rows per phase with bands, and the chain behind each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .around import reward_phase, sync_phase
from .carried import factors_on
from .generate import rollout_phase
from .inputs import Inputs, parameter_inputs
from .learn import logprob_phase, train_phase
from .money import bill, power_input, price_input
from .phase import Context, DoesNotFitError, Phase
from .rows import COLUMNS, phase_rows
from .scenario import Scenario
from .scenario_file import load_scenario
from .schedule import Step, schedule
from .system import System
from .target import runs
from .time_source import TimeSource
from .workloads import OPERATORS

if TYPE_CHECKING:
    import pandas as pd

    from ...hwprofiles import DeviceProfile, SystemProfile
    from ..projection import Projection


@dataclass(frozen=True)
class LoopCost:
    """What one step of a scenario takes and costs.

    Parameters
    ----------
    rows
        Columns of `COLUMNS`, one per phase and system, then a ``step`` per system; ``provenance`` is a dict.
    problems
        Systems that cannot run the scenario, with the reason.
    sensitivity
        By system: what each input at the ends of its range makes of the step's time and dollars.
    """

    scenario: Scenario
    rows: list[dict[str, Any]]
    problems: Mapping[str, str] = field(default_factory=dict)
    sensitivity: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    def step(self, system: str) -> dict[str, Any]:
        """Return the row of a whole step.

        Raises
        ------
        LookupError
            If there is none for that system.
        """
        for row in self.rows:
            if row["system"] == system and row["phase"] == "step":
                return row
        raise LookupError(self.problems.get(system, f"no row for {system}"))

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a table; ``provenance`` is JSON text."""
        import pandas as pd

        rows = [{**row, "provenance": json.dumps(row["provenance"], allow_nan=False)} for row in self.rows]
        return pd.DataFrame(rows, columns=list(COLUMNS))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {
            "scenario": self.scenario.name,
            "title": self.scenario.title,
            "rows": self.rows,
            "runs": runs(self.scenario, self.rows),
            "problems": dict(self.problems),
            "sensitivity": dict(self.sensitivity),
        }


def loop_cost(
    scenario: Scenario | str | Path,
    systems: Sequence[str | DeviceProfile | SystemProfile] | None = None,
    run: str | Path | Sequence[Projection] | None = None,
) -> LoopCost:
    """Estimate one step of a scenario.

    Parameters
    ----------
    scenario
        A scenario, a file, or the name of a shipped one.
    systems
        Hardware profiles; default: the scenario's own list.
    run
        A run folder, projections of measured rows, or ``silicon:GPU`` for the measured tables of a real GPU:
        operators measured there take their projection; all others stand on specifications and the spread of real
        kernels.

    Raises
    ------
    ScenarioError
        If the scenario is wrong.
    hwprofiles.UnknownProfileError
        If there is no profile of a name.
    PriceError, UnsuitableSystemError
        If a profile does not state a price, a power or what else is needed.
    """
    chosen = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    rows: list[dict[str, Any]] = []
    problems: dict[str, str] = {}
    sensitivity: dict[str, dict[str, Any]] = {}
    for name in systems or chosen.systems:
        system = System.load(name)
        context = make_context(chosen, system, run)
        try:
            phases, step = run_step(context)
        except DoesNotFitError as error:
            problems[system.name] = str(error)
            continue
        rows += phase_rows(context, phases, step, len(rows))
        whole = bill(context, step.seconds * chosen.cluster.gpus / 3600.0)
        sensitivity[system.name] = {
            "time_s": context.inputs.sensitivity(step.seconds),
            "usd": context.inputs.sensitivity(whole.usd),
        }
    return LoopCost(chosen, rows, problems, sensitivity)


def make_context(
    scenario: Scenario,
    system: System,
    run: str | Path | Sequence[Projection] | None = None,
    *,
    vary: bool = True,
    explained: bool = True,
) -> Context:
    """Return a scenario on a system with all its inputs.

    ``vary=False`` keeps every input at its middle; ``explained=False`` leaves out formulas and ceilings of terms.

    Raises
    ------
    PriceError
        If a price or power is not stated.
    """
    times = TimeSource(system, factors_on(run, system))
    precisions = scenario.precision
    used = _operators(scenario)
    pairs = {(operator, p) for operator in used for p in (precisions.rollout, precisions.train)}
    parameters = {item.name: item for item in parameter_inputs(scenario.parameters)}
    inputs = [*parameters.values(), *times.inputs(pairs, parameters["kernel.spread"].mid)]
    inputs += [price_input(scenario, system), power_input(system)]
    return Context(scenario, system, times, Inputs(inputs, vary=vary), explained)


def _operators(scenario: Scenario) -> list[str]:
    model = scenario.model
    left_out = ["collective"]
    left_out += [] if model.moe else ["moe"]
    left_out += ["attention.mla"] if model.attention.kind == "gqa" else ["attention.decode", "attention.prefill"]
    kind = model.recurrent.kind if model.recurrent else ""
    left_out += [family for family, own in (("ssm", "mamba2"), ("recurrent", "gated_delta")) if kind != own]
    return [name for name in OPERATORS if not name.startswith(tuple(left_out))]


def run_step(context: Context) -> tuple[dict[str, Phase], Step]:
    """Return the phases of a step and how they follow each other.

    Raises
    ------
    DoesNotFitError
        If the system cannot hold the scenario.
    """
    inputs = context.inputs
    made = (rollout_phase, reward_phase, logprob_phase, train_phase, sync_phase)
    phases = {phase.name: phase for phase in (build(context) for build in made)}
    residual = inputs("model.residual")
    for name in ("rollout", "logprob", "train"):
        phases[name].scaled(residual)
    return phases, schedule(context.scenario, phases, inputs("step.overhead_s"))


__all__ = ["COLUMNS", "LoopCost", "loop_cost", "make_context", "run_step"]
