"""One token of the Mamba-2 recurrence for a batch of sequences: the state of every head is read, moved on and written.

For a sequence and a head with its group's ``B, C [state]`` (Dao and Gu 2024, Transformers are SSMs, arXiv 2405.21060,
section 3 and listing 2, with the token's step as in Mamba's decoding)::

    dt = softplus(dt + dt_bias)
    h = exp(dt * A) * h + dt * outer(x, B)        h [head_dim, state], fp32
    y = h @ C + D * x

The convolution before and the gate and norm behind are other operators' work. The new state goes to a buffer of its
own, as where drafted tokens may be taken back; bytes are those of an update in place, which reads and writes as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...contract import Arrays, Check, Cost, Inputs, Operator, Workload, require
from ...precision import BYTES, compare_floats, store, tolerance, widen

# Per element of the state: decay, multiply-add of the input, multiply-add of the output.
_STATE_FLOPS = 5


@dataclass(frozen=True)
class Mamba2Decode(Workload):
    """One decoding step of one Mamba-2 layer.

    Parameters
    ----------
    batch
        Sequences, one token each.
    heads, head_dim, state
        Shape of a sequence's state.
    groups
        Groups of heads that share B and C; a divisor of ``heads``.
    precision
        Storage of x, B and C: ``fp32`` or ``bf16``. State, dt and y are fp32.
    """

    operator: ClassVar[str] = "ssm.mamba2_decode"

    batch: int = 64
    heads: int = 256
    head_dim: int = 64
    state: int = 128
    groups: int = 8
    precision: str = "bf16"

    def __post_init__(self) -> None:
        require(self.batch >= 1, "batch", self.batch, "give at least one sequence")
        require(self.heads >= 1, "heads", self.heads, "give at least one head")
        require(1 <= self.head_dim <= 1024, "head_dim", self.head_dim, "give 1 to 1024")
        require(1 <= self.state <= 1024, "state", self.state, "give 1 to 1024")
        divides = self.groups >= 1 and self.heads % self.groups == 0
        require(divides, "groups", self.groups, f"give a divisor of heads = {self.heads}")
        require(self.precision in ("fp32", "bf16"), "precision", self.precision, "choose fp32 or bf16")


def cost(workload: Mamba2Decode) -> Cost:
    """Count the state read and written once, and the token's x, B, C, dt and y."""
    w = workload
    heads = float(w.batch * w.heads)
    elements, size = heads * w.head_dim * w.state, BYTES[w.precision]
    token = heads * w.head_dim * size + 2.0 * w.batch * w.groups * w.state * size + 4 * heads
    return Cost(
        flops={"vector.fp32": _STATE_FLOPS * elements + 3 * heads * w.head_dim + 2 * heads},
        read_bytes={"dram": 4 * elements + token + 12.0 * w.heads},
        write_bytes={"dram": 4 * elements + 4 * heads * w.head_dim},
        exponentials=3 * heads,  # softplus takes two
    )


def make_inputs(workload: Mamba2Decode, seed: int) -> Inputs:
    """Draw the token, the layer's numbers and a state.

    ``x[batch, heads, head_dim]``, ``B, C[batch, groups, state]``, ``dt[batch, heads]``, ``h[batch, heads, head_dim,
    state]``; ``A, D, dt_bias[heads]`` as Mamba-2 begins its training: A from -16 to -1, steps from 0.001 to 0.1.
    """
    w, rng = workload, np.random.default_rng(seed)

    def draw(*shape: int) -> npt.NDArray[np.float32]:
        return rng.standard_normal(shape, dtype=np.float32)

    step = np.exp(rng.uniform(np.log(1e-3), np.log(1e-1), w.heads))
    arrays: Arrays = {
        "x": store(draw(w.batch, w.heads, w.head_dim), w.precision),
        "B": store(draw(w.batch, w.groups, w.state), w.precision),
        "C": store(draw(w.batch, w.groups, w.state), w.precision),
        "dt": draw(w.batch, w.heads),
        "dt_bias": np.log(np.expm1(step)).astype(np.float32),
        "A": -rng.uniform(1, 16, w.heads).astype(np.float32),
        "D": rng.uniform(0.5, 1.5, w.heads).astype(np.float32),
        "h": draw(w.batch, w.heads, w.head_dim, w.state),
    }
    return Inputs(w, seed, arrays)


def _wide(inputs: Inputs) -> dict[str, Any]:
    w = inputs.workload
    assert isinstance(w, Mamba2Decode)
    wide = {name: widen(a).astype(np.float64) for name, a in inputs.arrays.items() if name != "h"}
    repeat = w.heads // w.groups
    return {**wide, **{name: np.repeat(wide[name], repeat, axis=1) for name in ("B", "C")}}


def reference(inputs: Inputs) -> Arrays:
    """Return ``y[batch, heads, head_dim]`` and ``h`` in float64."""
    a, h = _wide(inputs), inputs.arrays["h"].astype(np.float64)
    dt = np.logaddexp(0, a["dt"] + a["dt_bias"])
    h *= np.exp(dt * a["A"])[..., None, None]
    h += (dt[..., None] * a["x"])[..., None] * a["B"][:, :, None]
    y = np.matmul(h, a["C"][..., None])[..., 0] + a["D"][:, None] * a["x"]
    return {"y": y, "h": h}


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Allow the rounding of fp32 sums over the state."""
    w = inputs.workload
    assert isinstance(w, Mamba2Decode)
    return compare_floats(output, expected, tolerance("fp32", w.state))


OPERATOR = Operator(
    name="ssm.mamba2_decode",
    summary="one token of the Mamba-2 recurrence, every sequence's state read and written once",
    phases=("rollout",),
    workload_type=Mamba2Decode,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
