"""Rows of a loop cost: one per phase and system, with bands and the chain behind each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .inputs import Inputs
from .money import Bill, bill, watts
from .phase import Context, Phase, Term, parameter_term
from .scenario import Scenario
from .schedule import PHASES, Step
from .work import Array

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


def phase_rows(context: Context, phases: dict[str, Phase], step: Step, before: int) -> list[dict[str, Any]]:
    """Return the rows of one system, in the order of the phases; ids go on from ``before``."""
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


@dataclass(frozen=True)
class PaidFor:
    """A thing that a row's dollars pay for: GPU-hours, vCPU-hours or GiB-hours.

    ``column`` is the row's quantity; those of sandboxes have no band.
    """

    name: str
    column: str
    unit: str
    resource: str
    banded: bool = False

    def quantity(self, row: dict[str, Any], end: str) -> float:
        """Return how much of it a row uses, at the low, mid or high end."""
        return float(row[f"{self.column}_{end}" if self.banded else self.column])

    def price(self, row: dict[str, Any], scenario: Scenario) -> float:
        """Return USD per unit."""
        if self.name == "gpu":
            return float(row["provenance"]["price"]["mid"])
        if scenario.prices.own_sandboxes:
            return 0.0
        return scenario.prices.vcpu if self.name == "vcpu" else scenario.prices.memory


PAID_FOR = (
    PaidFor("gpu", "gpu_hours", "GPU-hours", "GPU", banded=True),
    PaidFor("vcpu", "vcpu_hours", "vCPU-hours", "Sandbox CPU"),
    PaidFor("memory", "gib_hours", "GiB-hours", "Sandbox memory"),
)
