"""The price of a GPU-hour of own hardware: depreciation with interest, operations, and electricity with PUE.

USD per hour = [(price - residual / (1 + i)^n) x i / (1 - (1 + i)^-n) x (1 + around) + operations x price]
               / (8766 h x utilization) + kW x USD per kWh / utilization.

The annuity repays the price, less what the residual is worth today, over the years. Electricity is paid for all hours,
used or not. The power is the profile's all-in figure, or TDP x server factor x PUE where it has none, as for energy.
These are the only prices to which power and PUE are added: all other kinds contain them.
"""

from __future__ import annotations

import math

from ...hwprofiles import SystemProfile
from .inputs import Input, parameter_inputs
from .money import PriceError, power_input
from .scenario import Scenario
from .sections import Capital
from .system import System

HOURS_PER_YEAR = 8766.0


def capital_price(scenario: Scenario, system: System) -> Input:
    """Return USD per GPU and hour of own hardware.

    The range combines those of price, power and electricity as root sum of squares of the logarithm.

    Raises
    ------
    PriceError
        If neither the scenario nor the profile states what a system costs.
    """
    capital = scenario.prices.capital
    purchase, power = _purchase(capital, system), _kilowatts(scenario, system)
    electricity = capital.electricity
    if not {"low", "typical", "high"} <= set(electricity):
        raise PriceError("prices.capital.electricity: give low, typical and high")
    mids = (purchase.mid, power.mid, electricity["typical"])
    ends = ((purchase.low, purchase.high), (power.low, power.high), (electricity["low"], electricity["high"]))
    mid = hourly(capital, *mids)
    down, up = 0.0, 0.0
    for index, (low, high) in enumerate(ends):
        for value in (low, high):
            swing = math.log(hourly(capital, *(value if i == index else m for i, m in enumerate(mids))) / mid)
            down, up = down + min(swing, 0.0) ** 2, up + max(swing, 0.0) ** 2
    source = (
        f"{purchase.source}; {capital.years:g} years to {capital.residual_share:.0%} at {capital.interest:.1%}, "
        f"+ {capital.around_share:.0%} around it, {capital.operations_share:.0%} a year to run, in use "
        f"{capital.utilization:.0%}; {power.mid:.3g} kW ({power.source}) at {electricity['typical']:.4g} USD/kWh"
    )
    note = f"{purchase.mid:,.0f} USD per GPU; power and PUE are in this price"
    low, high = mid * math.exp(-math.sqrt(down)), mid * math.exp(math.sqrt(up))
    return Input("price.gpu", min(low, mid), mid, max(high, mid), "USD/h", source, "derived", note)


def hourly(capital: Capital, purchase_usd: float, kilowatts: float, usd_per_kwh: float) -> float:
    """Return USD per GPU-hour in use."""
    i, n = capital.interest, capital.years
    annuity = i / (1.0 - (1.0 + i) ** -n) if i else 1.0 / n
    whole = purchase_usd * (1.0 + capital.around_share)
    owed = whole * (1.0 - capital.residual_share / (1.0 + i) ** n)
    yearly = owed * annuity + whole * capital.operations_share
    return (yearly / HOURS_PER_YEAR + kilowatts * usd_per_kwh) / capital.utilization


def _purchase(capital: Capital, system: System) -> Input:
    own = capital.purchase.get(system.name)
    if own is not None:
        source = f"the scenario's prices.capital.purchase.{system.name}"
        return Input("price.purchase", own, own, own, "USD", source, "scenario")
    price = system.profile.prices().get("purchase")
    if price is None or not isinstance(system.profile, SystemProfile):
        why = "is a GPU's profile, whose price has no server" if price else "states no purchase price"
        raise PriceError(
            f"{system.name}: the profile {why}; give prices.capital.purchase: {{{system.name}: ... USD}} per GPU with "
            "its share of the server, or choose a system such as gb300-nvl72"
        )
    count = system.profile.gpu_count
    title = f"{system.name} prices.purchase of {price.text} for {count} GPUs, {price.date}"
    low, mid, high = (value / count for value in (price.low, price.typical, price.high))
    return Input("price.purchase", low, mid, high, "USD", title, "published", price.note)


def _kilowatts(scenario: Scenario, system: System) -> Input:
    power = power_input(system)
    factor = 1.0
    if power.name != "power.all_in":
        known = {item.name: item.mid for item in parameter_inputs(scenario.parameters)}
        factor = known["power.server_factor"] * known["power.pue"]
    low, mid, high = (value * factor / 1000.0 for value in (power.low, power.mid, power.high))
    return Input("power", low, mid, high, "kW", power.source, power.origin, power.note)
