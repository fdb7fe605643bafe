"""Triton: the permutation is inverted, then a program sums a piece of a token's rows. Two launches, no atomics."""

from __future__ import annotations

from typing import Any

import triton

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from ...triton_support import KernelSpec
from ..expert_rows import check_source
from ..triton_rows import combine_rows, invert_source
from .operator import Combine

_ROWS, _COLUMNS, _WARPS = 1024, 1024, 4


def bind(w: Combine, y: Any, weights: Any, source: Any, device: str) -> tuple[Any, Any]:
    """Return what launches the work on given tensors, and the result that it fills; all buffers are made here."""
    import torch

    row_of = torch.empty_like(source)
    out = torch.empty((w.tokens, w.hidden), dtype=y.dtype, device=device)
    # The launch syntax is beyond type checkers.
    invert: Any = invert_source
    combine: Any = combine_rows

    def run() -> None:
        invert[(triton.cdiv(w.slots, _ROWS),)](source, row_of, w.slots, ROWS=_ROWS, num_warps=_WARPS)
        grid = (w.tokens, triton.cdiv(w.hidden, _COLUMNS))
        combine[grid](y, weights, row_of, out, w.hidden, w.top_k, COLUMNS=_COLUMNS, num_warps=_WARPS)

    return run, out


@implementation("moe.combine", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """See `bind`."""
    w = inputs.workload
    assert isinstance(w, Combine)
    check_source(inputs)
    y, weights, source = (to_tensor(inputs.arrays[name], device) for name in ("y", "weights", "source"))
    run, out = bind(w, y, weights, source, device)

    def output() -> Arrays:
        return {"out": to_array(out)}

    return Prepared(run, output)


def compile_specs(target: str) -> list[KernelSpec]:
    """Return the sum of rows in both precisions; the inversion is compiled for `moe.dispatch`."""
    lists = {"weights": "*fp32", "row_of": "*i32"}
    numbers = {"hidden": "i32", "top_k": "i32"}
    return [
        KernelSpec(
            f"combine_{element}", combine_rows, {"y": f"*{element}", **lists, "out": f"*{element}", **numbers},
            {"COLUMNS": _COLUMNS}, _WARPS, 2, ("hidden",),
        )
        for element in ("bf16", "fp32")
    ]  # fmt: skip
