"""The three times of a projection: by carrying an efficiency, or from the spread of real kernels of a class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..kernels.contract import Cost
from ..profiler.schema import Measurement
from .bands import Factor, basis_factor, class_factor, combine, interval_factor, maturity_factor
from .basis import BasisName
from .ceilings import Ceilings
from .efficiency import Efficiency, same_resource
from .roofs import CacheState, as_cost, bound_by, roofs
from .tables import KernelClass, basis, class_of_operator, load_table
from .targets import Case, Target

_CASES: tuple[Case, ...] = ("low", "mid", "high")


@dataclass(frozen=True)
class Times:
    """A workload's roofs on a target, by ceiling, with the attained ceilings at their low, middle and high ends."""

    low: Mapping[str, float]
    mid: Mapping[str, float]
    high: Mapping[str, float]

    @classmethod
    def of(cls, cost: Cost, target: Target, cache_state: CacheState) -> Times:
        """Return the roofs of a cost."""
        return cls(*(roofs(cost, target.attained[case], cache_state) for case in _CASES))

    def largest(self, case: Case) -> float:
        """Return the largest roof of a set of ceilings, 0 if nothing bounds."""
        return max(getattr(self, case).values(), default=0.0)


@dataclass(frozen=True)
class Forecast:
    """Low, middle and high time in seconds with what they stand on.

    ``shares`` gives the efficiency of every resource and, in words, where it comes from.
    """

    basis: BasisName
    low_s: float
    mid_s: float
    high_s: float
    overhead_s: float
    factors: tuple[Factor, ...]
    shares: Mapping[str, tuple[float, str]]
    formula: str


def from_class(
    cost: Cost, kind: KernelClass, target: Target, times: Times, cache_state: CacheState = "cold"
) -> Forecast:
    """Forecast from roofs and the spread of real kernels alone: ``stretch x (floor + roof)``.

    Cold, no time is below the roof itself: small kernels of the tables that are faster ran from the cache.
    """
    launches = int(cost.launches)
    floor, roof = kind.floor(launches), times.largest("mid")
    optimist, pessimist = times.largest("high"), times.largest("low")
    stretch = kind.stretch(roof)[1]
    cold = cache_state == "cold"
    mid = max(stretch * (floor + roof), roof if cold else 0.0)
    factors = (class_factor(kind, roof), *maturity_factor(target))
    late = combine(factors)[1] / combine(factors[:1])[1]
    share = kind.efficiency(roof, launches), f"median of the class {kind.name}: {kind.title}"
    return Forecast(
        basis="specification_only",
        low_s=max(kind.stretch(optimist)[0] * (floor + optimist), optimist if cold else 0.0),
        mid_s=mid,
        high_s=kind.stretch(pessimist)[2] * (floor + pessimist) * late,
        overhead_s=floor,
        factors=factors,
        shares=dict.fromkeys(times.mid, share),
        formula=(
            f"stretch x (floor + roof){', at least the roof' if cold else ''} = "
            f"{stretch:.3g} x ({floor:.3g} s + {roof:.3g} s) = {mid:.3g} s"
        ),
    )


def from_cpu(row: Measurement, share: Efficiency, kind: KernelClass, target: Target, times: Times) -> Forecast:
    """Forecast a GPU's time from a CPU's row.

    The class of kernels decides; the row's efficiency, if it is bound by the same resource, moves the middle by a
    small weight and can only widen the band.
    """
    cost = as_cost(row.cost)
    plain = from_class(cost, kind, target, times, row.cache_state)
    bound = bound_by(times.mid)
    alike = bound is not None and same_resource(share.bound_by, {bound: None}) is not None
    bands = load_table("bands")
    weight = bands["cpu_carry"]["weight"] if alike else 0.0
    measured = min(share.value, bands["efficiency_cap"]["value"])
    prior = kind.efficiency(times.largest("mid"), int(cost.launches))
    above = max(0.0, plain.mid_s - plain.overhead_s)
    mid = plain.mid_s - above + above * (prior / measured) ** weight
    moved = mid / plain.mid_s
    why = f"{prior:.3g} of the class {kind.name} ({kind.title})" + (
        f", moved with weight {weight:g} ({bands['cpu_carry']['origin']}) towards {measured:.3g} measured on the CPU"
        if alike
        else f"; nothing is carried, because the CPU's row is bound by {share.bound_by}"
    )
    return Forecast(
        basis="cpu_to_gpu",
        low_s=plain.low_s * min(1.0, moved),
        mid_s=mid,
        high_s=plain.high_s * max(1.0, moved),
        overhead_s=plain.overhead_s,
        factors=(*plain.factors, basis_factor("cpu_to_gpu")),
        shares=dict.fromkeys(times.mid, (prior ** (1 - weight) * measured**weight, why)),
        formula=(
            f"{plain.formula}; its part above the floor x (prior / measured)^weight = "
            f"({prior:.3g} / {measured:.3g})^{weight:g}: {mid:.3g} s"
        ),
    )


def from_like_device(
    row: Measurement, share: Efficiency, source: Ceilings, target: Target, times: Times, name: BasisName
) -> Forecast:
    """Forecast by efficiency per resource: the overhead stays, the rest goes with the roofs."""
    kind = class_of_operator(row.operator)
    shares = {resource: _share(resource, roof, share, source, kind) for resource, roof in times.mid.items()}
    longest = {case: max((t / shares[n][0] for n, t in getattr(times, case).items()), default=0.0) for case in _CASES}
    bound = max(times.mid, key=lambda n: times.mid[n] / shares[n][0], default=None)
    factors = [basis_factor(name), *maturity_factor(target)]
    factors += interval_factor(share.time_s, row.ci95_low_s, row.ci95_high_s)
    if bound and same_resource(bound, share.shares) != share.bound_by:
        factors.append(class_factor(kind, times.mid[bound]))
    low, high = combine(factors)
    fixed, factor = share.overhead_s, basis(name).time_factor
    mid = fixed + factor * longest["mid"]
    term = f"{times.mid[bound]:.3g} s / {shares[bound][0]:.3g}" if bound else "0 s"
    return Forecast(
        basis=name,
        low_s=low * (fixed + factor * longest["high"]),
        mid_s=mid,
        high_s=high * (fixed + factor * longest["low"]),
        overhead_s=fixed,
        factors=tuple(factors),
        shares=shares,
        formula=f"overhead + factor x roof / efficiency = {fixed:.3g} s + {factor:g} x {term} = {mid:.3g} s",
    )


def _share(resource: str, roof_s: float, share: Efficiency, source: Ceilings, kind: KernelClass) -> tuple[float, str]:
    """Return the efficiency to use on one resource of the target, and where it comes from.

    The resource that bound the row carries its measured efficiency. Of the others only a least value is known, so
    the class of kernels stands in where it says more.
    """
    cap = load_table("bands")["efficiency_cap"]["value"]
    here = same_resource(resource, share.shares)
    if here == share.bound_by:
        return min(cap, share.value), f"measured on {source.title}, bound by {here} there"
    least = share.shares[here] if here else 0.0
    prior = kind.efficiency(roof_s)
    if prior >= least:
        return min(cap, prior), f"median of the class {kind.name}: {kind.title}"
    return min(cap, least), f"at least this on {source.title}"
