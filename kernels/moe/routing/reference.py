"""moe.routing in float64, and what counts as equal to it.

Selection is defined on exact scores. Model code takes it from rounded ones (softmax in fp32, then ``topk``), so a
choice may differ where the exact scores lie within a few roundings of each other: `LOGIT_TOLERANCE` and
`SCORE_TOLERANCE`. Between experts of equal score any order is accepted, since ``torch.topk`` promises none. The Numba
and Triton kernels select on the logits themselves, the lowest expert among equals, and are tested for exactly that.
Weights are compared at the experts that were chosen, and the permutation must be exactly that of the choices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...contract import Arrays, Check, Inputs
from ...precision import compare_floats, tolerance, widen

if TYPE_CHECKING:
    from .operator import Routing

SIGMOID_EPSILON = 1e-20
"""What DeepSeek-V3 adds to the sum of sigmoid weights before it divides."""
LOGIT_TOLERANCE = 2.0**-22
"""Difference of logits that a softmax in fp32 may lose, times the distance to the token's largest logit (1 or more)."""
SCORE_TOLERANCE = 2.0**-20
"""Rounding allowed in a score ``sigmoid(x) + bias``, times ``1 + max |bias|``: 16 roundings of fp32."""
_LOWEST = np.finfo(np.float64).min / 4  # two of them still add up to a finite number

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[Any]


def gates_and_scores(inputs: Inputs) -> tuple[Floats, Floats]:
    """Return the gate values ``[tokens, experts]`` that weights are made of, and the scores that are selected on.

    For softmax gates both are the logits.
    """
    w: Any = inputs.workload
    x = widen(inputs.arrays["logits"]).astype(np.float64)
    undefined = np.isnan(x)
    x[undefined] = -np.inf
    if w.gate != "sigmoid":
        return x, x
    with np.errstate(over="ignore"):
        gates = 1.0 / (1.0 + np.exp(-x))
    scores = gates + inputs.arrays["bias"].astype(np.float64)
    scores[undefined] = _LOWEST
    return gates, scores


def _best(scores: Floats, count: int) -> Ints:
    return np.argsort(-scores, axis=1, kind="stable")[:, :count]


def group_scores(scores: Floats, groups: int) -> Floats:
    """Return the sum of the two largest scores of each group, ``[tokens, groups]``."""
    by_group = scores.reshape(scores.shape[0], groups, -1)
    count = min(2, by_group.shape[2])
    return -np.partition(-by_group, count - 1, axis=2)[:, :, :count].sum(axis=2)


def select(scores: Floats, w: Routing) -> Ints:
    """Return the chosen experts ``[tokens, top_k]``, best first, the lowest first among equals."""
    if w.groups > 1:
        kept = _best(group_scores(scores, w.groups), w.groups_kept)
        outside = np.ones((scores.shape[0], w.groups), bool)
        np.put_along_axis(outside, kept, False, axis=1)
        scores = np.where(np.repeat(outside, w.experts // w.groups, axis=1), -np.inf, scores)
    return _best(scores, w.top_k)


def weights_of(gates: Floats, experts: Ints, w: Routing) -> Floats:
    """Return the weights of chosen experts, ``[tokens, top_k]``."""
    chosen = np.take_along_axis(gates, experts.astype(np.int64), axis=1)
    if w.gate == "sigmoid":
        weights = chosen / (chosen.sum(1, keepdims=True) + SIGMOID_EPSILON) if w.renormalize else chosen
    else:
        with np.errstate(invalid="ignore"):
            top = gates.max(1, keepdims=True)
            weights = np.exp(chosen - top)
            over = weights if w.renormalize or w.gate == "softmax_after_topk" else np.exp(gates - top)
            weights = weights / over.sum(1, keepdims=True)
    return weights * w.scale


def permutation(experts: Ints, w: Routing) -> Arrays:
    """Return counts, offsets, source and (with ``block`` above 1) block_expert of given choices, all int32."""
    flat = experts.reshape(-1)
    counts = np.bincount(flat, minlength=w.experts)
    padded = -(-counts // w.block) * w.block
    offsets = np.concatenate([[0], np.cumsum(padded)])
    source = np.full(w.capacity, w.slots, np.int32)
    order = np.argsort(flat, kind="stable")
    begin = np.cumsum(counts) - counts
    source[offsets[flat[order]] + np.arange(w.slots) - begin[flat[order]]] = order
    out: Arrays = {"counts": counts.astype(np.int32), "offsets": offsets.astype(np.int32), "source": source}
    if w.block > 1:
        out["block_expert"] = np.full(w.capacity // w.block, -1, np.int32)
        out["block_expert"][: offsets[-1] // w.block] = np.repeat(np.arange(w.experts), padded // w.block)
    return out


def reference(inputs: Inputs) -> Arrays:
    """Compute the outputs in float64."""
    w: Any = inputs.workload
    gates, scores = gates_and_scores(inputs)
    experts = select(scores, w)
    out: Arrays = {"weights": weights_of(gates, experts, w), "experts": experts.astype(np.int32)}
    return out | permutation(experts, w)


def _is_selection(scores: Floats, chosen: Ints, w: Routing, slack: float) -> bool:
    """Return whether the choices of one token are its best within a slack, for some choice of groups within it."""
    size = w.experts // w.groups
    by_group = group_scores(scores[None], w.groups)[0]
    limit = np.sort(by_group)[::-1][w.groups_kept - 1]
    kept = set(np.flatnonzero(by_group > limit + 2 * slack).tolist()) | set((chosen // size).tolist())
    allowed = set(np.flatnonzero(by_group >= limit - 2 * slack).tolist())
    if len(kept) > w.groups_kept or not kept <= allowed:
        return False
    # The groups left open are the choosers' to pick: those that compete least.
    by_best = sorted(allowed - kept, key=lambda g: scores[g * size : (g + 1) * size].max())
    kept |= set(by_best[: w.groups_kept - len(kept)])
    rivals = np.isin(np.arange(w.experts) // size, list(kept))
    rivals[chosen] = False
    most = scores[rivals].max(initial=-np.inf)
    descending = bool(np.all(scores[chosen][:-1] >= scores[chosen][1:] - slack))
    return descending and bool(scores[chosen].min() >= most - slack)


def _same_logits(got: Floats, want: Floats, top: float) -> bool:
    with np.errstate(invalid="ignore"):
        near = np.abs(got - want) <= LOGIT_TOLERANCE * np.maximum(top - want, 1.0)
    return bool(np.all(near | (got == want)))


def _check_selection(got: Ints, want: Ints, scores: Floats, inputs: Inputs) -> str:
    w: Any = inputs.workload
    if got.shape != want.shape or got.dtype.kind not in "iu":
        return f"experts: {got.dtype} of shape {got.shape}, expected integers of shape {want.shape}"
    for t in np.flatnonzero((got != want).any(1)):
        chosen = got[t].astype(np.int64)
        sound = bool(np.all((chosen >= 0) & (chosen < w.experts))) and np.unique(chosen).size == w.top_k
        if sound and w.gate == "sigmoid":
            slack = SCORE_TOLERANCE * (1 + float(np.abs(inputs.arrays["bias"]).max()))
            sound = _is_selection(scores[t], chosen, w, slack)
        elif sound:
            sound = _same_logits(scores[t, chosen], scores[t, want[t]], float(scores[t].max()))
        if not sound:
            return f"experts[{t}]: {got[t].tolist()}, expected {want[t].tolist()}"
    return ""


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Compare selection, weights and permutation as the module says."""
    w: Any = inputs.workload
    for name in expected:
        if name not in output:
            return Check(False, np.inf, f"output {name!r} is missing")
    gates, scores = gates_and_scores(inputs)
    experts = np.asarray(output["experts"])
    if message := _check_selection(experts, expected["experts"], scores, inputs):
        return Check(False, np.inf, message)
    for name, want in permutation(experts, w).items():
        got = np.asarray(output[name])
        if got.shape != want.shape:
            return Check(False, np.inf, f"{name}: shape {got.shape}, expected {want.shape}")
        wrong = np.flatnonzero(got != want)
        if wrong.size:
            i = int(wrong[0])
            return Check(
                False, np.inf, f"{name}[{i}]: {got[i]}, expected {want[i]} ({wrong.size} of {want.size} differ)"
            )
    # Below a thousandth of the largest possible weight the error counts in units of that thousandth.
    wanted = {"weights": weights_of(gates, experts, w)}
    return compare_floats(output, wanted, tolerance("fp32", w.experts), {"weights": 1e-3 * w.scale})
