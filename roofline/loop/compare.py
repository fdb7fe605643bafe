"""Two systems on one scenario: ratios whose bands keep what both share, and the price at which they break even."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..tables import generation
from .cost import make_context, run_step
from .inputs import Band, Inputs
from .money import bill
from .phase import Context
from .scenario import Scenario
from .scenario_file import load_scenario
from .system import System
from .work import Array

if TYPE_CHECKING:
    from ..projection import Projection

# Inputs that belong to one system even where both have one of that name.
_OWN = ("ceiling.", "price.", "power.", "kernel.maturity")


@dataclass(frozen=True)
class Comparison:
    """One system against another.

    Parameters
    ----------
    time_ratio, usd_ratio
        The first system's step over the second's; below 1 the first is better.
    break_even_usd_per_gpu_hour
        Price of the first system at which both steps cost the same; at any lower one the first is cheaper.
    price_usd_per_gpu_hour
        The first system's price now.
    """

    scenario: str
    system: str
    against: str
    time_ratio: Band
    usd_ratio: Band
    break_even_usd_per_gpu_hour: Band
    price_usd_per_gpu_hour: Band

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        bands = ("time_ratio", "usd_ratio", "break_even_usd_per_gpu_hour", "price_usd_per_gpu_hour")
        named = {n: {end: getattr(getattr(self, n), end) for end in ("low", "mid", "high")} for n in bands}
        return {"scenario": self.scenario, "system": self.system, "against": self.against, **named}


def compare(
    scenario: Scenario | str | Path,
    system: str,
    against: str,
    run: str | Path | Sequence[Projection] | None = None,
) -> Comparison:
    """Compare one step on two systems.

    Raises
    ------
    DoesNotFitError
        If one of them cannot run the scenario.
    ScenarioError, hwprofiles.UnknownProfileError, PriceError
        As `loop_cost`.
    """
    chosen = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    sides = [_Side.of(make_context(chosen, System.load(name), run)) for name in (system, against)]
    first, second = sides
    price = first.context.inputs.by_name["price.gpu"]
    # What is left for GPU-hours once the sandboxes are paid.
    left = second.usd - first.sandboxes
    return Comparison(
        scenario=chosen.name,
        system=first.context.system.name,
        against=second.context.system.name,
        time_ratio=_ratio((first, first.seconds), (second, second.seconds)),
        usd_ratio=_ratio((first, first.usd), (second, second.usd)),
        break_even_usd_per_gpu_hour=_ratio((second, left), (first, first.gpu_hours)),
        price_usd_per_gpu_hour=Band(price.low, price.mid, price.high),
    )


def phase_ratio(scenario: Scenario, system: str, against: str, phase: str) -> Band:
    """Return the first system's GPU-seconds of one phase over the second's.

    Raises
    ------
    DoesNotFitError
        If one of them cannot run the scenario.
    """
    first, second = (_Side.of(make_context(scenario, System.load(name)), phase) for name in (system, against))
    return _ratio((first, first.seconds), (second, second.seconds))


@dataclass(frozen=True)
class _Side:
    """One system's step, over the variants of its own inputs."""

    context: Context
    seconds: Array
    gpu_hours: Array
    usd: Array
    sandboxes: float

    @classmethod
    def of(cls, context: Context, phase: str | None = None) -> _Side:
        phases, step = run_step(context)
        used = {name: phases["reward"].facts[name] for name in ("vcpu_hours", "gib_hours")}
        hours = step.seconds * context.scenario.cluster.gpus / 3600.0
        sandboxes = float(bill(context, np.zeros((1, 1)), **used).usd.reshape(-1)[0])
        seconds = phases[phase].seconds if phase else step.seconds
        return cls(context, seconds, hours, bill(context, hours, **used).usd, sandboxes)


def _ratio(over: tuple[_Side, Array], under: tuple[_Side, Array]) -> Band:
    """Return the band of a ratio: an input of both moves both, one of a single system only that one."""
    tops, bottoms = _swings(over[0].context.inputs, over[1]), _swings(under[0].context.inputs, under[1])
    mid = float(np.reshape(over[1], -1)[0] / np.reshape(under[1], -1)[0])
    names = {*tops, *bottoms}
    pairs = [_between_generations(over[0].context, under[0].context)]
    for name in names:
        top, bottom = tops.get(name, (0.0, 0.0)), bottoms.get(name, (0.0, 0.0))
        if name.startswith(_OWN):
            pairs += [top, (-bottom[0], -bottom[1])]
        else:
            pairs.append((top[0] - bottom[0], top[1] - bottom[1]))
    up = np.sqrt(sum(max(0.0, *pair) ** 2 for pair in pairs))
    down = np.sqrt(sum(min(0.0, *pair) ** 2 for pair in pairs))
    return Band(mid * float(np.exp(-down)), mid, mid * float(np.exp(up)))


def _between_generations(over: Context, under: Context) -> tuple[float, float]:
    """Swings of the logarithm for what the model does not know of one generation against another."""
    item = over.inputs.by_name["compare.generation"]
    newer, older = (generation(c.system.target.architecture) for c in (over, under))
    low, high = float(np.log(item.low)), float(np.log(item.high))
    if newer == older:
        return 0.0, 0.0
    return (low, high) if (newer or 0.0) > (older or 0.0) else (-high, -low)


def _swings(inputs: Inputs, result: Array) -> dict[str, tuple[float, float]]:
    mid = float(np.reshape(result, -1)[0])
    return {
        row["input"]: (float(np.log(row["lowered"] / mid)), float(np.log(row["raised"] / mid)))
        for row in inputs.sensitivity(np.broadcast_to(np.reshape(result, (-1, 1)), (inputs.variants, 1)))
    }
