"""What moe.dispatch and moe.combine share: tokens whose rows stand, once per choice, in the order of the experts.

``source[slots]`` names the choice of each row, ``token * top_k + slot``, as moe.routing gives it without padding:
experts one after another, and within an expert in token order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..contract import Inputs, Workload, require
from ..distributions import checked_skew, draw_choices

ROW_MULTIPLE = 8
"""Rows of this many elements keep 16-byte alignment in bf16, which wide loads need."""


@dataclass(frozen=True)
class ExpertRows(Workload):
    """Tokens, their choices of experts and their rows.

    Parameters
    ----------
    tokens, experts, top_k
        ``tokens * top_k`` rows over the experts.
    hidden
        Width of a row, a multiple of 8.
    precision
        Storage of the rows: ``fp32`` or ``bf16``.
    skew, skew_parameter
        Popularity of the experts, see `kernels.distributions`.
    """

    tokens: int = 8192
    experts: int = 128
    top_k: int = 8
    hidden: int = 2048
    precision: str = "fp32"
    skew: str = "uniform"
    skew_parameter: float | None = None

    def __post_init__(self) -> None:
        require(self.tokens >= 1, "tokens", self.tokens, "give at least one token")
        require(self.experts >= 1, "experts", self.experts, "give at least one expert")
        most = self.experts
        require(1 <= self.top_k <= most, "top_k", self.top_k, f"give 1 to {most} (at most the experts)")
        require(self.slots < 2**31 - 2**16, "tokens", self.tokens, "rows are numbered in 32 bits; give fewer tokens")
        whole = self.hidden >= 1 and self.hidden % ROW_MULTIPLE == 0
        require(whole, "hidden", self.hidden, f"give a positive multiple of {ROW_MULTIPLE}")
        require(self.precision in ("fp32", "bf16"), "precision", self.precision, "choose fp32 or bf16")
        parameter = checked_skew(self.skew, self.skew_parameter, self.experts)
        object.__setattr__(self, "skew_parameter", parameter if self.skew != "uniform" else None)

    @property
    def slots(self) -> int:
        """Number of rows, ``tokens * top_k``."""
        return self.tokens * self.top_k


def draw_source(workload: ExpertRows, rng: np.random.Generator) -> npt.NDArray[np.int32]:
    """Draw the choices of the tokens under the skew and return them in the order of the experts."""
    w = workload
    chosen = draw_choices(rng, w.tokens, w.experts, w.top_k, w.skew, w.skew_parameter)
    return np.argsort(chosen.reshape(-1), kind="stable").astype(np.int32)


def check_source(inputs: Inputs) -> None:
    """Refuse a source that is no permutation, before a kernel reads or writes outside its arrays.

    Raises
    ------
    WorkloadError
        If a choice is missing, named twice or out of range.
    """
    w, source = inputs.workload, inputs.arrays["source"]
    assert isinstance(w, ExpertRows)
    whole = source.shape == (w.slots,) and np.array_equal(np.sort(source), np.arange(w.slots))
    require(bool(whole), "source", source.shape, f"name each of the {w.slots} choices once")
