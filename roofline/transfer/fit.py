"""Fit the exponents of a transfer on pairs of GPUs, every kernel group counting once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from .lessons import Lesson
from .model import Parameters, carry

if TYPE_CHECKING:
    import pandas as pd

_EXPONENTS = (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.9)
# A class's own errors are mixed with those of all classes as if these gave so many groups.
_PRIOR_GROUPS = 20.0


def trial_errors(taught: Iterable[Lesson]) -> pd.DataFrame:
    """Return the median absolute error of every group and pair under every exponent tried.

    Columns ``source``, ``target``, ``operator_class``, ``group``, ``exponent``, ``error``.
    """
    import pandas as pd

    tried = []
    for lesson in taught:
        for exponent in _EXPONENTS:
            error = _group_errors(lesson, Parameters(exponent={"other": exponent}))
            tried.append(error.assign(source=lesson.source, target=lesson.target, exponent=exponent))
    return pd.concat(tried, ignore_index=True) if tried else pd.DataFrame()


def fit(errors: Any, pairs: Collection[tuple[str, str]]) -> Parameters:
    """Return the parameters whose median errors, averaged over the groups of some pairs, are least.

    A class of operators takes the exponent that is best for its groups together with a share of all groups, so that a
    class with few groups stays near the common value.

    Parameters
    ----------
    errors
        From `trial_errors`.
    pairs
        The pairs that take part.
    """
    if errors.empty:
        return Parameters()
    wanted = {f"{a}>{b}" for a, b in pairs}
    errors = errors[(errors["source"] + ">" + errors["target"]).isin(wanted)]
    if errors.empty:
        return Parameters()
    overall = errors.groupby("exponent")["error"].mean()
    chosen = {"other": float(overall.idxmin())}
    for name, own in errors.groupby("operator_class"):
        count = len(own) / len(_EXPONENTS)
        mixed = (count * own.groupby("exponent")["error"].mean() + _PRIOR_GROUPS * overall) / (count + _PRIOR_GROUPS)
        chosen[str(name)] = float(mixed.idxmin())
    return Parameters(exponent=chosen)


def _group_errors(lesson: Lesson, parameters: Parameters) -> pd.DataFrame:
    import pandas as pd

    rows = lesson.rows
    found = carry(rows, rows["overhead_s"].to_numpy(), *lesson.speeds, parameters)
    error = np.abs(found.time_s / rows["target_s"].to_numpy() - 1)
    frame: Any = pd.DataFrame(
        {"operator_class": rows["operator_class"].astype(str), "group": rows["group"], "error": error}
    )
    return frame.groupby(["operator_class", "group"], as_index=False)["error"].median()
