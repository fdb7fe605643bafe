"""Sum a buffer over all ranks; every rank gets the sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...contract import Arrays, Cost, Inputs, Operator
from ...precision import widen
from ..collective import Collective, collective_cost, compare_sums, draw


@dataclass(frozen=True)
class AllReduce(Collective):
    """One all_reduce; see `Collective` for the fields."""

    operator: ClassVar[str] = "comm.all_reduce"


def cost(workload: AllReduce) -> Cost:
    """Count what every rank sends, its buffer read and the sum written, and its share of the additions."""
    w = workload
    share = (w.ranks - 1) / w.ranks
    return collective_cost(
        w, sent_share=2 * share, read_elements=w.elements, written_elements=w.elements, flops=share * w.elements
    )


def make_inputs(workload: AllReduce, seed: int) -> Inputs:
    """Draw ``data[ranks, elements]``."""
    return draw(workload, seed, workload.elements)


def reference(inputs: Inputs) -> Arrays:
    """Return ``out[ranks, elements]`` in float64."""
    total = widen(inputs.arrays["data"]).astype(np.float64).sum(axis=0)
    return {"out": np.tile(total, (inputs.arrays["data"].shape[0], 1))}


OPERATOR = Operator(
    name="comm.all_reduce",
    summary="sum of a buffer over all ranks, to every rank",
    phases=("rollout", "logprob", "train"),
    workload_type=AllReduce,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare_sums,
)
