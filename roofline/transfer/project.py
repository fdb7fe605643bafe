"""Project the measured kernels of a real GPU onto devices that are not at hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..bands import maturity_factor
from ..silicon import import_gpu, silicon_gpu
from ..targets import Target, load_target
from .anchor_file import apply_anchors, read_anchors
from .backtest import NothingInCommonError
from .calibration import Calibration
from .device import Speeds, speeds_of
from .model import carry, overheads
from .pairs import gpu_speeds
from .predict import predict
from .shipped import calibration_for
from .terms import RESOURCES, Array

if TYPE_CHECKING:
    import pandas as pd

_KEPT = ("operator", "operator_class", "framework", "version", "kernel", "precision", "workload", "group")


def project_silicon(
    gpu: str, targets: Sequence[Any], *, operator: str | None = None, anchors: Path | None = None
) -> pd.DataFrame:
    """Project every measured row of a GPU onto targets.

    Parameters
    ----------
    gpu
        A GPU of the tables, such as ``h200``.
    targets
        Names of profiles; a system stands for its GPU.
    operator
        Only this operator, such as ``attention.decode``.
    anchors
        A file of measurements on the target (`anchor_file.read_anchors`); only with one target.

    Returns
    -------
    One line per row and target: what it is, ``source_s``, ``low_s``, ``mid_s``, ``high_s``, ``overhead_s``,
    ``efficiency`` (share of the datasheet roof on the source), ``bound_by``, ``basis``, ``anchors``.

    Raises
    ------
    UnknownGpuError, SiliconMissingError, hwprofiles.UnknownProfileError
        As `import_gpu` and `load_target`.
    NothingInCommonError
        If the GPU has no row of that operator.
    """
    import pandas as pd

    name = silicon_gpu(gpu).name
    rows = import_gpu(name).rows
    if operator is not None:
        known = sorted(rows["operator"].astype(str).unique())
        rows = rows[(rows["operator"] == operator) | (rows["operator_class"] == operator)]
        if rows.empty:
            raise NothingInCommonError(f"{name} has no row of {operator!r}; its operators: {', '.join(known)}")
    rows = rows.reset_index(drop=True)
    rows = rows.assign(overhead_s=overheads(rows))
    loaded = [load_target(target) for target in targets]
    if anchors is not None and len(loaded) != 1:
        raise AnchorTargetError(f"{anchors}: anchors belong to one target, and {len(loaded)} are asked for")
    measured = read_anchors(anchors) if anchors is not None else None
    return pd.concat([project_rows(rows, gpu_speeds(name), target, measured) for target in loaded], ignore_index=True)


class AnchorTargetError(ValueError):
    """Anchors given with more than one target."""


def project_rows(
    rows: pd.DataFrame, source: Speeds, target: Target, anchors: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Project rows of one device onto one target; the target's range of specifications widens the band."""
    there = speeds_of(target)
    calibration = calibration_for(there)
    found = predict(rows, source, there, calibration)
    best, worst = (_ends(rows, source, target, case, calibration) for case in ("high", "low"))
    mid = found.mid_s
    low, high = found.low_s * best / mid, found.high_s * worst / mid
    for factor in maturity_factor(target):
        # Independent reasons: their logarithms add in squares, as in `bands.combine`.
        high = mid * np.exp(np.hypot(np.log(high / mid), np.log(factor.high)))
    used = np.zeros(len(rows), dtype=int)
    if anchors is not None:
        low, mid, high, used = apply_anchors(rows, found, (low, high), anchors, calibration)
    made = rows[list(_KEPT)].copy()
    largest = found.carried.terms_target_s.argmax(axis=1)
    named = np.array(RESOURCES)[largest]
    fixed = found.carried.overhead_s > 0.5 * found.mid_s
    return made.assign(
        target=target.name,
        source_s=rows["time_s"].to_numpy(),
        low_s=low,
        mid_s=mid,
        high_s=high,
        overhead_s=found.carried.overhead_s,
        efficiency=found.carried.efficiency,
        bound_by=np.where(fixed, "overhead", named),
        basis=found.basis,
        anchors=used,
    )


def _ends(rows: pd.DataFrame, source: Speeds, target: Target, case: str, calibration: Calibration) -> Array:
    """Return the middle times at one end of the specifications."""
    there = speeds_of(target, case)
    return carry(rows, rows["overhead_s"].to_numpy(), source, there, calibration.parameters).time_s
