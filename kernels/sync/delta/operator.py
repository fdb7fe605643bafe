"""Find the bf16 weights that a step has changed, and pack them for sending.

Weights are compared as bits, so that a NaN equals itself and -0 differs from 0::

    position = ascending indices of the weights whose bits differ        uint32
    value = their new bits                                               uint16
    new = old, with value at position

At the learning rates of RL a step moves most fp32 master weights by less than half a unit of their bf16 form, so that
few bf16 weights change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...contract import Arrays, Check, Cost, Inputs, Operator, Workload, require
from ...precision import to_bf16


@dataclass(frozen=True)
class Delta(Workload):
    """A flat block of weights before and after a step.

    Parameters
    ----------
    weights
        Number of weights.
    changed
        Share of them that changed.
    run
        Changed weights that stand next to each other, as in rows that were updated; 1 scatters them.
    """

    operator: ClassVar[str] = "sync.delta"

    weights: int = 16_777_216
    changed: float = 0.01
    run: int = 1

    def __post_init__(self) -> None:
        require(1 <= self.weights < 2**31, "weights", self.weights, "give 1 to 2**31 - 1; positions are 32-bit")
        require(0 <= self.changed <= 1, "changed", self.changed, "give a share from 0 to 1")
        require(1 <= self.run <= self.weights, "run", self.run, "give 1 to the number of weights")

    @property
    def count(self) -> int:
        """Weights that changed."""
        runs = self.weights // self.run
        return min(round(self.changed * runs), runs) * self.run


def cost(workload: Delta) -> Cost:
    """Count both versions read once, and six bytes written per changed weight; one comparison per weight."""
    w = workload
    return Cost(
        flops={},
        read_bytes={"dram": 4.0 * w.weights},
        write_bytes={"dram": 6.0 * w.count},
        compares=float(w.weights),
    )


def make_inputs(workload: Delta, seed: int) -> Inputs:
    """Draw ``old`` weights and ``new`` ones in which the changed moved by one unit in the last place."""
    w, rng = workload, np.random.default_rng(seed)
    old = to_bf16(rng.standard_normal(w.weights, dtype=np.float32) * np.float32(0.02))
    new = old.copy()
    runs = w.weights // w.run
    first = rng.choice(runs, w.count // w.run, replace=False) * w.run
    new[(first[:, None] + np.arange(w.run)).reshape(-1)] ^= np.uint16(1)
    return Inputs(w, seed, {"old": old, "new": new})


def reference(inputs: Inputs) -> Arrays:
    """Compare the bits."""
    position = np.flatnonzero(inputs.arrays["old"] != inputs.arrays["new"]).astype(np.uint32)
    return {"position": position, "value": inputs.arrays["new"][position]}


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Require exactly the changed weights, in order."""
    for name, want in expected.items():
        got = output.get(name)
        if got is None or got.shape != want.shape:
            found = "nothing" if got is None else str(got.shape)
            return Check(False, np.inf, f"{name}: {found}, expected {want.shape}")
        wrong = np.flatnonzero(got != want)
        if wrong.size:
            at = int(wrong[0])
            return Check(False, np.inf, f"{name}[{at}]: {got[at]}, expected {want[at]}")
    return Check(True, 0.0)


OPERATOR = Operator(
    name="sync.delta",
    summary="find the bf16 weights that a step has changed and pack them with their positions",
    phases=("weight_sync",),
    workload_type=Delta,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
