"""Triton: a program moves some rows of a head's state on. One launch."""

from __future__ import annotations

from typing import Any

import triton

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from ...triton_support import KernelSpec
from .operator import Mamba2Decode
from .triton_step import mamba2_step

_WARPS = 4
# Elements of a program's part of the state: 32 per thread.
_TILE = 4096


def _shape(w: Mamba2Decode) -> dict[str, Any]:
    size = triton.next_power_of_2(w.state)
    rows = max(1, min(triton.next_power_of_2(w.head_dim), _TILE // size))
    return {"ROWS": rows, "SIZE": size}


@implementation("ssm.mamba2_decode", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """All buffers are made here."""
    import torch

    w = inputs.workload
    assert isinstance(w, Mamba2Decode)
    a = {name: to_tensor(array, device) for name, array in inputs.arrays.items()}
    new_h = torch.empty_like(a["h"])
    y = torch.empty(a["x"].shape, dtype=torch.float32, device=device)
    shape = _shape(w)
    # The launch syntax is beyond type checkers.
    step: Any = mamba2_step

    def run() -> None:
        step[(w.batch * w.heads, triton.cdiv(w.head_dim, shape["ROWS"]))](
            a["h"], new_h, a["x"], a["B"], a["C"], a["dt"], a["dt_bias"], a["A"], a["D"], y,
            w.heads, w.head_dim, w.state, w.groups, **shape, num_warps=_WARPS,
        )  # fmt: skip

    def output() -> Arrays:
        return {"y": to_array(y), "h": to_array(new_h)}

    return Prepared(run, output)


def compile_specs(target: str) -> list[KernelSpec]:
    """Return the step of Nemotron 3's heads."""
    narrow, wide = dict.fromkeys(("x", "b", "c"), "*bf16"), dict.fromkeys(("h", "new_h"), "*fp32")
    layer = dict.fromkeys(("dt", "dt_bias", "a", "d", "y"), "*fp32")
    numbers = dict.fromkeys(("heads", "head_dim", "size", "groups"), "i32")
    signature = {**wide, **narrow, **layer, **numbers}
    divisible = ("head_dim", "size")
    return [KernelSpec("step_bf16", mamba2_step, signature, _shape(Mamba2Decode()), _WARPS, 2, divisible)]
