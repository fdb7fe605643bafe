"""Give every rank the buffer of rank 0: weights from the trainer to the rollouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...contract import Arrays, Cost, Inputs, Operator
from ...precision import widen
from ..collective import Collective, collective_cost, compare_exactly, draw


@dataclass(frozen=True)
class Broadcast(Collective):
    """One broadcast; see `Collective` for the fields."""

    operator: ClassVar[str] = "comm.broadcast"


def cost(workload: Broadcast) -> Cost:
    """Count what a rank of a ring sends on, and its buffer read and written."""
    w = workload
    return collective_cost(w, sent_share=1.0, read_elements=w.elements, written_elements=w.elements)


def make_inputs(workload: Broadcast, seed: int) -> Inputs:
    """Draw ``data[ranks, elements]``."""
    return draw(workload, seed, workload.elements)


def reference(inputs: Inputs) -> Arrays:
    """Return ``out[ranks, elements]``."""
    data = widen(inputs.arrays["data"]).astype(np.float64)
    return {"out": np.tile(data[0], (data.shape[0], 1))}


OPERATOR = Operator(
    name="comm.broadcast",
    summary="the buffer of rank 0 to every rank, as weights go from the trainer to the rollouts",
    phases=("weight_sync",),
    workload_type=Broadcast,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare_exactly,
)
