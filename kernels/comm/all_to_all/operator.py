"""Give rank j the j-th part of every rank, in the order of the ranks: tokens to experts and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...contract import Arrays, Cost, Inputs, Operator
from ...precision import widen
from ..collective import Collective, collective_cost, compare_exactly, draw


@dataclass(frozen=True)
class AllToAll(Collective):
    """One all_to_all; see `Collective` for the fields."""

    operator: ClassVar[str] = "comm.all_to_all"
    SPLIT: ClassVar[bool] = True


def cost(workload: AllToAll) -> Cost:
    """Count what every rank sends to others, its buffer read and the parts of all written."""
    w = workload
    share = (w.ranks - 1) / w.ranks
    return collective_cost(w, sent_share=share, read_elements=w.elements, written_elements=w.elements)


def make_inputs(workload: AllToAll, seed: int) -> Inputs:
    """Draw ``data[ranks, elements]``."""
    return draw(workload, seed, workload.elements)


def reference(inputs: Inputs) -> Arrays:
    """Return ``out[ranks, elements]``."""
    data = widen(inputs.arrays["data"]).astype(np.float64)
    ranks = data.shape[0]
    parts = data.reshape(ranks, ranks, -1)
    return {"out": parts.swapaxes(0, 1).reshape(ranks, -1)}


OPERATOR = Operator(
    name="comm.all_to_all",
    summary="a part of every rank's buffer to every rank, as tokens go to experts and back",
    phases=("rollout", "logprob", "train"),
    workload_type=AllToAll,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare_exactly,
)
