"""Triton: one launch for fp8; for nvfp4 the largest weight stays on the device between two or three."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_tensor
from ...triton_support import KernelSpec
from .operator import BLOCK, GROUP, Quantize
from .triton_blocks import quantize_fp8, quantize_maxima, quantize_nvfp4, quantize_tensor_scale

_BLOCK_WARPS = 8
_GROUPS, _PAIRS, _WARPS = 256, 2048, 4
_PARTS = 1024
_PROGRAMS_PER_SM = 4


@implementation("sync.quantize", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """All buffers are made here."""
    import torch

    w = inputs.workload
    assert isinstance(w, Quantize)
    stored = inputs.arrays["weight"]
    # The launch syntax is beyond type checkers.
    fp8: Any = quantize_fp8
    nvfp4: Any = quantize_nvfp4
    maxima: Any = quantize_maxima
    finish: Any = quantize_tensor_scale
    if w.format == "fp8_block128":
        weight = to_tensor(stored, device)
        scale = torch.empty(w.scale_shape, dtype=torch.float32, device=device)
        code = torch.empty(stored.shape, dtype=torch.uint8, device=device)
        out = {"code": code, "scale": scale}

        def run() -> None:
            shape: dict[str, Any] = {"BLOCK": BLOCK, "num_warps": _BLOCK_WARPS}
            fp8[w.scale_shape](weight, code, scale, w.rows, w.columns, **shape)

    else:
        pairs = torch.from_numpy(stored.view(np.int32)).to(device)
        groups = stored.size // GROUP
        tensor_scale = torch.zeros(1, dtype=torch.float32, device=device)
        scale = torch.empty(w.scale_shape, dtype=torch.uint8, device=device)
        code = torch.empty((w.rows, w.columns // 2), dtype=torch.uint8, device=device)
        out = {"code": code, "scale": scale, "tensor_scale": tensor_scale}
        processors = 2 if device == "cpu" else torch.cuda.get_device_properties(device).multi_processor_count
        programs = min(-(-pairs.numel() // _PAIRS), processors * _PROGRAMS_PER_SM, _PARTS)
        given = "amax" in inputs.arrays
        parts = to_tensor(inputs.arrays["amax"], device) if given else torch.zeros(programs, device=device)

        def run() -> None:
            if not given:
                maxima[(programs,)](pairs, parts, pairs.numel(), BLOCK=_PAIRS, num_warps=_WARPS)
            finish[(1,)](parts, tensor_scale, parts.numel(), PARTS=_PARTS, num_warps=_WARPS)
            grid = (-(-groups // _GROUPS),)
            nvfp4[grid](pairs, code, scale, tensor_scale, groups, GROUPS=_GROUPS, num_warps=_WARPS)

    def output() -> Arrays:
        return {name: value.cpu().numpy() for name, value in out.items()}

    return Prepared(run, output)


def compile_specs(target: str) -> list[KernelSpec]:
    """Return all four kernels."""
    fp8 = {"weight": "*bf16", "code": "*u8", "scale": "*fp32", "rows": "i32", "columns": "i32"}
    nvfp4 = {"pairs": "*i32", "code": "*u8", "scale": "*u8", "tensor_scale": "*fp32", "groups": "i32"}
    maxima = {"pairs": "*i32", "parts": "*fp32", "n": "i32"}
    finish = {"parts": "*fp32", "tensor_scale": "*fp32", "number": "i32"}
    return [
        KernelSpec("fp8_block128", quantize_fp8, fp8, {"BLOCK": BLOCK}, _BLOCK_WARPS, 2, ("rows", "columns")),
        KernelSpec("nvfp4", quantize_nvfp4, nvfp4, {"GROUPS": _GROUPS}, _WARPS, 2, ("groups",)),
        KernelSpec("maxima", quantize_maxima, maxima, {"BLOCK": _PAIRS}, _WARPS, 2, ("n",)),
        KernelSpec("tensor_scale", quantize_tensor_scale, finish, {"PARTS": _PARTS}, _WARPS, 2),
    ]
