"""The speeds of a GPU that a transfer compares: its datasheet's, and the rate at which its cores issue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..ceilings import Ceilings
from ..roofs import able_rates
from ..targets import Target, load_target

# Bytes that L2 gives per clock and SM: measured 5.3 to 6.3 TB/s on H100 (132 SMs, 1.98 GHz) and 3.9 TB/s on A100.
L2_BYTES_PER_CLOCK = 24.0
# FLOP per clock and SM of NVIDIA's fp32 lanes, for a profile that gives no clock.
_FP32_PER_CLOCK = 256.0
# Sets count as held below half of L2 and as streamed above one and a half of it, with a mix between.
L2_EDGES = (0.5, 1.5)


@dataclass(frozen=True)
class Speeds:
    """Rates of one device, in work per second.

    Parameters
    ----------
    rates
        ``matrix.<precision>``, ``vector.fp32``, ``exp.fp32``, ``dram.read`` as the maker specifies them. Not what the
        best kernels attain: that was measured on the very device and would tell a backtest its own answer.
    issue, clock
        SMs x clock, and the clock alone, Hz. What is bound by neither arithmetic nor memory goes with these.
    l2_bytes
        Capacity of L2.
    link
        Bytes per second and direction to other GPUs of the node.
    architecture, family
        For telling generations, and which devices share a design.
    """

    name: str
    title: str
    architecture: str
    rates: Mapping[str, float]
    issue: float
    clock: float
    l2_bytes: float
    link: float

    def rate(self, name: str) -> float:
        """Return the fastest specified rate able to do work of a unit and precision."""
        found = [self.rates[able] for able in able_rates(name) if able in self.rates]
        if not found:
            raise MissingSpeedError(f"{self.name}: the profile states no rate for {name}; add it to the profile")
        return max(found)

    @property
    def l2_rate(self) -> float:
        """Bytes per second of L2."""
        return L2_BYTES_PER_CLOCK * self.issue

    @property
    def family(self) -> str:
        """Architectures that share a design count as one."""
        return {"blackwell_ultra": "blackwell", "rubin_ultra": "rubin"}.get(self.architecture, self.architecture)


class MissingSpeedError(LookupError):
    """A device without a figure that a transfer needs; the message names device and figure."""


def speeds_of(target: str | Target | Any, case: str = "value") -> Speeds:
    """Return a profile's speeds.

    Parameters
    ----------
    case
        ``value``, or the ``low`` or ``high`` end of each figure where sources disagree.

    Raises
    ------
    MissingSpeedError
        If the profile has no memory bandwidth or no arithmetic rate.
    hwprofiles.UnknownProfileError
        If there is no profile of that name.
    """
    loaded = load_target(target)
    from ...hwprofiles import load

    fields = getattr(load(loaded.device), "fields", {})
    sms, clock = _number(fields, "compute.sms"), _number(fields, "compute.clock.boost")
    return speeds_of_ceilings(loaded.specified, loaded.title, sms, clock, case)


def speeds_of_ceilings(
    named: Ceilings, title: str, sms: float | None = None, clock: float | None = None, case: str = "value"
) -> Speeds:
    """Return the speeds behind a set of ceilings, SMs and clock if known."""
    rates: dict[str, float] = {name: getattr(ceiling, case) for name, ceiling in named.named.items()}
    for needed in ("dram.read", "vector.fp32"):
        if needed not in rates:
            raise MissingSpeedError(f"{named.device}: no {needed} is known; a transfer needs it")
    rates.setdefault("exp.fp32", rates["vector.fp32"] / 16)
    issue = sms * clock if sms and clock else rates["vector.fp32"] / _FP32_PER_CLOCK
    link = next((rates[n] for n in ("link.scaleup", "link.nvlink", "link.pcie") if n in rates), 64e9)
    return Speeds(
        name=named.device,
        title=title,
        architecture=named.architecture,
        rates=rates,
        issue=issue,
        clock=clock or issue / (sms or 132.0),
        l2_bytes=named.capacities.get("l2", 50e6),
        link=link,
    )


def _number(fields: Mapping[str, Any], name: str) -> float | None:
    value = getattr(fields.get(name), "value", None)
    return float(value) if value else None
