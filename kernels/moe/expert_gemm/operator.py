"""Both matrix products of the experts, over token rows that stand in expert order.

For the rows ``x`` of expert ``e``, with its weights as linear layers store them, ``[out, in]``::

    gated:    h = silu(x @ gate.T) * (x @ up.T)     gate, up = the halves of w_in[e]      (SwiGLU)
    ungated:  h = max(x @ w_in[e].T, 0)**2                                               (relu squared)
    y = h @ w_out[e].T

Products are summed in fp32. With bf16 the result is rounded to bf16, and ``h`` may be rounded to it too. Rows of expert
e begin at the sum of the counts before it; an expert may have none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...contract import Arrays, Check, Cost, Inputs, Operator, Workload, require
from ...distributions import checked_skew, draw_choices, expected_touched
from ...precision import BYTES, compare_floats, store, tolerance, widen

ROW_MULTIPLE = 8
"""Rows of this many elements keep 16-byte alignment in bf16, which tensor descriptors and wide loads need."""
# Places at which an expert's weights may begin in the numbers drawn for all.
_SHIFTS = 2**20


@dataclass(frozen=True)
class ExpertGemm(Workload):
    """One MoE layer's experts.

    Parameters
    ----------
    tokens, experts, top_k
        ``tokens * top_k`` rows over the experts.
    hidden, inter
        Width of a row, and of an expert's hidden layer; multiples of 8.
    gated
        SwiGLU with three matrices per expert, or relu squared with two.
    precision
        Storage of rows, weights and result: ``fp32`` or ``bf16``.
    skew, skew_parameter
        Popularity of the experts, see `kernels.distributions`.
    counts
        Rows per expert to replay in place of drawing them; empty to draw.
    """

    operator: ClassVar[str] = "moe.expert_gemm"

    tokens: int = 2048
    experts: int = 128
    top_k: int = 8
    hidden: int = 2048
    inter: int = 768
    gated: bool = True
    precision: str = "fp32"
    skew: str = "uniform"
    skew_parameter: float | None = None
    counts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        require(self.tokens >= 1, "tokens", self.tokens, "give at least one token")
        require(self.experts >= 1, "experts", self.experts, "give at least one expert")
        most = self.experts
        require(1 <= self.top_k <= most, "top_k", self.top_k, f"give 1 to {most} (at most the experts)")
        require(self.slots < 2**31 - 2**16, "tokens", self.tokens, "rows are numbered in 32 bits; give fewer tokens")
        for name in ("hidden", "inter"):
            value = getattr(self, name)
            whole = value >= 1 and value % ROW_MULTIPLE == 0
            require(whole, name, value, f"give a positive multiple of {ROW_MULTIPLE}")
        require(self.precision in ("fp32", "bf16"), "precision", self.precision, "choose fp32 or bf16")
        parameter = checked_skew(self.skew, self.skew_parameter, self.experts)
        object.__setattr__(self, "skew_parameter", parameter if self.skew != "uniform" else None)
        if self.counts:
            self._check_counts()

    def _check_counts(self) -> None:
        require(len(self.counts) == self.experts, "counts", len(self.counts), f"give experts = {self.experts} numbers")
        inside = all(isinstance(n, int) and 0 <= n <= self.tokens for n in self.counts)
        require(inside, "counts", self.counts, f"give whole numbers from 0 to tokens = {self.tokens}")
        total = sum(self.counts)
        require(total == self.slots, "counts", total, f"their sum must be tokens * top_k = {self.slots}")

    @property
    def slots(self) -> int:
        """Number of rows, ``tokens * top_k``."""
        return self.tokens * self.top_k

    @property
    def in_rows(self) -> int:
        """Rows of an expert's first matrix: gate and up, or up alone."""
        return 2 * self.inter if self.gated else self.inter

    @property
    def expert_bytes(self) -> int:
        """Bytes of one expert's weights."""
        return BYTES[self.precision] * self.hidden * (self.in_rows + self.inter)

    def touched(self) -> float:
        """Return how many experts have rows: expected under the skew, exact for replayed counts."""
        if self.counts:
            return float(sum(n > 0 for n in self.counts))
        return expected_touched(self.tokens, self.experts, self.top_k, self.skew, self.skew_parameter)


def cost(workload: ExpertGemm) -> Cost:
    """Count the products of every row, and the weights of the touched experts once.

    Gated, an element of ``h`` takes an exponential and 4 FLOP; ungated it takes 2.
    """
    w, size, slots = workload, BYTES[workload.precision], float(workload.slots)
    row_bytes = slots * w.hidden * size
    return Cost(
        flops={
            f"matrix.{w.precision}": 2 * slots * w.hidden * (w.in_rows + w.inter),
            "vector.fp32": slots * w.inter * (4 if w.gated else 2),
        },
        read_bytes={"dram": w.touched() * w.expert_bytes + row_bytes + 4.0 * w.experts},
        write_bytes={"dram": row_bytes},
        exponentials=slots * w.inter if w.gated else 0.0,
        launches=2,
    )


def draw_counts(workload: ExpertGemm, rng: np.random.Generator) -> npt.NDArray[np.int32]:
    """Return the rows per expert: those given, or those of tokens drawn under the skew."""
    w = workload
    if w.counts:
        return np.array(w.counts, np.int32)
    chosen = draw_choices(rng, w.tokens, w.experts, w.top_k, w.skew, w.skew_parameter)
    return np.bincount(chosen.reshape(-1), minlength=w.experts).astype(np.int32)


def draw_weights(w: Any, rng: np.random.Generator) -> Arrays:
    """Draw ``w_in[experts, in_rows, hidden]`` (gate above up) and ``w_out[experts, hidden, inter]``."""
    return {
        "w_in": _draw(rng, (w.experts, w.in_rows, w.hidden), w.hidden**-0.5, w.precision),
        "w_out": _draw(rng, (w.experts, w.hidden, w.inter), w.inter**-0.5, w.precision),
    }


def _draw(rng: np.random.Generator, shape: tuple[int, ...], scale: float, precision: str) -> npt.NDArray[Any]:
    """Draw ``shape[0]`` arrays of normal numbers: windows at random places of one long draw.

    Drawing each number anew would take longer than all that is measured; windows differ in every element.
    """
    size = math.prod(shape[1:])
    pool = store(rng.standard_normal(size + _SHIFTS, dtype=np.float32) * np.float32(scale), precision)
    out = np.empty(shape, pool.dtype)
    for part in out:
        start = int(rng.integers(_SHIFTS))
        part[...] = pool[start : start + size].reshape(shape[1:])
    return out


def make_inputs(workload: ExpertGemm, seed: int) -> Inputs:
    """Draw ``counts[experts]``, ``x[slots, hidden]`` and the weights of `draw_weights`."""
    w, rng = workload, np.random.default_rng(seed)
    arrays: Arrays = {"counts": draw_counts(w, rng)}
    arrays["x"] = store(rng.standard_normal((w.slots, w.hidden), dtype=np.float32), w.precision)
    return Inputs(w, seed, arrays | draw_weights(w, rng))


def check_counts(inputs: Inputs) -> None:
    """Refuse counts that do not add up to the rows, before a kernel reads or writes outside its arrays.

    Raises
    ------
    WorkloadError
        If a count is negative or the sum is not the number of rows.
    """
    w, counts = inputs.workload, inputs.arrays["counts"]
    assert isinstance(w, ExpertGemm)
    require(counts.shape == (w.experts,), "counts", counts.shape, f"give experts = {w.experts} numbers")
    require(bool(np.all(counts >= 0)), "counts", int(counts.min()), "a count is not negative")
    total = int(counts.sum(dtype=np.int64))
    require(total == w.slots, "counts", total, f"their sum must be tokens * top_k = {w.slots}")


def one_expert(x: npt.NDArray[Any], w_in: npt.NDArray[Any], w_out: npt.NDArray[Any], gated: bool) -> npt.NDArray[Any]:
    """Return the results of an expert's rows in float64, from stored arrays."""
    x, w_in, w_out = (widen(a).astype(np.float64) for a in (x, w_in, w_out))
    h = x @ w_in.T
    if gated:
        gate, up = np.split(h, 2, axis=1)
        h = gate / (1 + np.exp(-gate)) * up
    else:
        h = np.maximum(h, 0) ** 2
    return h @ w_out.T


def reference(inputs: Inputs) -> Arrays:
    """Return ``y[slots, hidden]`` in float64, expert by expert."""
    w, arrays = inputs.workload, inputs.arrays
    assert isinstance(w, ExpertGemm)
    y = np.zeros((w.slots, w.hidden))
    stop = np.cumsum(arrays["counts"])
    for e in np.flatnonzero(arrays["counts"]):
        rows = slice(stop[e] - arrays["counts"][e], stop[e])
        y[rows] = one_expert(arrays["x"][rows], arrays["w_in"][e], arrays["w_out"][e], w.gated)
    return {"y": y}


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Allow the rounding of fp32 sums over both widths, and of the stored result and ``h``, relative to a row's size.

    Rows of a product of two random numbers differ much in size, and the rounding of ``h`` is relative to its row.
    """
    w = inputs.workload
    assert isinstance(w, ExpertGemm)
    return compare_rows(output, {"y": expected["y"]}, w.hidden + w.inter, w.precision)


def compare_rows(output: Arrays, expected: Arrays, length: int, precision: str) -> Check:
    """Compare one array of rows, each relative to its root mean square."""
    ((name, want),) = expected.items()
    size = np.sqrt(np.mean(want * want, axis=1, keepdims=True))
    size[~(np.isfinite(size) & (size > 0))] = 1.0
    if name in output and output[name].shape == want.shape:
        output = {name: output[name] / size}
    relative = tolerance("fp32", length, output=precision)
    return compare_floats(output, {name: want / size}, relative, {name: 1.0})


OPERATOR = Operator(
    name="moe.expert_gemm",
    summary="both matrix products of the experts over ragged rows, with the activation between them",
    phases=("rollout", "logprob", "train"),
    workload_type=ExpertGemm,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
