"""Triton: the permutation is inverted, then each token's row is read once. Two launches."""

from __future__ import annotations

from typing import Any

import triton

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from ...triton_support import KernelSpec
from ..expert_rows import check_source
from ..triton_rows import dispatch_copy, dispatch_fp8, invert_source
from .operator import BLOCK, Dispatch

_ROWS, _WARPS = 1024, 4
_COPY, _FP8 = {"COLUMNS": 1024}, {"BLOCKS": 8, "BLOCK": BLOCK}


def bind(w: Dispatch, x: Any, source: Any, device: str) -> tuple[Any, dict[str, Any]]:
    """Return what launches the work on given tensors, and the tensors that it fills; all buffers are made here."""
    import torch

    row_of = torch.empty_like(source)
    # The launch syntax is beyond type checkers.
    invert: Any = invert_source
    copy: Any = dispatch_copy
    quantize: Any = dispatch_fp8

    def empty(*shape: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=device)

    if w.quantize == "none":
        out = {"y": empty(w.slots, w.hidden, dtype=x.dtype)}
    else:
        code = empty(w.slots, w.hidden, dtype=torch.uint8)
        out = {"code": code, "scale": empty(w.slots, w.scales, dtype=torch.float32)}

    def run() -> None:
        invert[(triton.cdiv(w.slots, _ROWS),)](source, row_of, w.slots, ROWS=_ROWS, num_warps=_WARPS)
        if w.quantize == "none":
            grid = (w.tokens, triton.cdiv(w.hidden, _COPY["COLUMNS"]))
            copy[grid](x, row_of, out["y"], w.hidden, w.top_k, **_COPY, num_warps=_WARPS)
        else:
            grid = (w.tokens, triton.cdiv(w.scales, _FP8["BLOCKS"]))
            quantize[grid](
                x, row_of, out["code"], out["scale"], w.hidden, w.scales, w.top_k, **_FP8, num_warps=_WARPS
            )  # fmt: skip

    return run, out


@implementation("moe.dispatch", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """See `bind`."""
    w = inputs.workload
    assert isinstance(w, Dispatch)
    check_source(inputs)
    x, source = (to_tensor(inputs.arrays[name], device) for name in ("x", "source"))
    run, out = bind(w, x, source, device)

    def output() -> Arrays:
        return {name: to_array(value) for name, value in out.items()}

    return Prepared(run, output)


def compile_specs(target: str) -> list[KernelSpec]:
    """Return the inversion, the copy and the quantisation of bf16 rows."""
    lists = {"source": "*i32", "row_of": "*i32", "slots": "i32"}
    copy = {"x": "*bf16", "row_of": "*i32", "y": "*bf16", "hidden": "i32", "top_k": "i32"}
    fp8 = {"x": "*bf16", "row_of": "*i32", "code": "*u8", "scale": "*fp32"}
    fp8 |= dict.fromkeys(("hidden", "scales", "top_k"), "i32")
    return [
        KernelSpec("invert", invert_source, lists, {"ROWS": _ROWS}, _WARPS, 2, ("slots",)),
        KernelSpec("copy_bf16", dispatch_copy, copy, _COPY, _WARPS, 2, ("hidden",)),
        KernelSpec("fp8_bf16", dispatch_fp8, fp8, _FP8, _WARPS, 2, ("hidden",)),
    ]
