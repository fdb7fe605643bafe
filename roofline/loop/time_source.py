"""Time of an operator on a system: roofs at attained ceilings, the spread of its class of kernels, and own projections.

The time of one call is ``stretch x (floor + roof)``, where the roof is the largest of compute, memory and
exponentials at the ceilings that the best kernels attain, and floor and stretch are those of the operator's class
(`roofline/data/kernel_classes.yaml`): basis ``specification_only``. Where a run holds a projection of the operator
onto this system, the stretch is multiplied by what that projection says against the class at the projected workload,
and takes the projection's basis and band. Links add on top: bytes over each link plus one latency per hop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..bands import maturity_factor
from ..roofs import able_rates
from ..tables import KernelClass, class_of_operator, kernel_class
from .inputs import Input, Inputs
from .system import System, UnsuitableSystemError
from .work import Array, Operation, Work

_CLASS = {
    "linear.gemm": "gemm.{precision}",
    "linear.head": "gemm.{precision}",
    "sampling.logprob": "streaming",
}
# Work of the loop that is measured under the name of another operator.
_MEASURED_AS = {"linear.head": "linear.gemm"}
_LINKS = {"scaleup": ("link.scaleup", "link.nvlink", "link.pcie"), "nic": ("link.nic",)}
# Used where a profile has no figure; a range this wide shows in every result that depends on it.
_NIC_UNKNOWN = Input(
    "ceiling.link.nic", 12.5e9, 50e9, 100e9, "bytes/s", "no figure in the profile; 100 to 800 Gb/s per GPU assumed"
)


@dataclass(frozen=True)
class OperatorFactor:
    """What a run's projection says of an operator against its class: factors on time, and where they come from."""

    low: float
    mid: float
    high: float
    basis: str
    reference: str
    chain: Mapping[str, Any] = field(default_factory=dict)


class TimeSource:
    """Times of operations on one system.

    Parameters
    ----------
    system
        Where.
    factors
        Projections of the run by operator.
    """

    def __init__(self, system: System, factors: Mapping[str, OperatorFactor] | None = None) -> None:
        self.system = system
        self.factors = dict(factors or {})

    def factor(self, operator: str) -> OperatorFactor | None:
        """Return what was measured of an operator, or of the one that does its work."""
        return self.factors.get(operator) or self.factors.get(_MEASURED_AS.get(operator, ""))

    def inputs(self, operators: Collection[tuple[str, str]], spread: float = 1.0) -> list[Input]:
        """Return the uncertain inputs of (operator, precision) pairs: ceilings and kernel spreads.

        ``spread`` is the share of the way to the 10th and 90th percentile that a framework's kernels stray.
        """
        attained = self.system.target.attained
        made: dict[str, Input] = {}
        used = self._ceilings({precision for _, precision in operators})
        for name, mid in attained["mid"].named.items():
            if name not in used:
                continue
            low, high = attained["low"][name].value, attained["high"][name].value
            made[f"ceiling.{name}"] = Input(
                f"ceiling.{name}",
                min(low, mid.value),
                mid.value,
                max(high, mid.value),
                mid.unit,
                mid.source,
                "specified",
            )
        made.setdefault("ceiling.link.nic", _NIC_UNKNOWN)
        for operator, precision in operators:
            kind = _class(operator, precision)
            own = self.factor(operator)
            name, source = self._spread(operator, kind)
            origin = "measured"
            note = f"position between the 10th and 90th percentile of class {kind.name}" if own is None else own.basis
            # The band of a projection from a CPU is the spread of its class again, so it strays no further.
            reach = spread if own is None or own.basis == "cpu_to_gpu" else 1.0
            made[name] = Input(name, -reach, 0.0, reach, "1", source, origin, note)
        for factor in maturity_factor(self.system.target):
            made["kernel.maturity"] = Input(
                "kernel.maturity", factor.low, 1.0, factor.high, "1", factor.source, factor.origin, factor.note
            )
        return list(made.values())

    def _ceilings(self, precisions: set[str]) -> set[str]:
        """Names of the ceilings that can decide a time; one cause (HBM, a link) is one ceiling."""
        rates = {self._fastest(able_rates(f"matrix.{p}")) for p in {*precisions, "bf16"}}
        links = (next((n for n in names if n in self.system.target.specified), "") for names in _LINKS.values())
        return {"dram.read", "exp.fp32", self._fastest(able_rates("vector.fp32")), *rates, *links}

    def _spread(self, operator: str, kind: KernelClass) -> tuple[str, str]:
        own = self.factor(operator)
        if own is not None:
            return f"projection.{operator}", own.reference
        return f"kernel.{kind.name}", kind.title

    def time(self, operation: Operation, precision: str, inputs: Inputs) -> Array:
        """Return seconds of all calls of an operation: (variants, ...) broadcast with the work's arrays."""
        if operation.operator.startswith("collective."):
            return operation.count * self._link_time(operation.work, inputs)
        kind = _class(operation.operator, precision)
        roof = np.maximum.reduce(np.broadcast_arrays(*self.roofs(operation.work, inputs).values()))
        floor = kind.floor(int(max(1, operation.work.launches)))
        z = inputs(self._spread(operation.operator, kind)[0])
        own = self.factor(operation.operator)
        stretch = _stretch(kind, roof, z) if own is None else _stretch(kind, roof, np.zeros_like(z)) * _own(own, z)
        if "kernel.maturity" in inputs and own is None:
            stretch = stretch * inputs("kernel.maturity")
        return operation.count * stretch * (floor + roof)

    def roofs(self, work: Work, inputs: Inputs) -> dict[str, Array]:
        """Return the least seconds under each ceiling that the work meets."""
        rate: Callable[[str], Array] = lambda name: inputs(f"ceiling.{name}")  # noqa: E731
        made: dict[str, Array] = {}
        for name, count in work.flops.items():
            ceiling = self._fastest(able_rates(name))
            made[ceiling] = made.get(ceiling, 0.0) + count / rate(ceiling)
        made["dram.read"] = (work.read_bytes + work.write_bytes) / rate("dram.read")
        if np.any(np.asarray(work.exponentials) > 0) and "ceiling.exp.fp32" in inputs:
            made["exp.fp32"] = work.exponentials / rate("exp.fp32")
        return made

    def bound_by(self, operation: Operation, inputs: Inputs) -> str:
        """Return the ceiling with the largest roof, at the middle and averaged over the arrays."""
        if operation.operator.startswith("collective."):
            return "link"
        roofs = {
            name: float(np.mean(np.atleast_1d(value)[0])) for name, value in self.roofs(operation.work, inputs).items()
        }
        return max(roofs, key=lambda name: roofs[name])

    def formula(self, operation: Operation, precision: str, inputs: Inputs) -> str:
        """Return how the time of one pass comes about, with mean numbers at the middle in place."""
        if operation.operator.startswith("collective."):
            sent = " + ".join(f"{np.mean(v) / 1e6:.3g} MB over {n}" for n, v in operation.work.link_bytes.items())
            return f"{operation.count:g} calls x ({sent} + latency)"
        kind = _class(operation.operator, precision)
        roof = float(np.max([np.mean(np.atleast_2d(v)[0]) for v in self.roofs(operation.work, inputs).values()]))
        floor = kind.floor(int(max(1, operation.work.launches)))
        stretch = float(_stretch(kind, np.array(roof), np.array(0.0)))
        own = self.factor(operation.operator)
        carried = f" x {own.mid:.3g} carried" if own else ""
        return (
            f"{operation.count:g} calls a pass x stretch {stretch:.3g} of class {kind.name}{carried} "
            f"x (floor {floor:.3g} s + roof {roof:.3g} s), numbers on average"
        )

    def class_title(self, operator: str) -> str:
        """Return the source of an operator's class of kernels, or nothing for a collective."""
        return "" if operator.startswith("collective.") else _class(operator, "bf16").title

    def basis(self, operator: str) -> str:
        """Return the basis of an operator's time."""
        own = self.factor(operator)
        return own.basis if own else "specification_only"

    def peak(self, precision: str) -> float:
        """Return the specified FLOP per second of the fastest rate able to do matrix work of a precision."""
        return self.system.target.specified[self._fastest(able_rates(f"matrix.{precision}"))].value

    def _fastest(self, names: list[str]) -> str:
        best = self.system.target.attained["mid"].best(names)
        if best is None:
            raise UnsuitableSystemError(
                f"{self.system.name}: the profile states no rate for {names[0]}; add it, or choose another precision"
            )
        return best.name

    def _link_time(self, work: Work, inputs: Inputs) -> Array:
        total = np.zeros((inputs.variants, 1))
        for link, sent in work.link_bytes.items():
            name = next((n for n in _LINKS[link] if f"ceiling.{n}" in inputs), "link.nic")
            hops = work.hops.get(link, 0.0)
            total = total + sent / inputs(f"ceiling.{name}") + hops * inputs(f"collective.latency_{link}_s")
        return total

    def link_rate(self, link: str, inputs: Inputs) -> Array:
        """Return bytes per second and GPU of ``scaleup`` or ``nic``."""
        name = next((n for n in _LINKS[link] if f"ceiling.{n}" in inputs), "link.nic")
        return inputs(f"ceiling.{name}")


def _class(operator: str, precision: str) -> KernelClass:
    named = _CLASS.get(operator)
    if named is None:
        return class_of_operator(operator)
    return kernel_class(named.format(precision="bf16" if precision in ("bf16", "fp16", "fp32") else "fp8"))


def _stretch(kind: KernelClass, roof: Array, z: Array) -> Array:
    """Percentile of t / (floor + roof): z = -1 the 10th, 0 the median, 1 the 90th; log-linear between."""
    at = np.log(np.maximum(roof, 1e-12))
    low, mid, high = (np.interp(at, kind.log_roof, [node[i] for node in kind.log_stretch]) for i in range(3))
    return np.exp(mid + np.where(z > 0, z * (high - mid), z * (mid - low)))


def _own(factor: OperatorFactor, z: Array) -> Array:
    up, down = np.log(factor.high / factor.mid), np.log(factor.mid / factor.low)
    return factor.mid * np.exp(np.where(z > 0, z * up, z * down))
