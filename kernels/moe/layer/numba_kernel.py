"""The layer on all cores: the four parts one after another, on each other's arrays.

Gathering rows while they are packed for the first product would save the dispatch's writes and reads; they are 1 to 2 %
of the layer's time (`docs/kernels/moe.md`).
"""

from __future__ import annotations

from ...contract import Arrays, Inputs, Prepared
from ...precision import widen
from ...registry import implementation
from ..combine import numba_kernel as combine
from ..dispatch import numba_kernel as dispatch
from ..expert_gemm import numba_kernel as expert_gemm
from ..routing import numba_kernel as routing
from .operator import MoeLayer


@implementation("moe.layer", backend="numba", devices=("cpu",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """All buffers are made here."""
    w, arrays = inputs.workload, inputs.arrays
    assert isinstance(w, MoeLayer)
    route, chosen = routing.bind(w.routing, arrays["logits"], arrays.get("bias"))
    send, rows = dispatch.bind(w.dispatch, arrays["x"], chosen["source"])
    multiply, y = expert_gemm.bind(w.expert_gemm, chosen["counts"], rows["y"], arrays["w_in"], arrays["w_out"])
    add, out = combine.bind(w.combine, y, chosen["weights"], chosen["source"])

    def run() -> None:
        route()
        send()
        multiply()
        add()

    def output() -> Arrays:
        return {**chosen, "out": widen(out)}

    return Prepared(run, output)
