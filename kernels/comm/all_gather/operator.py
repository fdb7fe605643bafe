"""Give every rank the parts of all ranks, in the order of the ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...contract import Arrays, Cost, Inputs, Operator
from ...precision import widen
from ..collective import Collective, collective_cost, compare_exactly, draw


@dataclass(frozen=True)
class AllGather(Collective):
    """One all_gather; see `Collective` for the fields."""

    operator: ClassVar[str] = "comm.all_gather"
    SPLIT: ClassVar[bool] = True


def cost(workload: AllGather) -> Cost:
    """Count what every rank sends, its part read and all parts written."""
    w = workload
    share = (w.ranks - 1) / w.ranks
    return collective_cost(w, sent_share=share, read_elements=w.part, written_elements=w.elements)


def make_inputs(workload: AllGather, seed: int) -> Inputs:
    """Draw ``data[ranks, part]``."""
    return draw(workload, seed, workload.part)


def reference(inputs: Inputs) -> Arrays:
    """Return ``out[ranks, elements]``."""
    data = widen(inputs.arrays["data"])
    return {"out": np.tile(data.reshape(-1), (data.shape[0], 1)).astype(np.float64)}


OPERATOR = Operator(
    name="comm.all_gather",
    summary="the parts of all ranks, to every rank",
    phases=("train", "weight_sync"),
    workload_type=AllGather,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare_exactly,
)
