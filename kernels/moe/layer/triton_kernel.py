"""Triton: the launches of the four parts on each other's tensors; nothing returns to the host between them."""

from __future__ import annotations

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from ...triton_support import KernelSpec
from ..combine import triton_kernel as combine
from ..dispatch import triton_kernel as dispatch
from ..expert_gemm import triton_kernel as expert_gemm
from ..routing import triton_kernel as routing
from .operator import MoeLayer


@implementation("moe.layer", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """All buffers are made here."""
    w = inputs.workload
    assert isinstance(w, MoeLayer)
    given = {name: to_tensor(array, device) for name, array in inputs.arrays.items()}
    route, chosen = routing.bind(w.routing, given["logits"], given.get("bias"), device)
    send, rows = dispatch.bind(w.dispatch, given["x"], chosen["source"], device)
    multiply, y = expert_gemm.bind(w.expert_gemm, chosen["counts"], rows["y"], given["w_in"], given["w_out"], device)
    add, out = combine.bind(w.combine, y, chosen["weights"], chosen["source"], device)

    def run() -> None:
        route()
        send()
        multiply()
        add()

    def output() -> Arrays:
        return {name: to_array(value) for name, value in {**chosen, "out": out}.items()}

    return Prepared(run, output)


def compile_specs(target: str) -> list[KernelSpec]:
    """Return the kernels of the parts, which are all that is launched."""
    return [spec for part in (routing, dispatch, expert_gemm, combine) for spec in part.compile_specs(target)]
