"""What the collectives share: their workloads, the numbers each rank holds, and how results are compared.

``elements`` is the size of a rank's larger buffer, as in nccl-tests: what all_reduce and broadcast work on, what
all_gather receives and what all_to_all sends. The algorithm bandwidth is its bytes over the time; the bus bandwidth is
that times the share of the bytes that every rank must send: ``2 (n - 1) / n`` for all_reduce, ``(n - 1) / n`` for
all_gather and all_to_all, 1 for broadcast (nccl-tests, doc/PERFORMANCE.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..contract import Arrays, Check, Cost, Inputs, Workload, require
from ..precision import BYTES, compare_floats, store, tolerance

RANKS_MOST = 64


@dataclass(frozen=True)
class Collective(Workload):
    """One collective over some ranks.

    Parameters
    ----------
    ranks
        Processes that take part, 2 or more.
    elements
        Numbers in a rank's larger buffer.
    precision
        ``fp32`` or ``bf16``.
    """

    SPLIT: ClassVar[bool] = False
    """Whether the buffer is made of one part per rank."""

    ranks: int = 2
    elements: int = 1 << 20
    precision: str = "fp32"

    def __post_init__(self) -> None:
        require(2 <= self.ranks <= RANKS_MOST, "ranks", self.ranks, f"give 2 to {RANKS_MOST}")
        require(self.elements >= 1, "elements", self.elements, "give at least one number")
        whole = not self.SPLIT or self.elements % self.ranks == 0
        require(whole, "elements", self.elements, f"give a multiple of ranks = {self.ranks}")
        require(self.precision in ("fp32", "bf16"), "precision", self.precision, "choose fp32 or bf16")

    @property
    def part(self) -> int:
        """Numbers of a rank's own part."""
        return self.elements // self.ranks

    @property
    def nbytes(self) -> int:
        """Bytes of the larger buffer: the message size."""
        return self.elements * BYTES[self.precision]


def collective_cost(
    workload: Collective, *, sent_share: float, read_elements: float, written_elements: float, flops: float = 0.0
) -> Cost:
    """Return the cost per rank: what it sends over its link, and what it reads and writes of its own memory."""
    size = BYTES[workload.precision]
    return Cost(
        flops={"vector.fp32": flops} if flops else {},
        read_bytes={"dram": read_elements * size},
        write_bytes={"dram": written_elements * size},
        link_bytes=sent_share * workload.nbytes,
    )


def draw(workload: Collective, seed: int, elements: int) -> Inputs:
    """Draw ``data[ranks, elements]``: what each rank begins with."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((workload.ranks, elements), dtype=np.float32)
    return Inputs(workload, seed, {"data": store(values, workload.precision)})


def compare_exactly(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Require the numbers that were sent: a collective that only moves them changes none."""
    got, want = np.asarray(output.get("out", ())), expected["out"]
    if got.shape != want.shape:
        return Check(False, np.inf, f"out: shape {got.shape}, expected {want.shape}")
    wrong = np.argwhere(got != want)
    if wrong.size:
        at = tuple(wrong[0].tolist())
        return Check(False, np.inf, f"out{at}: {got[at]:.9g}, expected {want[at]:.9g} ({len(wrong)} differ)")
    return Check(True, 0.0)


def compare_sums(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Allow the rounding of a sum over the ranks, every partial sum stored in the message's precision."""
    w = inputs.workload
    assert isinstance(w, Collective)
    return compare_floats(output, expected, tolerance(w.precision, w.ranks, output=w.precision))
