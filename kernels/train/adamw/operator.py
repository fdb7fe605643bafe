"""One AdamW step in mixed precision: clip by the global norm, update the fp32 state, write the bf16 weights.

With gradient ``g``, learning rate ``a``, decay ``l``, step ``t`` and the state of the step before::

    norm = sqrt(sum(g**2))                          over all parameters, in the gradient's own values
    g' = g * min(1, clip / (norm + 1e-6))           clip = 0 leaves the gradient as it is
    m = beta1 m + (1 - beta1) g'
    v = beta2 v + (1 - beta2) g'**2
    master = master (1 - a l) - a / (1 - beta1**t) * m / (sqrt(v / (1 - beta2**t)) + epsilon)
    weight = bf16(master)

Loshchilov and Hutter 2019, Decoupled Weight Decay Regularization, algorithm 2; clipping as in
``torch.nn.utils.clip_grad_norm_``. The state is updated in place, as optimisers do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...contract import Arrays, Check, Cost, Inputs, Operator, Workload, require
from ...precision import BYTES, compare_floats, store, tolerance, widen

NORM_EPSILON = 1e-6


@dataclass(frozen=True)
class AdamW(Workload):
    """A step over a flat block of parameters.

    Parameters
    ----------
    parameters
        Number of parameters; the norm is taken over all of them.
    gradient
        Storage of the gradient, ``fp32`` or ``bf16``. Master weights and both moments are fp32, weights bf16.
    clip
        Largest global norm of the gradient; 0 for none.
    learning_rate, beta1, beta2, epsilon, weight_decay
        As in the formula.
    step
        Number of this step, from 1, which decides the bias correction.
    """

    operator: ClassVar[str] = "train.adamw"

    parameters: int = 8_388_608
    gradient: str = "bf16"
    clip: float = 1.0
    learning_rate: float = 1e-6
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.01
    step: int = 10

    def __post_init__(self) -> None:
        require(self.parameters >= 1, "parameters", self.parameters, "give at least one parameter")
        require(self.gradient in ("fp32", "bf16"), "gradient", self.gradient, "choose fp32 or bf16")
        require(0 <= self.clip < np.inf, "clip", self.clip, "give a norm, or 0 for none")
        require(0 < self.learning_rate < 1, "learning_rate", self.learning_rate, "give a number between 0 and 1")
        for name in ("beta1", "beta2"):
            value = getattr(self, name)
            require(0 <= value < 1, name, value, "give 0 or more and less than 1")
        require(0 < self.epsilon < 1, "epsilon", self.epsilon, "give a number between 0 and 1")
        require(0 <= self.weight_decay < 1, "weight_decay", self.weight_decay, "give 0 or more and less than 1")
        require(self.step >= 1, "step", self.step, "steps are counted from 1")

    def factors(self) -> tuple[float, float, float]:
        """Return ``1 - a l``, ``a / (1 - beta1**t)`` and ``1 / (1 - beta2**t)``."""
        decay = 1.0 - self.learning_rate * self.weight_decay
        return decay, self.learning_rate / (1.0 - self.beta1**self.step), 1.0 / (1.0 - self.beta2**self.step)

    def clip_factor(self, squares: float) -> float:
        """Return what the gradient is multiplied by, from the sum of its squares."""
        return min(1.0, self.clip / (float(np.sqrt(squares)) + NORM_EPSILON)) if self.clip > 0 else 1.0


def cost(workload: AdamW) -> Cost:
    """Count gradient and state once each way.

    The norm must be known before the first update, so that a gradient larger than the cache is read twice; that
    second reading (2 of 30 bytes in bf16) is not counted, for a smaller one is not. A square root and a division
    count one FLOP each: 2 for the norm, 14 for the update.
    """
    w = workload
    n = float(w.parameters)
    return Cost(
        flops={"vector.fp32": (16 if w.clip else 14) * n},
        read_bytes={"dram": (12 + BYTES[w.gradient]) * n},
        write_bytes={"dram": 14 * n},
        launches=2 if w.clip else 1,
    )


def make_inputs(workload: AdamW, seed: int) -> Inputs:
    """Draw weights as at initialisation, and moments as after some steps of gradients of norm 4."""
    w, rng = workload, np.random.default_rng(seed)
    scale = np.float32(4.0 / np.sqrt(w.parameters))

    def normal(deviation: float | np.float32) -> np.ndarray:
        return rng.standard_normal(w.parameters, dtype=np.float32) * np.float32(deviation)

    squares = normal(scale) ** 2 * np.float32(1.0 - w.beta2**w.step)
    arrays: Arrays = {
        "master": normal(0.02),
        "m": normal(0.3 * scale),
        "v": squares.astype(np.float32),
        "gradient": store(normal(scale), w.gradient),
    }
    return Inputs(w, seed, arrays)


def reference(inputs: Inputs) -> Arrays:
    """Compute the step in float64; ``weight`` is the new master weight before its rounding to bf16."""
    w, a = inputs.workload, inputs.arrays
    assert isinstance(w, AdamW)
    g = widen(a["gradient"]).astype(np.float64)
    squares = float(np.sum(g * g))
    g *= w.clip_factor(squares)
    decay, rate, correction = w.factors()
    m = w.beta1 * a["m"].astype(np.float64) + (1.0 - w.beta1) * g
    v = w.beta2 * a["v"].astype(np.float64) + (1.0 - w.beta2) * g * g
    master = decay * a["master"].astype(np.float64) - rate * m / (np.sqrt(v * correction) + w.epsilon)
    out: Arrays = {"master": master, "m": m, "v": v, "weight": master}
    return out | {"norm": np.array([np.sqrt(squares)])} if w.clip else out


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Allow a few roundings of fp32 per output, of bf16 for ``weight``, and check that ``weight`` is ``master``.

    ``weight`` may be truncated instead of rounded, as Triton's interpreter does.
    """
    w = inputs.workload
    assert isinstance(w, AdamW)
    narrow = {"weight": expected["weight"]}
    # The norm's error reaches the moments through the clip factor; sums of squares are never added in one chain.
    allowed = {"norm": tolerance("fp32", w.parameters), "master": tolerance("fp32", 1)}
    worst = 0.0
    for name in [name for name in expected if name != "weight"]:
        have = {name: output[name]} if name in output else {}
        result = compare_floats(have, {name: expected[name]}, allowed.get(name, tolerance("fp32", 16)))
        if not result.ok:
            return result
        worst = max(worst, result.max_error)
    rounded = compare_floats(output, narrow, tolerance("fp32", 1, output="bf16", safety=2.0), {"weight": 0.0})
    if not rounded.ok:
        return rounded
    bits = np.asarray(output["weight"], np.float32).view(np.uint32)
    if np.any(bits & 0xFFFF):
        return Check(False, float("inf"), "weight: values that bf16 does not hold")
    return Check(True, max(worst, rounded.max_error))


OPERATOR = Operator(
    name="train.adamw",
    summary="AdamW step with fp32 master weights, bf16 weights and clipping by the global norm",
    phases=("train",),
    workload_type=AdamW,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
