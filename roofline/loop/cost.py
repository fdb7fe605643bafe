"""The loop cost of a scenario on systems: rows per phase with bands, and the chain behind each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .around import reward_phase, sync_phase
from .carried import factors_on
from .generate import rollout_phase
from .inputs import Inputs, parameter_inputs
from .learn import logprob_phase, train_phase
from .money import Bill, bill, power_input, price_input, watts
from .phase import Context, DoesNotFitError, Phase, Term, parameter_term
from .scenario import Scenario
from .scenario_file import load_scenario
from .schedule import PHASES, Step, schedule
from .time_source import System, TimeSource
from .work import Array
from .workloads import OPERATORS

if TYPE_CHECKING:
    import pandas as pd

    from ...hwprofiles import DeviceProfile, SystemProfile
    from ..projection import Projection

COLUMNS = {
    "id": "row name for roofcast explain: L1, L2 ...",
    "scenario": "scenario name",
    "system": "hardware profile",
    "phase": "rollout, reward, logprob, train, weight_sync; overhead: no phase, and GPUs that wait; step: the whole",
    "time_low_s": "seconds of the phase in one step, lower end of the 80 % band",
    "time_mid_s": "middle",
    "time_high_s": "upper end",
    "gpu_hours_low": "GPU-hours that the phase holds in one step, lower end",
    "gpu_hours_mid": "middle",
    "gpu_hours_high": "upper end",
    "kwh_low": "all-in energy, lower end",
    "kwh_mid": "middle",
    "kwh_high": "upper end",
    "usd_low": "US dollars of GPU-hours and sandboxes, lower end",
    "usd_mid": "middle",
    "usd_high": "upper end",
    "vcpu_hours": "sandbox vCPU-hours",
    "gib_hours": "sandbox GiB-hours",
    "usd_per_million_tokens_low": "dollars per 1e6 tokens trained on, lower end",
    "usd_per_million_tokens_mid": "middle",
    "usd_per_million_tokens_high": "upper end",
    "share": "of the step's GPU-hours, at the middle",
    "bound_by": "the ceiling or parameter of the largest term",
    "basis": "weakest basis of an operator that takes a tenth of the phase; scenario: given; calibrated: a parameter",
    "price_kind": "price used, all-in",
    "gpus": "GPUs of the cluster",
    "tokens": "tokens trained on per step",
    "provenance": "JSON: terms with bands, basis, formula, references and sources; facts of the phase",
}


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
        A run folder, or projections of measured rows: operators measured there take their projection; all others
        stand on specifications and the spread of real kernels.

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
        rows += _rows(context, phases, step, len(rows))
        whole = bill(context, step.seconds * chosen.cluster.gpus / 3600.0)
        sensitivity[system.name] = {
            "time_s": context.inputs.sensitivity(step.seconds),
            "usd": context.inputs.sensitivity(whole.usd),
        }
    return LoopCost(chosen, rows, problems, sensitivity)


def make_context(
    scenario: Scenario, system: System, run: str | Path | Sequence[Projection] | None = None, *, vary: bool = True
) -> Context:
    """Return a scenario on a system with all its inputs.

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
    return Context(scenario, system, times, Inputs(inputs, vary=vary))


def _operators(scenario: Scenario) -> list[str]:
    left_out = set() if scenario.model.moe else {"moe.routing", "moe.experts"}
    left_out |= set() if scenario.model.recurrent else {"recurrent.mixer"}
    return [name for name in OPERATORS if name not in left_out and not name.startswith("collective.")]


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


def _rows(context: Context, phases: dict[str, Phase], step: Step, before: int) -> list[dict[str, Any]]:
    s, inputs = context.scenario, context.inputs
    rest = Phase("overhead", [parameter_term(context, "framework", "step.overhead_s", step.rest, "per step")])
    reward = phases["reward"].facts
    sandboxes = {"vcpu_hours": reward["vcpu_hours"], "gib_hours": reward["gib_hours"]}
    bills: dict[str, Bill] = {}
    for name in PHASES:
        used = sandboxes if name == "reward" else {}
        bills[name] = bill(context, step.gpu_seconds[name] / 3600.0, **used)
    bills["overhead"] = bill(context, step.rest_gpu_seconds / 3600.0)
    bills["step"] = bill(context, step.seconds * s.cluster.gpus / 3600.0, **sandboxes)
    whole = _whole(phases, step)
    total = float(bills["step"].gpu_hours.reshape(-1)[0])
    made = []
    for phase in (*(phases[n] for n in PHASES), rest, whole):
        b = bills[phase.name]
        seconds = step.seconds if phase is whole else phase.seconds
        usd = inputs.band(_all_variants(b.usd, inputs))
        made.append(
            {
                "id": f"L{before + len(made) + 1}",
                "scenario": s.name,
                "system": context.system.name,
                "phase": phase.name,
                **inputs.band(_all_variants(seconds, inputs)).columns("time", "_s"),
                **inputs.band(_all_variants(b.gpu_hours, inputs)).columns("gpu_hours"),
                **inputs.band(_all_variants(b.kwh, inputs)).columns("kwh"),
                **usd.columns("usd"),
                "vcpu_hours": b.vcpu_hours,
                "gib_hours": b.gib_hours,
                **usd.scaled(1e6 / s.tokens).columns("usd_per_million_tokens"),
                "share": float(np.reshape(b.gpu_hours, -1)[0]) / total,
                "bound_by": phase.bound_by,
                "basis": phase.basis,
                "price_kind": "scenario" if context.system.name in s.prices.gpu_per_hour else s.prices.gpu,
                "gpus": s.cluster.gpus,
                "tokens": s.tokens,
                "provenance": _provenance(context, phase, step if phase is whole else None),
            }
        )
    return made


def _whole(phases: dict[str, Phase], step: Step) -> Phase:
    whole = Phase("step")
    for name in PHASES:
        p = phases[name]
        whole.terms.append(Term(name, p.seconds, p.basis, p.bound_by, "sum of its terms"))
    whole.terms.append(Term("overhead", step.rest, "calibrated", "framework", "per step"))
    return whole


def _all_variants(values: Array, inputs: Inputs) -> Array:
    return np.broadcast_to(np.asarray(values, dtype=float).reshape(-1, 1), (inputs.variants, 1))


def _provenance(context: Context, phase: Phase, step: Step | None) -> dict[str, Any]:
    inputs = context.inputs
    terms = [
        {
            "name": t.name,
            **inputs.band(_all_variants(t.seconds, inputs)).columns("time", "_s"),
            "basis": t.basis,
            "bound_by": t.bound_by,
            "formula": t.formula,
            "reference": t.reference,
            "sources": [source for source in t.sources if source],
            "work": t.work,
        }
        for t in phase.terms
    ]
    price = inputs.by_name["price.gpu"]
    made: dict[str, Any] = {
        "terms": sorted(terms, key=lambda t: -t["time_mid_s"]),
        "facts": phase.facts,
        "price": price.as_dict(),
        "power": {**next(i for n, i in inputs.by_name.items() if n in ("power.all_in", "power.tdp")).as_dict()},
        "energy": watts(inputs)[1],
    }
    if step is not None:
        made["schedule"] = {"kind": context.scenario.schedule, "staleness_steps": step.staleness}
        made["sensitivity"] = inputs.sensitivity(_all_variants(step.seconds, inputs))[:12]
    return made


__all__ = ["COLUMNS", "LoopCost", "loop_cost", "make_context", "run_step"]
