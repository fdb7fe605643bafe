"""Root-mean-square normalisation with the residual addition before it, and its backward pass.

Forward, per token, with ``x`` the layer's output and ``residual`` the stream it is added to::

    h = x + residual                     stored in the workload's precision; it is the new residual stream
    rstd = 1 / sqrt(mean(h**2) + epsilon)
    y = h * rstd * weight

Backward, from the gradients of ``y`` and of the residual stream ``h``, with ``n = h * rstd``, ``d = grad_y * weight``::

    grad_h = rstd * (d - n * mean(d * n)) + grad_residual      the gradient of both x and residual
    grad_weight = sum over tokens of grad_y * n                in fp32

Zhang and Sennrich 2019, Root Mean Square Layer Normalization, equation 4; the gradients follow by the chain rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...contract import Arrays, Check, Cost, Inputs, Operator, Workload, require
from ...precision import BYTES, compare_floats, store, tolerance, widen

DIRECTIONS = ("forward", "backward")


@dataclass(frozen=True)
class RmsNorm(Workload):
    """Normalisation of a block of tokens.

    Parameters
    ----------
    tokens
        Rows.
    hidden
        Elements per row.
    precision
        Storage of activations, their gradients and the weight: ``fp32`` or ``bf16``. Arithmetic is fp32.
    direction
        ``forward`` or ``backward``.
    residual
        Whether a residual stream is added before (forward), or has a gradient of its own (backward).
    epsilon
        Added to the mean square.
    """

    operator: ClassVar[str] = "train.rmsnorm"

    tokens: int = 8192
    hidden: int = 2048
    precision: str = "bf16"
    direction: str = "forward"
    residual: bool = True
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        require(self.tokens >= 1, "tokens", self.tokens, "give at least one token")
        require(self.hidden >= 1, "hidden", self.hidden, "give at least one element per token")
        require(self.precision in ("fp32", "bf16"), "precision", self.precision, "choose fp32 or bf16")
        require(self.direction in DIRECTIONS, "direction", self.direction, "choose forward or backward")
        positive = np.isfinite(self.epsilon) and self.epsilon > 0
        require(bool(positive), "epsilon", self.epsilon, "give a small positive number")


def cost(workload: RmsNorm) -> Cost:
    """Count activations once each way, the weight once, and the fp32 ``rstd`` of each token.

    Forward: add, square and add, two multiplications per element. Backward: ``d``, ``n``, the sum of their products
    (2), ``grad_weight`` (2), and ``rstd * (d - n * mean) + grad_residual`` (4).
    """
    w = workload
    size, elements = BYTES[w.precision], float(w.tokens) * w.hidden
    extra = elements if w.residual else 0.0
    if w.direction == "forward":
        reads, writes, flops = elements + extra, elements + extra, 4 * elements + extra
        rstd_read, rstd_write, weight_write = 0.0, 4.0 * w.tokens, 0.0
    else:
        reads, writes, flops = 2 * elements + extra, elements, 9 * elements + extra
        rstd_read, rstd_write, weight_write = 4.0 * w.tokens, 0.0, 4.0 * w.hidden
    return Cost(
        flops={"vector.fp32": flops},
        read_bytes={"dram": size * (reads + w.hidden) + rstd_read},
        write_bytes={"dram": size * writes + rstd_write + weight_write},
    )


def _rstd(h: npt.NDArray[Any], epsilon: float) -> npt.NDArray[np.float64]:
    wide = h.astype(np.float64)
    return 1.0 / np.sqrt(np.mean(wide * wide, axis=1) + epsilon)


def make_inputs(workload: RmsNorm, seed: int) -> Inputs:
    """Draw normal activations; a token's scale differs from the next one's by up to 16 times.

    Forward ``x``, ``residual`` and ``weight``; backward ``grad_y``, ``grad_residual``, ``h``, ``weight`` and ``rstd``.
    """
    w, rng = workload, np.random.default_rng(seed)

    def draw(scale: Any) -> npt.NDArray[Any]:
        values = rng.standard_normal((w.tokens, w.hidden), dtype=np.float32)
        values *= scale
        return store(values, w.precision)

    weight = store((1.0 + 0.2 * rng.standard_normal(w.hidden)).astype(np.float32), w.precision)
    scales = (2.0 ** rng.uniform(-2, 2, (w.tokens, 1))).astype(np.float32)
    if w.direction == "forward":
        arrays: Arrays = {"x": draw(scales), "weight": weight}
        if w.residual:
            arrays["residual"] = draw(scales)
    else:
        h = draw(scales)
        rstd = _rstd(widen(h), w.epsilon).astype(np.float32)
        arrays = {"grad_y": draw(np.float32(1.0)), "h": h, "weight": weight, "rstd": rstd}
        if w.residual:
            arrays["grad_residual"] = draw(np.float32(1.0))
    return Inputs(w, seed, arrays)


def reference(inputs: Inputs) -> Arrays:
    """Compute the outputs in float64; the stored ``h`` is rounded as the workload says."""
    w, a = inputs.workload, inputs.arrays
    assert isinstance(w, RmsNorm)
    weight = widen(a["weight"]).astype(np.float64)
    if w.direction == "forward":
        h = widen(a["x"])
        if w.residual:
            h = widen(store(h + widen(a["residual"]), w.precision))
        rstd = _rstd(h, w.epsilon)
        out: Arrays = {"y": h * rstd[:, None] * weight, "rstd": rstd}
        return out | {"h": h.astype(np.float64)} if w.residual else out
    h = widen(a["h"]).astype(np.float64)
    rstd = _rstd(h, w.epsilon)[:, None]
    n, grad_y = h * rstd, widen(a["grad_y"]).astype(np.float64)
    d = grad_y * weight
    grad_h = rstd * (d - n * np.mean(d * n, axis=1, keepdims=True))
    if w.residual:
        grad_h += widen(a["grad_residual"])
    return {"grad_h": grad_h, "grad_weight": np.sum(grad_y * n, axis=0)}


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Allow the rounding of fp32 sums over a row (over tokens for ``grad_weight``) and of the stored output."""
    w = inputs.workload
    assert isinstance(w, RmsNorm)
    stored = tolerance("fp32", w.hidden, output=w.precision)
    # Autograd rounds gradients between operations too.
    allowed = {"y": stored, "grad_h": 2 * stored, "rstd": tolerance("fp32", w.hidden)}
    # The residual stream is one rounded addition. Triton's interpreter truncates where GPUs round to nearest, which
    # costs one more unit and moves rstd. The gradient of a bf16 weight may be stored as bf16.
    allowed |= {"h": tolerance("fp32", 1, output=w.precision, safety=2.0)}
    if w.residual:
        allowed["rstd"] = tolerance("fp32", w.hidden, output=w.precision, safety=2.0)
    allowed |= {"grad_weight": tolerance("fp32", w.tokens, output=w.precision)}
    scale: dict[str, float] = {}
    if w.direction == "backward":
        # The terms of grad_h may cancel: what counts is their size.
        terms = inputs.arrays["rstd"][:, None] * widen(inputs.arrays["grad_y"]) * widen(inputs.arrays["weight"])
        scale["grad_h"] = float(np.sqrt(np.mean(terms.astype(np.float64) ** 2)))
    worst = 0.0
    for name, want in expected.items():
        have = {name: output[name]} if name in output else {}
        result = compare_floats(have, {name: want}, allowed[name], scale)
        if not result.ok:
            return result
        worst = max(worst, result.max_error)
    return Check(True, worst)


OPERATOR = Operator(
    name="train.rmsnorm",
    summary="root-mean-square normalisation with residual addition, forward and backward",
    phases=("rollout", "logprob", "train"),
    workload_type=RmsNorm,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
