"""Project the measured kernels of one GPU onto another that was measured too, and compare."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..silicon import import_gpu, silicon_gpu
from .calibration import Calibration, calibrate
from .pairs import LEAST_SHAPES, TransferBasis, gpu_speeds, matched
from .predict import Predicted, predict, with_anchors
from .score import score, worst_groups
from .terms import terms

if TYPE_CHECKING:
    import pandas as pd


class NothingInCommonError(ValueError):
    """Two GPUs, or a choice of operators, without a kernel that both measured."""


@dataclass(frozen=True)
class Backtest:
    """The outcome on one pair of GPUs.

    Parameters
    ----------
    rows
        One line per operator class and one for ``all``, see `score`.
    baselines
        The same for ``datasheet roof`` (the largest term alone) and ``plain carry`` (time x roof over roof), without
        bands.
    worst
        The groups with the largest errors.
    """

    source: str
    target: str
    basis: TransferBasis
    anchors: int
    rows: list[dict[str, Any]]
    baselines: dict[str, list[dict[str, Any]]]
    worst: list[dict[str, Any]]
    calibration: Calibration
    matched: pd.DataFrame
    predicted: Predicted


def backtest(source: str, target: str, *, operator: str | None = None, anchors: int = 0) -> Backtest:
    """Project ``source`` onto ``target`` with what other GPUs taught, and score it.

    Parameters
    ----------
    operator
        Only this operator or class, such as ``attention.decode``.
    anchors
        Measurements of each kernel on the target that the projection may look at; they are not scored.

    Raises
    ------
    UnknownGpuError, SiliconMissingError
        As `import_gpu`.
    NothingInCommonError
        If no kernel was measured on both.
    """
    here, there = silicon_gpu(source), silicon_gpu(target)
    if here == there:
        raise NothingInCommonError(f"--pair {source}:{target}: give two different GPUs")
    both = matched(here.name, there.name)
    if operator is not None and len(both):
        both = both[(both["operator"] == operator) | (both["operator_class"] == operator)].reset_index(drop=True)
    if both.empty:
        raise NothingInCommonError(_nothing(here.name, there.name, operator))
    calibration = calibrate(there.family)
    speeds = gpu_speeds(here.name), gpu_speeds(there.name)
    found = predict(both, *speeds, calibration)
    measured = both["target_s"].to_numpy()
    if anchors:
        found = with_anchors(both, found, calibration, anchors, measured)
    kept = ~found.anchored
    scored, time = both[kept], measured[kept]
    plain = terms(both, speeds[0], cached=False).max(axis=1), terms(both, speeds[1], cached=False).max(axis=1)
    carried = both["time_s"].to_numpy() * plain[1] / plain[0]
    return Backtest(
        source=here.name,
        target=there.name,
        basis=found.basis,
        anchors=anchors,
        rows=score(scored, time, found.mid_s[kept], found.low_s[kept], found.high_s[kept]),
        baselines={
            "datasheet roof": score(scored, time, plain[1][kept]),
            "plain carry": score(scored, time, carried[kept]),
        },
        worst=worst_groups(scored, time, found.mid_s[kept]),
        calibration=calibration,
        matched=both,
        predicted=found,
    )


def _nothing(source: str, target: str, operator: str | None) -> str:
    known = sorted(
        set(import_gpu(source).rows["operator"].unique()) & set(import_gpu(target).rows["operator"].unique())
    )
    what = f"of {operator} " if operator else ""
    return (
        f"no kernel {what}was measured like for like on {source} and {target}, with at least {LEAST_SHAPES} shapes; "
        f"operators that both have: {', '.join(known) or 'none'}"
    )


def noise_floor(gpu: str) -> list[dict[str, Any]]:
    """Return, by class, how far the same kernel and shape differ between two software versions on one GPU.

    What no projection can be expected to beat. Columns as `score`; a group is one kernel between two versions that
    follow each other.
    """
    import pandas as pd

    rows = import_gpu(gpu).rows
    keys = ["operator", "operator_class", "framework", "kernel", "precision", "workload"]
    rows = rows.assign(**{name: rows[name].astype(str) for name in [*keys, "version"]})
    parts = []
    for key, own in rows.groupby(["operator", "framework", "kernel", "precision"]):
        versions = sorted(own["version"].unique(), key=_version_order)
        for old, new in pairwise(versions):
            pair = pd.merge(
                own[own["version"] == old], own[own["version"] == new][["workload", "time_s"]],
                on="workload", suffixes=("", "_new"),
            )  # fmt: skip
            if len(pair) >= LEAST_SHAPES:
                parts.append(pair.assign(group=" | ".join([*map(str, key), f"{old} to {new}"])))
    if not parts:
        return []
    both = pd.concat(parts, ignore_index=True)
    return score(both, both["time_s_new"].to_numpy(), both["time_s"].to_numpy())


def _version_order(version: str) -> list[tuple[int, str]]:
    return [(int(number or 0), text) for number, text in re.findall(r"(\d+)|([a-z]+)", version)]
