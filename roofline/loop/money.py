"""From seconds to GPU-hours, energy and money.

Every price kind of a profile is all-in: own-TCO figures and rentals contain power, cooling and the building, so
neither electricity nor PUE is ever added to them. Energy is reported for itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from .inputs import Input, Inputs
from .phase import Context
from .scenario import Scenario
from .system import System
from .work import Array


class PriceError(ValueError):
    """A price that a profile does not state; the message says what it states and what to do."""


def price_input(scenario: Scenario, system: System) -> Input:
    """Return USD per GPU and hour with its spread.

    Raises
    ------
    PriceError
        If neither the scenario nor the profile states it.
    """
    own = scenario.prices.gpu_per_hour.get(system.name)
    if own is not None:
        source = f"the scenario's prices.gpu_per_hour.{system.name}"
        return Input("price.gpu", own.low, own.typical, own.high, "USD/h", source, "scenario", "all-in as given")
    kind = scenario.prices.gpu
    prices = system.profile.prices()
    if kind == "capital":
        from .capital import capital_price

        return capital_price(scenario, system)
    price = prices.get(kind)
    if price is None:
        known = ", ".join(name for name in prices if name != "purchase") or "none"
        raise PriceError(
            f"{system.name}: the profile states no {kind}; it has {known}. Choose one by prices.gpu, or give "
            f"prices.gpu_per_hour: {{{system.name}: {{low: ..., typical: ..., high: ...}}}}"
        )
    cited = _titles(system, price.sources)
    source = f"{system.name} prices.{kind}, {price.date}: {cited}"
    return Input("price.gpu", price.low, price.typical, price.high, "USD/h", source, "published", price.note)


def power_input(system: System) -> Input:
    """Return all-in watts per GPU; where the profile has none, TDP, to which server and site are still to be added.

    Raises
    ------
    PriceError
        If the profile states no power.
    """
    gpu = getattr(system.profile, "gpu", None) or system.profile
    powers = {**gpu.power(), **system.profile.power()}
    for name in ("all_in", "tdp"):
        if name in powers:
            p = powers[name]
            source = f"{system.name} power.{name}, {p.date}: {_titles(system, p.sources)}"
            return Input(f"power.{name}", p.low, p.value, p.high, "W", source, "published", p.note)
    raise PriceError(f"{system.name}: the profile states no power; add power.all_in or power.tdp")


def _titles(system: System, keys: tuple[str, ...]) -> str:
    known = system.target.sources
    return "; ".join(str(known.get(key, {}).get("title", key)) for key in keys)


def watts(inputs: Inputs) -> tuple[Array, str]:
    """Return all-in watts per GPU and how they were found."""
    if "power.all_in" in inputs:
        return inputs("power.all_in"), "all-in power of the profile"
    factor = inputs("power.server_factor") * inputs("power.pue")
    return inputs("power.tdp") * factor, "TDP x server factor x PUE"


@dataclass(frozen=True)
class Bill:
    """What a part of a step uses and costs: all arrays over variants."""

    gpu_hours: Array
    kwh: Array
    usd: Array
    vcpu_hours: float = 0.0
    gib_hours: float = 0.0


def bill(context: Context, gpu_hours: Array, vcpu_hours: float = 0.0, gib_hours: float = 0.0) -> Bill:
    """Return the bill of GPU-hours and sandbox hours."""
    s, inputs = context.scenario, context.inputs
    power, _ = watts(inputs)
    sandboxes = 0.0
    if not s.prices.own_sandboxes:
        sandboxes = vcpu_hours * s.prices.vcpu + gib_hours * s.prices.memory
    usd = gpu_hours * inputs("price.gpu") + sandboxes
    return Bill(gpu_hours, gpu_hours * power / 1000.0, usd, vcpu_hours, gib_hours)
