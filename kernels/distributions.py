"""How tokens spread over experts: the skew of routing, and how many experts it touches.

Every expert has a popularity ``p`` (they sum to 1). Router logits are ``log(p) + g`` with ``g`` drawn from the standard
Gumbel distribution, so that the ``top_k`` largest logits of a token are ``top_k`` experts drawn one after another
without replacement in proportion to ``p`` (Yellott 1977, The relationship between Luce's choice axiom, Thurstone's
theory of comparative judgment, and the double exponential distribution).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .contract import require

SKEWS = ("uniform", "zipf", "hot")
HOT_SHARE = 0.9
"""Share of the popularity that the hot experts of ``hot`` hold together."""
_DEFAULT_PARAMETER = {"uniform": 0.0, "zipf": 1.0, "hot": 4.0}
# Nodes of the quadrature: doubling them moves no tested figure by 1e-4.
_NODES = 200

Floats = npt.NDArray[np.float64]


def checked_skew(skew: str, parameter: float | None, experts: int) -> float:
    """Return the parameter of a skew, or its default, after checking both.

    ``uniform`` takes 0, ``zipf`` the exponent alpha (default 1), ``hot`` the number of hot experts (default 4, or all
    but one of fewer).

    Raises
    ------
    WorkloadError
        If the skew is unknown or the parameter is out of its range.
    """
    require(skew in SKEWS, "skew", skew, f"choose one of {', '.join(SKEWS)}")
    if parameter is None:
        default = _DEFAULT_PARAMETER[skew]
        return float(min(default, max(experts - 1, 1))) if skew == "hot" else default
    value = float(parameter)
    if skew == "uniform":
        require(value == 0.0, "skew_parameter", parameter, "uniform has none; leave it out")
    elif skew == "zipf":
        require(0.0 < value <= 8.0, "skew_parameter", parameter, "give zipf's exponent, above 0 and at most 8")
    else:
        whole = value.is_integer() and 1 <= value <= experts
        require(whole, "skew_parameter", parameter, f"give the number of hot experts, 1 to {experts}")
    return value


def popularity(experts: int, skew: str, parameter: float | None = None) -> Floats:
    """Return the popularity of each expert, most popular first, shape ``[experts]``.

    ``uniform``: all equal. ``zipf``: proportional to ``1 / rank**alpha``. ``hot``: the hot experts share `HOT_SHARE`
    evenly, the others the rest.
    """
    value = checked_skew(skew, parameter, experts)
    if skew == "zipf":
        weight = np.arange(1, experts + 1, dtype=np.float64) ** -value
    else:
        weight = np.ones(experts)
        hot = int(value)
        if 0 < hot < experts:
            weight[:hot] = HOT_SHARE / hot
            weight[hot:] = (1 - HOT_SHARE) / (experts - hot)
    return weight / weight.sum()


def draw_logits(rng: np.random.Generator, tokens: int, p: Floats) -> npt.NDArray[np.float32]:
    """Draw router logits ``[tokens, experts]`` under popularities by rank; which expert has which is drawn too."""
    offset = np.log(rng.permutation(p) * p.size).astype(np.float32)
    logits = rng.standard_exponential((tokens, p.size), dtype=np.float32)
    # An exponential variate of 0 would make an infinite logit.
    np.maximum(logits, np.finfo(np.float32).tiny, out=logits)
    np.log(logits, out=logits)
    np.subtract(offset, logits, out=logits)
    return logits


def draw_choices(
    rng: np.random.Generator, tokens: int, experts: int, top_k: int, skew: str, parameter: float | None
) -> npt.NDArray[np.int64]:
    """Draw the experts of tokens under a skew, ``[tokens, top_k]``, in no order."""
    logits = draw_logits(rng, tokens, popularity(experts, skew, parameter))
    return np.argpartition(-logits, top_k - 1, axis=1)[:, :top_k]


def _append(counts: Floats, arrived: Floats) -> Floats:
    """Return the distribution of a count (cut off at its last entry) after one more independent arrival."""
    after = counts * (1 - arrived[:, None])
    after[:, 1:] += counts[:, :-1] * arrived[:, None]
    return after


@lru_cache(maxsize=256)
def _inclusion(p: tuple[float, ...], top_k: int) -> Any:
    weight = np.asarray(p)
    experts = weight.size
    if top_k >= experts:
        return np.ones(experts)
    # Expert e arrives at an exponential time of rate p[e]; the first top_k arrivals are chosen. Integrate over the
    # logarithm of e's time the chance that fewer than top_k others came before.
    t = np.exp(np.linspace(np.log(1e-7 / weight.max()), np.log(40.0 / weight.min()), _NODES))
    arrived = -np.expm1(-weight[:, None] * t)
    suffix = np.zeros((experts + 1, _NODES, top_k))
    suffix[experts, :, 0] = 1.0
    for e in range(experts - 1, -1, -1):
        suffix[e] = _append(suffix[e + 1], arrived[e])
    prefix = np.zeros((_NODES, top_k))
    prefix[:, 0] = 1.0
    chance = np.empty(experts)
    for e in range(experts):
        fewer = np.sum(prefix * np.cumsum(suffix[e + 1], axis=1)[:, ::-1], axis=1)
        chance[e] = np.sum(fewer * weight[e] * t * np.exp(-weight[e] * t))
        prefix = _append(prefix, arrived[e])
    return np.minimum(chance * (top_k / chance.sum()), 1.0)


def inclusion(p: Floats, top_k: int) -> Floats:
    """Return the probability that a token chooses each expert; they sum to ``top_k``."""
    if np.all(p == p[0]):
        return np.full(p.size, min(top_k / p.size, 1.0))
    return _inclusion(tuple(p.tolist()), top_k).copy()


def expected_touched(tokens: int, experts: int, top_k: int, skew: str, parameter: float | None = None) -> float:
    """Return the expected number of experts that at least one of so many tokens chooses.

    Tokens choose independently: ``sum(1 - (1 - inclusion)**tokens)``.
    """
    chance = inclusion(popularity(experts, skew, parameter), top_k)
    return float(np.sum(1.0 - (1.0 - chance) ** tokens))
