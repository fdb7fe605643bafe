"""Dense product of activations with a linear layer's weights: ``y[m, n] = sum over k of x[m, k] * weight[n, k]``.

bf16 inputs are multiplied exactly, summed in fp32 and rounded to bf16 once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...contract import Arrays, Check, Cost, Inputs, Operator, Workload, require
from ...precision import BYTES, compare_floats, store, tolerance, widen

ROW_MULTIPLE = 8
"""Rows of this many elements keep 16-byte alignment in bf16, which tensor descriptors and wide loads need."""


@dataclass(frozen=True)
class Gemm(Workload):
    """One linear layer without bias.

    Parameters
    ----------
    tokens
        Rows of ``x`` and of ``y`` (m).
    out_features
        Rows of the weights (n).
    in_features
        Length of the sums (k), a multiple of 8.
    precision
        Storage of inputs and output, ``fp32`` or ``bf16``.
    """

    operator: ClassVar[str] = "linear.gemm"

    tokens: int = 2040
    out_features: int = 2048
    in_features: int = 2048
    precision: str = "fp32"

    def __post_init__(self) -> None:
        require(self.tokens >= 1, "tokens", self.tokens, "give at least one token")
        require(self.out_features >= 1, "out_features", self.out_features, "give at least one")
        whole = self.in_features >= 1 and self.in_features % ROW_MULTIPLE == 0
        require(whole, "in_features", self.in_features, f"give a positive multiple of {ROW_MULTIPLE}")
        require(self.precision in ("fp32", "bf16"), "precision", self.precision, "choose fp32 or bf16")


def cost(workload: Gemm) -> Cost:
    """Count ``2 m n k`` FLOP; both inputs read once, the output written once."""
    w, size = workload, BYTES[workload.precision]
    m, n, k = float(w.tokens), float(w.out_features), float(w.in_features)
    return Cost(
        flops={f"matrix.{w.precision}": 2 * m * n * k},
        read_bytes={"dram": size * (m * k + n * k)},
        write_bytes={"dram": size * m * n},
    )


def make_inputs(workload: Gemm, seed: int) -> Inputs:
    """Draw ``x[m, k]`` of unit variance and ``weight[n, k]`` of variance ``1 / k``."""
    w, rng = workload, np.random.default_rng(seed)
    x = rng.standard_normal((w.tokens, w.in_features), dtype=np.float32)
    weight = rng.standard_normal((w.out_features, w.in_features), dtype=np.float32)
    weight *= np.float32(w.in_features**-0.5)
    return Inputs(w, seed, {"x": store(x, w.precision), "weight": store(weight, w.precision)})


def reference(inputs: Inputs) -> Arrays:
    """Return ``y`` in float64."""
    x, weight = (widen(inputs.arrays[name]).astype(np.float64) for name in ("x", "weight"))
    with np.errstate(invalid="ignore"):
        return {"y": x @ weight.T}


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Allow the rounding of fp32 sums and of the stored output."""
    w = inputs.workload
    assert isinstance(w, Gemm)
    return compare_floats(output, expected, tolerance("fp32", w.in_features, output=w.precision))


OPERATOR = Operator(
    name="linear.gemm",
    summary="dense matrix product of activations and a linear layer's weights",
    phases=("rollout", "logprob", "train"),
    workload_type=Gemm,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
