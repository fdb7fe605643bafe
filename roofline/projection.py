"""Project measured rows, or bare costs, onto other devices: an interval with its basis and the chain behind it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..kernels.contract import Cost
from ..profiler.schema import Measurement
from .basis import basis_of
from .ceilings import Ceilings
from .efficiency import efficiency
from .forecast import Times, from_class, from_cpu, from_like_device
from .projected import Origin, Projection, write_down
from .roofs import CacheState, as_cost
from .tables import KernelClass, class_of_operator, kernel_class
from .targets import Target, load_target

if TYPE_CHECKING:
    from ..hwprofiles import DeviceProfile, SystemProfile

    TargetLike = str | Target | DeviceProfile | SystemProfile

__all__ = ["Projection", "project", "specification_only"]


def project(
    rows: Sequence[Measurement],
    source: Ceilings,
    targets: Iterable[TargetLike],
    *,
    fastest: bool = True,
    classes: Callable[[str], KernelClass] = class_of_operator,
) -> list[Projection]:
    """Project measured rows onto targets.

    Parameters
    ----------
    rows
        Rows of one device; those that failed, or that no ceiling bounds, are left out.
    source
        The measured ceilings of that device.
    targets
        Names of profiles (a system stands for its GPU), or loaded profiles.
    fastest
        Project only the fastest implementation of each operator, workload and cache state; else every one.
    classes
        The class of kernels of an operator, for projections that stand on one.

    Raises
    ------
    hwprofiles.UnknownProfileError
        If a target has no profile.
    """
    loaded = [load_target(target) for target in targets]
    usable = [row for row in rows if row.status == "ok" and row.device == source.device]
    chosen = _fastest(usable) if fastest else usable
    found = []
    for row in chosen:
        share = efficiency(row, source, usable)
        if share is not None:
            found += [_project_row(Origin(row, source, share), target, classes) for target in loaded]
    return found


def _project_row(start: Origin, target: Target, classes: Callable[[str], KernelClass]) -> Projection:
    row, cost = start.row, as_cost(start.row.cost)
    times = Times.of(cost, target, row.cache_state)
    name = basis_of(start.source, target, times.mid)
    if name == "cpu_to_gpu":
        forecast = from_cpu(row, start.share, classes(row.operator), target, times)
    elif name == "specification_only":
        forecast = from_class(cost, classes(row.operator), target, times, row.cache_state)
    else:
        forecast = from_like_device(row, start.share, start.source, target, times, name)
    return write_down(
        cost, target, row.cache_state, forecast, operator=row.operator, workload=row.workload, start=start
    )


def _fastest(rows: Sequence[Measurement]) -> list[Measurement]:
    best: dict[str, Measurement] = {}
    for row in rows:
        if row.median_s is None:
            continue
        case = f"{row.operator} {sorted(row.workload.items())} {row.cache_state}"
        if case not in best or row.median_s < (best[case].median_s or math.inf):
            best[case] = row
    return list(best.values())


def specification_only(
    cost: Cost | Mapping[str, Any],
    target: TargetLike,
    *,
    operator: str = "",
    operator_class: str | None = None,
    cache_state: CacheState = "cold",
    workload: Mapping[str, Any] | None = None,
) -> Projection:
    """Project a cost onto a target with no measurement of the work: roofs, and the spread of real kernels.

    Parameters
    ----------
    operator
        Name of the operator; it chooses the class of kernels.
    operator_class
        A class of ``roofline/data/kernel_classes.yaml`` instead: ``gemm.bf16``, ``gemm.fp8``,
        ``attention.decode``, ``attention.prefill``, ``moe.experts``, ``streaming``, ``selection`` or ``other``.
    """
    loaded = load_target(target)
    known = as_cost(cost)
    kind = kernel_class(operator_class) if operator_class else class_of_operator(operator)
    forecast = from_class(known, kind, loaded, Times.of(known, loaded, cache_state), cache_state)
    return write_down(known, loaded, cache_state, forecast, operator=operator or kind.name, workload=workload or {})
