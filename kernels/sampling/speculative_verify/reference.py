"""The float64 definition of sampling.speculative_verify, and the comparison with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ...contract import Arrays, Check, Inputs
from ...precision import tolerance
from ..philox import random_words, to_uniform

UNIT = 2.0**58
"""What a probability of 1 weighs in the whole-number weights of the kernels."""


def uniforms(arrays: Arrays, nodes: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the numbers ``[batch, nodes]`` that accept nodes, and ``[batch]`` those that draw the last token."""
    seed, offset = arrays["seed"][:, None], arrays["offset"][:, None] + np.arange(nodes + 1)
    words = random_words(seed, offset)
    last = (words[:, 0, 0].astype(np.float64) + words[:, 0, 1] * 2.0**-32) * 2.0**-32
    return to_uniform(words[:, 1:, 0]), last


@dataclass
class Outcome:
    """Accepted tokens, the last position, the drawn token, and what a followed outcome did wrong."""

    tokens: list[int] = field(default_factory=list)
    node: int = 0
    drawn: int = -1
    fault: str = ""


def _ancestors(node: int, branches: int) -> set[int]:
    path = set()
    while node > 0:
        path.add(node)
        node = (node - 1) // branches
    return path


def _last(p: Any, u: float, follow: tuple[int, int] | None, relative: float) -> tuple[int, str]:
    if np.isnan(p).any() or not p.sum() > 0:
        return -1, "" if follow is None or follow[1] == -1 else f"token {follow[1]} drawn where nothing can be"
    cumulative = np.cumsum(p) / p.sum()
    if follow is None:
        return int(np.searchsorted(cumulative, min(u, 1 - 2**-53), side="right")), ""
    token = follow[1]
    if not 0 <= token < p.size:
        return token, f"token {token} is outside the vocabulary"
    low, high = cumulative[token] - p[token] / p.sum() - relative, cumulative[token] + relative
    return token, "" if low <= u <= high else f"token {token} is not where the uniform number {u:.9g} falls"


def verify(
    arrays: Arrays, i: int, branches: int, accept: Any, last: float, follow: tuple[int, int] | None, relative: float
) -> Outcome:
    """Verify one sequence by the definition; every residual is computed from the one before.

    With ``follow``, the last position and drawn token of another outcome, its decisions are taken wherever a uniform
    number lies within ``relative`` of what decides, and the first one that cannot be taken is named.
    """
    outcome = Outcome()
    path = set() if follow is None else _ancestors(follow[0], branches)
    target, draft = arrays["target"][i], arrays["draft"][i]
    while True:
        p = target[outcome.node].astype(np.float64)
        chosen = 0
        if outcome.node < len(draft):
            q = draft[outcome.node].astype(np.float64)
            for node in range(branches * outcome.node + 1, branches * (outcome.node + 1) + 1):
                x, u = int(arrays["token"][i, node - 1]), float(accept[node - 1])
                accepted = bool(u * q[x] < p[x])
                if follow is not None and accepted != (node in path):
                    if not abs(u * q[x] - p[x]) <= relative * max(q[x], p[x]):
                        outcome.fault = f"node {node} is {'' if accepted else 'not '}to be accepted"
                        return outcome
                    accepted = not accepted
                if accepted:
                    chosen = node
                    outcome.tokens.append(x)
                    break
                rest = np.maximum(p - q, 0.0)
                p = rest / rest.sum() if rest.sum() > 0 else p
        if chosen == 0:
            outcome.drawn, outcome.fault = _last(p, last, follow, relative)
            return outcome
        outcome.node = chosen


def reference(inputs: Inputs) -> Arrays:
    """Verify every sequence in float64."""
    arrays, w = inputs.arrays, inputs.workload.as_dict()
    accept, last = uniforms(arrays, arrays["token"].shape[1])
    batch = len(last)
    accepted, node = np.zeros(batch, np.int32), np.zeros(batch, np.int32)
    token = np.full((batch, w["draft_length"] + 1), -1, np.int32)
    for i in range(batch):
        outcome = verify(arrays, i, w["branches"], accept[i], float(last[i]), None, 0.0)
        accepted[i], node[i] = len(outcome.tokens), outcome.node
        token[i, : len(outcome.tokens) + 1] = [*outcome.tokens, outcome.drawn]
    return {"accepted": accepted, "node": node, "token": token}


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Require the outcome of the definition.

    Another is right if each decision in which it differs hangs on a uniform number within the rounding of an fp32 sum
    over the vocabulary.
    """
    for name, want in expected.items():
        if name not in output:
            return Check(False, np.inf, f"output {name!r} is missing")
        if np.shape(output[name]) != want.shape:
            return Check(False, np.inf, f"{name}: shape {np.shape(output[name])}, expected {want.shape}")
    got = {name: np.asarray(output[name]) for name in expected}
    differs = (got["token"] != expected["token"]).any(1)
    differs |= (got["node"] != expected["node"]) | (got["accepted"] != expected["accepted"])
    branches = inputs.workload.as_dict()["branches"]
    relative = tolerance("fp32", inputs.arrays["target"].shape[2])
    accept, last = uniforms(inputs.arrays, inputs.arrays["token"].shape[1])
    for i in np.flatnonzero(differs):
        count, node = int(got["accepted"][i]), int(got["node"][i])
        width = got["token"].shape[1]
        if not (0 <= count < width and 0 <= node < inputs.arrays["target"].shape[1]):
            return Check(False, np.inf, f"sequence {i}: {count} accepted up to node {node} is impossible")
        follow = node, int(got["token"][i, count])
        outcome = verify(inputs.arrays, int(i), branches, accept[i], float(last[i]), follow, relative)
        told = [*outcome.tokens, outcome.drawn, *[-1] * (width - len(outcome.tokens) - 1)]
        if outcome.fault or outcome.node != node or got["token"][i].tolist() != told:
            fault = outcome.fault or f"tokens {got['token'][i].tolist()}, expected {told}"
            return Check(False, np.inf, f"sequence {i}: {fault}")
    return Check(True, 0.0)
