"""A case: one operator, workload, implementation, device and cache state; one key, one row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..kernels import Workload, implementation_names, make_workload
from ..kernels.registry import get_implementation, implementation_devices

CacheState = Literal["cold", "warm"]


@dataclass(frozen=True)
class Case:
    """What one measurement row is about.

    Parameters
    ----------
    operator
        Operator name, such as ``attention.decode``.
    workload
        Its shape, precision and data distribution.
    implementation
        Name of the implementation, unique within the operator.
    device
        ``cpu``, ``cuda:0``, ...
    cache_state
        ``cold``: the last-level cache holds none of the inputs when a sample starts; ``warm``: it may.
    """

    operator: str
    workload: Workload
    implementation: str
    device: str = "cpu"
    cache_state: CacheState = "cold"

    @property
    def key(self) -> str:
        """The case's identity in stores and comparisons: equal exactly when the cases are equal."""
        return "|".join((self.operator, self.workload.label(), self.implementation, self.device, self.cache_state))

    @property
    def group(self) -> tuple[str, str, str, str]:
        """What cases that are measured interleaved have in common: all but the implementation."""
        return self.operator, self.workload.label(), self.device, self.cache_state

    def as_dict(self) -> dict[str, Any]:
        """Return the case as plain JSON values."""
        return {
            "operator": self.operator,
            "workload": self.workload.as_dict(),
            "implementation": self.implementation,
            "device": self.device,
            "cache_state": self.cache_state,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Case:
        """Build a case from plain values; the inverse of `as_dict`."""
        workload = make_workload(values["operator"], values["workload"])
        return cls(**{**values, "workload": workload})


def device_kind(device: str) -> str:
    """Return ``cpu`` or ``cuda`` of a device such as ``cuda:0``."""
    return device.split(":", 1)[0]


def runs_on(operator: str, implementation: str, device: str) -> bool:
    """Return whether an implementation runs on a kind of device, without importing a built-in backend."""
    return device_kind(device) in implementation_devices(operator, implementation)


def make_cases(
    items: Iterable[tuple[str, Workload]],
    *,
    device: str = "cpu",
    implementations: Sequence[str] | None = None,
    cache_state: CacheState = "cold",
) -> list[Case]:
    """Return the cases of operators and workloads on one device.

    Parameters
    ----------
    items
        Pairs of operator name and workload, such as a suite.
    implementations
        Names to keep; by default every implementation that runs on the device.

    Raises
    ------
    UnknownNameError
        If a name in ``implementations`` belongs to none of the operators.
    """
    cases = []
    for operator, workload in items:
        if implementations is None:
            names = [n for n in implementation_names(operator) if runs_on(operator, n, device)]
        else:
            names = [n for n in implementations if n in implementation_names(operator)]
        cases += [Case(operator, workload, name, device, cache_state) for name in names]
    for name in implementations or ():
        if all(case.implementation != name for case in cases):
            get_implementation(next(iter(items))[0], name)
    return cases


def group_cases(cases: Iterable[Case]) -> list[list[Case]]:
    """Return cases in groups that are measured interleaved, in order of first appearance."""
    groups: dict[tuple[str, str, str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault(case.group, []).append(case)
    return list(groups.values())
