"""Log-probability of the chosen token, and the entropy of the distribution it was drawn from.

With logits ``x`` of one row and temperature ``T``::

    logprob = x[token] / T - log(sum(exp(x / T)))
    entropy = -sum(p * log(p))          p = softmax(x / T), in nats, 0 log 0 = 0

A row that defines no distribution, because it holds a NaN or +inf or nothing but -inf, gives NaN for every float
output and token -1. A token whose logit is -inf has logprob -inf. ``|logit| / T`` has to stay below 1e38.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...contract import Arrays, Check, Cost, Inputs, Operator, Workload, require
from ...precision import BYTES, compare_floats, store, tolerance, widen

LOGITS = ("normal", "peaked", "flat")
TOP_N_MOST = 64
_SCALE_MOST = 100.0


@dataclass(frozen=True)
class Logprob(Workload):
    """Rows of logits, one per generated token.

    Parameters
    ----------
    rows
        Number of rows: tokens whose logprob is wanted.
    vocab
        Logits per row.
    precision
        Storage of the logits, ``fp32`` or ``bf16``; sums and outputs are fp32.
    temperature
        What logits are divided by.
    entropy
        Whether the entropy is wanted too.
    logits
        Distribution: ``normal`` (standard deviation 2.5), ``peaked`` (one token holds nearly all probability),
        ``flat`` (standard deviation 0.01).
    top_n
        How many of the most probable tokens to list with their logprobs, best first, lowest token first among
        equals. Tokens of probability 0 are not listed: their place holds token -1 and logprob -inf.
    rows_per_sequence
        Consecutive rows that form a sequence; if above 1, the sum of logprobs per sequence is an output too.
    """

    operator: ClassVar[str] = "sampling.logprob"

    rows: int = 64
    vocab: int = 151_936
    precision: str = "fp32"
    temperature: float = 1.0
    entropy: bool = True
    logits: str = "normal"
    top_n: int = 0
    rows_per_sequence: int = 1

    def __post_init__(self) -> None:
        require(self.rows >= 1, "rows", self.rows, "give at least one row")
        require(self.vocab >= 1, "vocab", self.vocab, "give at least one token")
        require(self.vocab < 2**31, "vocab", self.vocab, "token numbers are 32-bit; give less than 2**31")
        require(self.precision in ("fp32", "bf16"), "precision", self.precision, "choose fp32 or bf16")
        positive = np.isfinite(self.temperature) and self.temperature >= 1e-3
        require(bool(positive), "temperature", self.temperature, "give a finite number of 0.001 or more")
        require(self.logits in LOGITS, "logits", self.logits, f"choose one of {', '.join(LOGITS)}")
        most = min(self.vocab, TOP_N_MOST)
        require(0 <= self.top_n <= most, "top_n", self.top_n, f"give 0 to {most} (at most the vocabulary, and 64)")
        divides = self.rows_per_sequence >= 1 and self.rows % self.rows_per_sequence == 0
        require(divides, "rows_per_sequence", self.rows_per_sequence, f"give a divisor of rows = {self.rows}")


def cost(workload: Logprob) -> Cost:
    """Count the work: logits read once, one exponential per logit.

    Per logit a maximum, a subtraction, a scaling and an addition, and with entropy a fused multiply-add.
    """
    w = workload
    elements = float(w.rows) * w.vocab
    outputs = 4 * (1 + int(w.entropy)) + 8 * w.top_n
    sequences = 4 * (w.rows // w.rows_per_sequence) if w.rows_per_sequence > 1 else 0
    return Cost(
        flops={"vector.fp32": elements * (6 if w.entropy else 4)},
        read_bytes={"dram": elements * BYTES[w.precision] + 8.0 * w.rows},
        write_bytes={"dram": float(outputs * w.rows + sequences)},
        exponentials=elements,
        compares=elements if w.top_n else 0.0,
    )


def make_inputs(workload: Logprob, seed: int) -> Inputs:
    """Draw ``logits[rows, vocab]`` and, from the softmax of each row at its temperature, ``token[rows]``."""
    w, rng = workload, np.random.default_rng(seed)
    logits = rng.standard_normal((w.rows, w.vocab), dtype=np.float32)
    logits *= 0.01 if w.logits == "flat" else 2.5
    if w.logits == "peaked":
        logits[np.arange(w.rows), rng.integers(0, w.vocab, w.rows)] += np.float32(25.0 * max(1.0, w.temperature))
    stored = store(logits, w.precision)
    token = np.empty(w.rows, np.int64)
    for i in range(w.rows):
        x = widen(stored[i])
        weight = np.exp((x - x.max()) / np.float32(w.temperature)).cumsum(dtype=np.float64)
        token[i] = min(int(np.searchsorted(weight, rng.random() * weight[-1], side="right")), w.vocab - 1)
    return Inputs(w, seed, {"logits": stored, "token": token})


def check_tokens(inputs: Inputs) -> None:
    """Refuse tokens outside the vocabulary, which kernels do not look for.

    Raises
    ------
    WorkloadError
        If there is one.
    """
    vocab, token = inputs.arrays["logits"].shape[1], inputs.arrays["token"]
    outside = token[(token < 0) | (token >= vocab)]
    require(outside.size == 0, "token", outside[:3].tolist(), f"give numbers from 0 to {vocab - 1}")


def _reference_row(x: npt.NDArray[Any], token: int, top_n: int) -> tuple[float, float, Any, Any]:
    best = np.full(top_n, -1, np.int64), np.full(top_n, -np.inf)
    if np.isnan(x).any() or np.isposinf(x).any() or np.isneginf(x).all():
        return np.nan, np.nan, best[0], np.full(top_n, np.nan)
    top = x.max()
    p = np.exp(x - top)
    log_sum = np.log(p.sum())
    p /= p.sum()
    logp = x - top - log_sum
    entropy = -float(np.sum(np.where(p > 0, p * np.where(p > 0, logp, 0.0), 0.0)))
    if top_n:
        order = np.argsort(-x, kind="stable")[:top_n]
        order = order[~np.isneginf(x[order])]
        best[0][: order.size], best[1][: order.size] = order, logp[order]
    return float(logp[token]), entropy, best[0], best[1]


def reference(inputs: Inputs) -> Arrays:
    """Compute the outputs in float64, row by row."""
    w = inputs.workload
    assert isinstance(w, Logprob)
    logprob, entropy = np.empty(w.rows), np.empty(w.rows)
    top_token, top_logprob = np.empty((w.rows, w.top_n), np.int64), np.empty((w.rows, w.top_n))
    for i in range(w.rows):
        x = widen(inputs.arrays["logits"][i]).astype(np.float64) / w.temperature
        row = _reference_row(x, int(inputs.arrays["token"][i]), w.top_n)
        logprob[i], entropy[i], top_token[i], top_logprob[i] = row
    out: Arrays = {"logprob": logprob}
    if w.entropy:
        out["entropy"] = entropy
    if w.top_n:
        out |= {"top_token": top_token, "top_logprob": top_logprob}
    if w.rows_per_sequence > 1:
        out["sequence_logprob"] = logprob.reshape(-1, w.rows_per_sequence).sum(1)
    return out


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Allow the rounding of an fp32 sum over the vocabulary, relative to the largest logit.

    The largest counts because ``x - log(sum(exp(x)))`` in fp32 loses its roundoff; it counts as 1 at least and
    `_SCALE_MOST` at most. Listed tokens must be equal, but tokens of equal logits may change places.
    """
    w = inputs.workload
    assert isinstance(w, Logprob)
    floats = {name: want for name, want in expected.items() if name != "top_token"}
    logits = widen(inputs.arrays["logits"])
    largest = float(np.max(np.abs(logits), where=np.isfinite(logits), initial=0.0)) / w.temperature
    scale = dict.fromkeys(floats, min(max(largest, 1.0), _SCALE_MOST))
    scale["sequence_logprob"] = scale["logprob"] * w.rows_per_sequence
    result = compare_floats(output, floats, tolerance("fp32", w.vocab), scale)
    if not result.ok or not w.top_n:
        return result
    got = np.asarray(output.get("top_token", np.empty(0)))
    want = expected["top_token"]
    if got.shape != want.shape:
        return Check(False, np.inf, f"top_token: shape {got.shape}, expected {want.shape}")
    for i in np.flatnonzero((got != want).any(1)):
        listed = got[i]
        tokens = listed[listed >= 0]
        sound = tokens.size == np.unique(tokens).size and np.all((listed >= -1) & (listed < w.vocab))
        same_places = np.array_equal(listed < 0, want[i] < 0)
        if not (sound and same_places and np.array_equal(logits[i, tokens], logits[i, want[i][want[i] >= 0]])):
            return Check(False, np.inf, f"top_token[{i}]: {listed.tolist()}, expected {want[i].tolist()}")
    return result


OPERATOR = Operator(
    name="sampling.logprob",
    summary="log-softmax, gather of the chosen token and entropy over the vocabulary",
    phases=("rollout", "logprob", "train"),
    workload_type=Logprob,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
