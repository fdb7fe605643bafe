"""Lengths of the sequences of a batch: a function of the workload, so that its cost is exact.

The lengths are quantiles of the named distribution, scaled so that the longest is the context; the seed decides only
which sequence has which length.
"""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

from ..contract import require

LENGTHS = ("constant", "uniform", "log_uniform", "lognormal")
LOGNORMAL_SIGMA = 1.0
"""Standard deviation of the logarithm under ``lognormal``; responses of language models are about as skewed."""


def require_lengths(lengths: str, shortest: int, context: int) -> None:
    """Refuse an unknown distribution and an impossible range.

    Raises
    ------
    WorkloadError
        If so; the message names the field.
    """
    require(lengths in LENGTHS, "lengths", lengths, f"choose one of {', '.join(LENGTHS)}")
    require(context >= 1, "context", context, "give at least one key")
    require(context < 2**31, "context", context, "positions are 32-bit; give less than 2**31")
    require(1 <= shortest <= context, "shortest", shortest, f"give 1 to context = {context}")


@cache
def sequence_lengths(lengths: str, batch: int, shortest: int, context: int) -> tuple[int, ...]:
    """Return the lengths in ascending order; the last is ``context``.

    Parameters
    ----------
    lengths
        ``constant``: all are ``context``. ``uniform``: evenly spaced from ``shortest``. ``log_uniform``: evenly
        spaced on a logarithmic axis from ``shortest``. ``lognormal``: quantiles with sigma `LOGNORMAL_SIGMA`, none
        below ``shortest``.
    """
    if lengths == "constant" or batch == 1:
        return (context,) * batch
    steps = [i / (batch - 1) for i in range(batch)]
    if lengths == "uniform":
        return tuple(round(shortest + step * (context - shortest)) for step in steps)
    if lengths == "log_uniform":
        return tuple(round(shortest * (context / shortest) ** step) for step in steps)
    normal = NormalDist(0.0, LOGNORMAL_SIGMA)
    logs = [normal.inv_cdf((i + 0.5) / batch) for i in range(batch)]
    return tuple(max(shortest, round(context * math.exp(log - logs[-1]))) for log in logs)
