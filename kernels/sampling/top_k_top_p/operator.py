"""Draw the next token of every row from what temperature, penalties, min-p, top-k and top-p leave.

The steps follow one another in the order that vLLM documents for its sampler: the bias is added; the repetition,
frequency and presence penalties change tokens seen before; logits are divided by the temperature; min-p, then top-k,
then top-p drop tokens; one token is drawn from the rest. After each step that changes logits they are fp32 numbers.

Every filter keeps the logits from a threshold on, so that equal logits are kept or dropped together:

- min-p keeps a token whose probability is at least ``min_p`` times the largest,
- top-k keeps those not below the k-th largest logit, 0 keeps all,
- top-p keeps a token if those strictly more probable hold less than ``top_p`` of what min-p and top-k left.

A draw is the inverse of the cumulative distribution, in the order of token numbers, at a 64-bit uniform number that
Philox 4x32-10 gives for the row's seed and offset. Temperature 0 is the limit: the largest logit, the lowest token
number among equals, with logprob 0 and one token kept. A row that defines no distribution, because it holds a NaN or
+inf or nothing but -inf, gives token -1, logprob NaN and 0 kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...contract import Cost, Inputs, Operator, Workload, require
from ...precision import BYTES, store
from ..logprob.operator import LOGITS
from .reference import compare, reference

ROW_PARAMETERS = ("temperature", "top_k", "top_p", "min_p", "repetition", "presence", "frequency")


@dataclass(frozen=True)
class TopKTopP(Workload):
    """Rows of logits, one token to draw from each.

    Parameters
    ----------
    rows, vocab
        Number of rows, and logits per row.
    precision
        Storage of the logits, ``fp32`` or ``bf16``.
    temperature
        What logits are divided by; 0 takes the most probable token.
    top_k, top_p, min_p
        The filters; 0, 1.0 and 0.0 keep every token.
    repetition, presence, frequency
        The penalties; 1.0, 0.0 and 0.0 change nothing. A positive logit of a seen token is divided by ``repetition``, a
        negative one multiplied by it; ``frequency`` times the token's count in the output is subtracted, and
        ``presence`` if that count is not 0.
    seen
        Distinct tokens per row that prompt and output hold, which the penalties need.
    biased
        Tokens per row to whose logits a bias is added.
    mixed
        Whether each row has parameters of its own, drawn between the neutral value and the one given.
    logits
        Distribution: ``normal`` (standard deviation 2.5), ``peaked`` (one token holds nearly all probability),
        ``flat`` (standard deviation 0.01).
    """

    operator: ClassVar[str] = "sampling.top_k_top_p"

    rows: int = 64
    vocab: int = 151_936
    precision: str = "fp32"
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 0.95
    min_p: float = 0.0
    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0
    seen: int = 0
    biased: int = 0
    mixed: bool = False
    logits: str = "normal"

    def __post_init__(self) -> None:
        require(self.rows >= 1, "rows", self.rows, "give at least one row")
        require(self.vocab >= 1, "vocab", self.vocab, "give at least one token")
        require(self.vocab < 2**31, "vocab", self.vocab, "token numbers are 32-bit; give less than 2**31")
        require(self.precision in ("fp32", "bf16"), "precision", self.precision, "choose fp32 or bf16")
        t = self.temperature
        require(bool(t == 0.0 or (1e-3 <= t <= 1e3)), "temperature", t, "give 0, or a number from 0.001 to 1000")
        require(self.top_k >= 0, "top_k", self.top_k, "give the number of tokens to keep, or 0 for all")
        require(bool(0.0 < self.top_p <= 1.0), "top_p", self.top_p, "give a share above 0 and at most 1")
        require(bool(0.0 <= self.min_p <= 1.0), "min_p", self.min_p, "give a share from 0 to 1")
        require(bool(1e-3 <= self.repetition <= 1e3), "repetition", self.repetition, "give a number above 0, 1 is off")
        for name in ("presence", "frequency"):
            value = getattr(self, name)
            require(bool(abs(value) <= 1e3), name, value, "give a number from -1000 to 1000")
        for name in ("seen", "biased"):
            value = getattr(self, name)
            require(0 <= value <= self.vocab, name, value, f"give 0 to {self.vocab} distinct tokens")
        penalised = self.repetition != 1.0 or self.presence != 0.0 or self.frequency != 0.0
        require(self.seen > 0 or not penalised, "seen", self.seen, "penalties need seen tokens; give 1 or more")
        require(self.logits in LOGITS, "logits", self.logits, f"choose one of {', '.join(LOGITS)}")


def cost(workload: TopKTopP) -> Cost:
    """Count the work: logits read once and each compared once.

    With top-k or at temperature 0 exponentials of the kept tokens are enough; otherwise every logit needs one, with a
    subtraction, a scaling and an addition.
    """
    w = workload
    elements = float(w.rows) * w.vocab
    few = w.temperature == 0.0 or 0 < w.top_k < w.vocab
    exponentials = float(w.rows) * (w.top_k if w.temperature else 0) if few else elements
    # Per row: seven parameters of 4 bytes, seed and offset; a token number with its count or bias for each listed one.
    parameters = w.rows * (4.0 * len(ROW_PARAMETERS) + 16 + 8 * (w.seen + w.biased))
    return Cost(
        flops={"vector.fp32": 3 * exponentials},
        read_bytes={"dram": elements * BYTES[w.precision] + parameters},
        write_bytes={"dram": w.rows * (4.0 + 4.0 + 4.0)},
        exponentials=exponentials,
        compares=elements,
    )


def _row_parameters(w: TopKTopP, rng: np.random.Generator) -> dict[str, Any]:
    neutral = {"temperature": 1.0, "top_k": 4 * w.top_k, "top_p": 1.0, "min_p": 0.0}
    neutral |= {"repetition": 1.0, "presence": 0.0, "frequency": 0.0}
    values = {}
    for name in ROW_PARAMETERS:
        share = rng.random(w.rows) if w.mixed else np.ones(w.rows)
        value = neutral[name] + share * (getattr(w, name) - neutral[name])
        values[name] = np.rint(value).astype(np.int32) if name == "top_k" else value.astype(np.float32)
    if w.mixed:
        values["temperature"] = np.where(values["temperature"] < 1e-3, 0, values["temperature"]).astype(np.float32)
    return values


def _distinct(rng: np.random.Generator, rows: int, count: int, vocab: int) -> Any:
    chosen = [rng.choice(vocab, count, replace=False, shuffle=False) for _ in range(rows)]
    return np.array(chosen, np.int32).reshape(rows, count)


def make_inputs(workload: TopKTopP, seed: int) -> Inputs:
    """Draw ``logits[rows, vocab]``, the parameters ``[rows]`` and the lists of seen and biased tokens.

    ``seen_token[rows, seen]`` holds each token once, -1 where a row has fewer; ``seen_count`` says how often it stands
    in the output, 0 if in the prompt alone. ``bias_token`` and ``bias[rows, biased]`` are the same for the bias.
    """
    w, rng = workload, np.random.default_rng(seed)
    logits = rng.standard_normal((w.rows, w.vocab), dtype=np.float32)
    logits *= 0.01 if w.logits == "flat" else 2.5
    if w.logits == "peaked":
        logits[np.arange(w.rows), rng.integers(0, w.vocab, w.rows)] += np.float32(25.0 * max(1.0, w.temperature))
    arrays = {"logits": store(logits, w.precision), **_row_parameters(w, rng)}
    arrays["seen_token"] = _distinct(rng, w.rows, w.seen, w.vocab)
    arrays["seen_count"] = rng.geometric(0.5, (w.rows, w.seen)).astype(np.int32) - 1
    arrays["bias_token"] = _distinct(rng, w.rows, w.biased, w.vocab)
    arrays["bias"] = rng.normal(0.0, 5.0, (w.rows, w.biased)).astype(np.float32)
    arrays["seed"] = rng.integers(0, 2**62, w.rows, dtype=np.int64)
    arrays["offset"] = rng.integers(0, 2**31, w.rows, dtype=np.int64)
    return Inputs(w, seed, arrays)


def check_lists(inputs: Inputs) -> None:
    """Refuse listed tokens outside the vocabulary, which kernels do not look for; -1 fills a list.

    Raises
    ------
    WorkloadError
        If there is one.
    """
    vocab = inputs.arrays["logits"].shape[1]
    for name in ("seen_token", "bias_token"):
        token = inputs.arrays[name]
        outside = token[(token < -1) | (token >= vocab)]
        require(outside.size == 0, name, outside[:3].tolist(), f"give numbers from 0 to {vocab - 1}, or -1 to fill")


OPERATOR = Operator(
    name="sampling.top_k_top_p",
    summary="temperature, penalties, min-p, top-k and top-p, and one token drawn per row",
    phases=("rollout",),
    workload_type=TopKTopP,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
