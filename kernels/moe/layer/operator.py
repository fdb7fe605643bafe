"""One MoE layer from router logits to the tokens' results: routing, dispatch, both products, combine.

What each part computes stands with its operator: `moe.routing`, `moe.dispatch`, `moe.expert_gemm`, `moe.combine`. The
cost is that of the chain as one operator, without the rows that are only handed from part to part, so that the
distance to the roof holds what fusing them could gain.

An implementation returns ``out[tokens, hidden]`` and the routing's outputs, since choices between nearly equal
experts may differ as `moe.routing` allows; ``out`` is held to the choices that were made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...contract import Arrays, Check, Cost, Inputs, Operator, Workload
from ...precision import BYTES, store
from ..combine.operator import Combine
from ..combine.operator import cost as combine_cost
from ..dispatch.operator import Dispatch
from ..expert_gemm.operator import ExpertGemm, compare_rows, draw_weights, one_expert
from ..expert_gemm.operator import cost as expert_cost
from ..routing import operator as routing
from ..routing.operator import Routing
from ..routing.reference import gates_and_scores, weights_of


@dataclass(frozen=True)
class MoeLayer(Workload):
    """One MoE layer; see `Routing` and `ExpertGemm` for the fields. Logits are fp32, and weights renormalised."""

    operator: ClassVar[str] = "moe.layer"

    tokens: int = 2048
    experts: int = 128
    top_k: int = 8
    hidden: int = 2048
    inter: int = 768
    gated: bool = True
    gate: str = "softmax"
    groups: int = 1
    groups_kept: int = 1
    scale: float = 1.0
    precision: str = "fp32"
    skew: str = "uniform"
    skew_parameter: float | None = None

    def __post_init__(self) -> None:
        # The parts refuse what cannot be.
        object.__setattr__(self, "skew_parameter", self.expert_gemm.skew_parameter)
        _ = self.routing

    @property
    def routing(self) -> Routing:
        """The choice of experts."""
        return Routing(
            self.tokens, self.experts, self.top_k, self.gate, self.groups, self.groups_kept, scale=self.scale,
            skew=self.skew, skew_parameter=self.skew_parameter,
        )  # fmt: skip

    @property
    def dispatch(self) -> Dispatch:
        """The way to the experts."""
        return Dispatch(self.tokens, self.experts, self.top_k, self.hidden, self.precision)

    @property
    def expert_gemm(self) -> ExpertGemm:
        """Both products."""
        return ExpertGemm(
            self.tokens, self.experts, self.top_k, self.hidden, self.inter, self.gated, self.precision, self.skew,
            self.skew_parameter,
        )  # fmt: skip

    @property
    def combine(self) -> Combine:
        """The way back."""
        return Combine(self.tokens, self.experts, self.top_k, self.hidden, self.precision)


def cost(workload: MoeLayer) -> Cost:
    """Add up the work of the parts; of the bytes, logits, tokens, touched weights and results alone, each once."""
    w = workload
    parts = [routing.cost(w.routing), expert_cost(w.expert_gemm), combine_cost(w.combine)]
    flops: dict[str, float] = {}
    for part in parts:
        for unit, count in part.flops.items():
            flops[unit] = flops.get(unit, 0.0) + count
    row_bytes = float(w.tokens) * w.hidden * BYTES[w.precision]
    weights = w.expert_gemm.touched() * w.expert_gemm.expert_bytes
    return Cost(
        flops=flops,
        read_bytes={"dram": parts[0].read_bytes["dram"] + row_bytes + weights},
        write_bytes={"dram": row_bytes},
        exponentials=sum(part.exponentials for part in parts),
        compares=sum(part.compares for part in parts),
        launches=4,  # counts, both products, and sums need what all others before them made
    )


def make_inputs(workload: MoeLayer, seed: int) -> Inputs:
    """Draw ``logits[tokens, experts]`` (and ``bias[experts]``), ``x[tokens, hidden]`` and the experts' weights."""
    w, rng = workload, np.random.default_rng(seed)
    arrays = dict(routing.make_inputs(w.routing, seed).arrays)
    arrays["x"] = store(rng.standard_normal((w.tokens, w.hidden), dtype=np.float32), w.precision)
    return Inputs(w, seed, arrays | draw_weights(w.expert_gemm, rng))


def routing_inputs(inputs: Inputs) -> Inputs:
    """Return the inputs of the layer's routing."""
    w = inputs.workload
    assert isinstance(w, MoeLayer)
    return Inputs(w.routing, inputs.seed, {k: v for k, v in inputs.arrays.items() if k in ("logits", "bias")})


def _results(inputs: Inputs, tokens: npt.NDArray[Any], experts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the results of some tokens in float64 under given choices ``[len(tokens), top_k]``."""
    w, arrays = inputs.workload, inputs.arrays
    assert isinstance(w, MoeLayer)
    gates = gates_and_scores(routing_inputs(inputs))[0][tokens]
    weights = weights_of(gates, experts, w.routing)
    out = np.zeros((tokens.size, w.hidden))
    for e in np.unique(experts):
        at, k = np.nonzero(experts == e)
        rows = one_expert(arrays["x"][tokens[at]], arrays["w_in"][e], arrays["w_out"][e], w.gated)
        # A token chooses an expert once, so that no place is named twice.
        out[at] += weights[at, k, None] * rows
    return out


def reference(inputs: Inputs) -> Arrays:
    """Return the routing's outputs and ``out[tokens, hidden]`` in float64."""
    chosen = routing.reference(routing_inputs(inputs))
    return chosen | {"out": _results(inputs, np.arange(inputs.arrays["x"].shape[0]), chosen["experts"])}


def compare(output: Arrays, expected: Arrays, inputs: Inputs) -> Check:
    """Compare the routing as its operator does, and ``out`` under the choices that the output made.

    The tolerance is that of `moe.expert_gemm`: the weights of a token add nothing to it, their sum being the scale.
    """
    w = inputs.workload
    assert isinstance(w, MoeLayer)
    wanted = dict(expected)
    out = wanted.pop("out")
    routed = routing.compare(output, wanted, routing_inputs(inputs))
    if not routed.ok:
        return routed
    experts = np.asarray(output["experts"])
    other = np.flatnonzero((experts != expected["experts"]).any(axis=1))
    if other.size:
        out = out.copy()
        out[other] = _results(inputs, other, experts[other].astype(np.int64))
    result = compare_rows(output, {"out": out}, w.hidden + w.inter, w.precision)
    return result if not result.ok else Check(True, max(routed.max_error, result.max_error))


OPERATOR = Operator(
    name="moe.layer",
    summary="a whole MoE layer from router logits to results, to show what the parts and their seams cost",
    phases=("rollout", "logprob", "train"),
    workload_type=MoeLayer,
    cost=cost,
    make_inputs=make_inputs,
    reference=reference,
    compare=compare,
)
