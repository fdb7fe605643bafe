"""Log-probability of given tokens from hidden states, without the logits in memory.

With hidden states ``h[rows, width]``, the weights of the last layer ``W[vocab, width]`` and temperature ``T``::

    x = h W'                             never stored as a whole
    logprob = x[token] / T - log(sum(exp(x / T)))

and, with ``backward``, the gradients of ``sum(grad * logprob)``::

    g = grad / T * (onehot(token) - softmax(x / T))
    grad_hidden = g W        grad_weight = g' h

The vocabulary is worked through in chunks. A row whose logits hold a NaN gives NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...contract import Arrays, Check, Cost, Inputs, Operator, Workload, require
from ...precision import BYTES, compare_floats, store, tolerance, widen

_CHUNK = 4096
_WIDTH_MULTIPLE = 8
_LOGIT_DEVIATION = 2.5


@dataclass(frozen=True)
class FusedLogprob(Workload):
    """Rows of hidden states and the last layer of a model.

    Parameters
    ----------
    rows
        Tokens whose logprob is wanted.
    width
        Hidden size, a multiple of 8.
    vocab
        Rows of the weights.
    precision
        Storage of hidden states and weights, ``fp32`` or ``bf16``; sums and outputs are fp32.
    temperature
        What logits are divided by.
    backward
        Whether both gradients are wanted too.
    """

    operator: ClassVar[str] = "sampling.fused_logprob"

    rows: int = 256
    width: int = 2048
    vocab: int = 151_936
    precision: str = "fp32"
    temperature: float = 1.0
    backward: bool = False

    def __post_init__(self) -> None:
        require(self.rows >= 1, "rows", self.rows, "give at least one row")
        whole = self.width >= 1 and self.width % _WIDTH_MULTIPLE == 0
        require(whole, "width", self.width, f"give a positive multiple of {_WIDTH_MULTIPLE}")
        require(1 <= self.vocab < 2**31, "vocab", self.vocab, "give 1 token or more, and less than 2**31")
        require(self.precision in ("fp32", "bf16"), "precision", self.precision, "choose fp32 or bf16")
        t = self.temperature
        require(bool(1e-3 <= t <= 1e3), "temperature", t, "give a number from 0.001 to 1000")


def cost(workload: FusedLogprob) -> Cost:
    """Count one product and one exponential per logit; with gradients three products more.

    They are the logits once more, since these are not kept, and the two gradients.
    """
    w, size = workload, BYTES[workload.precision]
    elements = float(w.rows) * w.vocab
    inputs = size * float(w.rows + w.vocab) * w.width + 8.0 * w.rows
    gradients = 4.0 * (w.rows + w.vocab) * w.width if w.backward else 0.0
    return Cost(
        flops={
            f"matrix.{w.precision}": 2 * elements * w.width * (4 if w.backward else 1),
            "vector.fp32": elements * (7 if w.backward else 4),
        },
        read_bytes={"dram": inputs + (4.0 * w.rows if w.backward else 0.0)},
        write_bytes={"dram": 4.0 * w.rows + gradients},
        exponentials=elements * (2 if w.backward else 1),
    )


def make_inputs(workload: FusedLogprob, seed: int) -> Inputs:
    """Draw ``hidden[rows, width]``, ``weight[vocab, width]``, ``token[rows]`` and, for gradients, ``grad[rows]``.

    Hidden states have unit variance, logits a standard deviation of 2.5; tokens are uniform over the vocabulary.
    """
    w, rng = workload, np.random.default_rng(seed)
    hidden = rng.standard_normal((w.rows, w.width), dtype=np.float32)
    weight = rng.standard_normal((w.vocab, w.width), dtype=np.float32)
    weight *= np.float32(_LOGIT_DEVIATION * w.width**-0.5)
    arrays: Arrays = {"hidden": store(hidden, w.precision), "weight": store(weight, w.precision)}
    arrays["token"] = rng.integers(0, w.vocab, w.rows)
    if w.backward:
        arrays["grad"] = rng.standard_normal(w.rows, dtype=np.float32)
    return Inputs(w, seed, arrays)


def check_tokens(inputs: Inputs) -> None:
    """Refuse tokens outside the vocabulary, which kernels do not look for.

    Raises
    ------
    WorkloadError
        If there is one.
    """
    vocab, token = len(inputs.arrays["weight"]), inputs.arrays["token"]
    outside = token[(token < 0) | (token >= vocab)]
    require(outside.size == 0, "token", outside[:3].tolist(), f"give numbers from 0 to {vocab - 1}")


def reference(inputs: Inputs) -> Arrays:
    """Compute the outputs in float64, a chunk of the vocabulary at a time."""
    w = inputs.workload
    assert isinstance(w, FusedLogprob)
    hidden, token = widen(inputs.arrays["hidden"]).astype(np.float64), inputs.arrays["token"]
    weight, rows = inputs.arrays["weight"], np.arange(w.rows)
    x = np.empty((w.rows, w.vocab))
    for at in range(0, w.vocab, _CHUNK):
        x[:, at : at + _CHUNK] = hidden @ widen(weight[at : at + _CHUNK]).astype(np.float64).T
    x /= w.temperature
    top = x.max(1, keepdims=True)
    x -= top + np.log(np.exp(x - top).sum(1, keepdims=True))
    out: Arrays = {"logprob": x[rows, token].copy()}
    if w.backward:
        g = np.exp(x, out=x)
        np.negative(g, out=g)
        g[rows, token] += 1.0
        g *= inputs.arrays["grad"][:, None].astype(np.float64) / w.temperature
        out["grad_weight"] = g.T @ hidden
        out["grad_hidden"] = np.zeros((w.rows, w.width))
        for at in range(0, w.vocab, _CHUNK):
            out["grad_hidden"] += g[:, at : at + _CHUNK] @ widen(weight[at : at + _CHUNK]).astype(np.float64)
    return out


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Allow the rounding of fp32 sums; of gradients also that of a gradient of the logits in the storage precision."""
    w = inputs.workload
    assert isinstance(w, FusedLogprob)
    length = max(w.width, w.vocab)
    logprob = {"logprob": expected["logprob"]}
    scale = max(1.0, float(np.max(np.abs(expected["logprob"]), initial=0.0)))
    first = compare_floats(output, logprob, tolerance("fp32", length), {"logprob": scale})
    gradients = {name: want for name, want in expected.items() if name != "logprob"}
    if not first.ok or not gradients:
        return first
    second = compare_floats(output, gradients, tolerance("fp32", length, output=w.precision))
    return Check(second.ok, max(first.max_error, second.max_error), second.message)


OPERATOR = Operator(
    name="sampling.fused_logprob",
    summary="last linear layer, log-softmax and gather without the logits in memory, and its gradients",
    phases=("logprob", "train"),
    workload_type=FusedLogprob,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
