"""Triton: a program per row forward; backward a program per group of rows, which keeps its sum for the weight."""

from __future__ import annotations

from typing import Any

import triton

from ...contract import Arrays, Inputs, Prepared, UnsupportedError
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor, torch_dtype
from ...triton_support import KernelSpec
from .operator import RmsNorm
from .triton_rows import rmsnorm_backward, rmsnorm_forward, rmsnorm_weight_sum

_LONGEST = 16_384
_VALUES_PER_THREAD = 16
_PROGRAMS_PER_SM = 2
_SUM_SHAPE = {"ROWS": 32, "COLUMNS": 64}


def _warps(block: int) -> int:
    """Return enough warps that a thread holds few values of a row: backward keeps five arrays of it."""
    return max(1, min(16, block // (32 * _VALUES_PER_THREAD)))


@implementation("train.rmsnorm", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """A row in one block; all buffers are made here."""
    import torch

    w = inputs.workload
    assert isinstance(w, RmsNorm)
    if w.hidden > _LONGEST:
        raise UnsupportedError(f"hidden = {w.hidden}: a row is one block, of {_LONGEST} elements at most")
    t = {name: to_tensor(array, device) for name, array in inputs.arrays.items()}
    block = max(16, triton.next_power_of_2(w.hidden))
    options: dict[str, Any] = {"BLOCK": block, "RESIDUAL": w.residual, "num_warps": _warps(block)}

    def empty(*shape: int, dtype: Any = torch.float32) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=device)

    stored = torch_dtype(w.precision)
    # The launch syntax is beyond type checkers.
    forward: Any = rmsnorm_forward
    backward: Any = rmsnorm_backward
    weight_sum: Any = rmsnorm_weight_sum
    if w.direction == "forward":
        other = t["residual"] if w.residual else t["x"]
        out = {"y": empty(w.tokens, w.hidden, dtype=stored), "rstd": empty(w.tokens)}
        if w.residual:
            out["h"] = empty(w.tokens, w.hidden, dtype=stored)
        h = out.get("h", out["y"])

        def run() -> None:
            arguments = (t["x"], other, t["weight"], h, out["y"], out["rstd"], w.hidden, w.epsilon)
            forward[(w.tokens,)](*arguments, **options)

    else:
        processors = 2 if device == "cpu" else torch.cuda.get_device_properties(device).multi_processor_count
        programs = min(w.tokens, processors * _PROGRAMS_PER_SM)
        other = t["grad_residual"] if w.residual else t["h"]
        out = {"grad_h": empty(w.tokens, w.hidden, dtype=stored), "grad_weight": empty(w.hidden)}
        partial = empty(programs, w.hidden)
        columns = -(-w.hidden // _SUM_SHAPE["COLUMNS"])

        def run() -> None:
            arguments = (t["grad_y"], t["h"], other, t["weight"], t["rstd"], out["grad_h"], partial)
            backward[(programs,)](*arguments, w.tokens, w.hidden, **options)
            weight_sum[(columns,)](partial, out["grad_weight"], programs, w.hidden, **_SUM_SHAPE, num_warps=4)

    def output() -> Arrays:
        return {name: to_array(value) for name, value in out.items()}

    return Prepared(run, output)


def compile_specs(target: str) -> list[KernelSpec]:
    """Return the kernels with a residual, in both precisions, for rows of 2048 and 8192 elements."""
    specs = []
    for element in ("bf16", "fp32"):
        for block in (2048, 8192):
            x = f"*{element}"
            options = {"BLOCK": block, "RESIDUAL": True}
            forward = dict.fromkeys(("x", "residual", "weight", "h", "y"), x)
            forward |= {"rstd_out": "*fp32", "hidden": "i32", "epsilon": "fp32"}
            backward = dict.fromkeys(("grad_y", "h", "grad_residual", "weight", "grad_h"), x)
            backward |= {"rstd_in": "*fp32", "partial": "*fp32", "rows": "i32", "hidden": "i32"}
            name = f"{element}_{block}"
            warps = _warps(block)
            specs += [
                KernelSpec(f"forward_{name}", rmsnorm_forward, forward, options, warps, 2, ("hidden",)),
                KernelSpec(f"backward_{name}", rmsnorm_backward, backward, options, warps, 2, ("hidden",)),
            ]
    signature = {"partial": "*fp32", "grad_weight": "*fp32", "programs": "i32", "hidden": "i32"}
    return [*specs, KernelSpec("weight_sum", rmsnorm_weight_sum, signature, _SUM_SHAPE, 4, 2, ("hidden",))]
