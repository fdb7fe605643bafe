"""Triton: one persistent kernel over tiles, by tensor descriptors where the GPU has them."""

from __future__ import annotations

from typing import Any

import triton

from ...contract import Arrays, Inputs, Prepared
from ...matmul.triton_configs import TileConfig, allow_descriptors, device_target, launch_programs, tile_config
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from ...triton_support import KernelSpec
from .operator import Gemm
from .triton_matmul import gemm

# Row blocks that share weights in the L2 cache.
_GROUP = 8
# Rows from which on a tile of many is more than half full.
_MANY_ROWS = 64


def _config(w: Gemm, target: str) -> TileConfig:
    return tile_config(target, w.precision, few=w.tokens < _MANY_ROWS, pair=False)


@implementation("linear.gemm", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """The output is made here."""
    import torch

    w = inputs.workload
    assert isinstance(w, Gemm)
    config = _config(w, device_target(device))
    allow_descriptors(device)
    x, weight = (to_tensor(inputs.arrays[name], device) for name in ("x", "weight"))
    y = torch.empty((w.tokens, w.out_features), dtype=x.dtype, device=device)
    tiles = triton.cdiv(w.tokens, config.bm) * triton.cdiv(w.out_features, config.bn)
    grid = (min(launch_programs(device), tiles),)
    # The launch syntax is beyond type checkers.
    kernel: Any = gemm

    def run() -> None:
        kernel[grid](
            x, weight, y, w.tokens, w.out_features, w.in_features, GROUP=_GROUP, **config.constexprs(),
            num_warps=config.num_warps, num_stages=config.num_stages,
        )  # fmt: skip

    def output() -> Arrays:
        return {"y": to_array(y)}

    return Prepared(run, output)


def compile_specs(target: str) -> list[KernelSpec]:
    """Return the kernel as launched for many rows in bf16 and fp32, and for few in bf16."""
    numbers = ("rows", "width", "length")
    specs = []
    for name, w in {
        "many_bf16": Gemm(8192, 4096, 4096, "bf16"),
        "many_fp32": Gemm(8192, 4096, 4096),
        "few_bf16": Gemm(16, 4096, 4096, "bf16"),
    }.items():
        config = _config(w, target)
        pointers = dict.fromkeys(("x", "w", "y"), f"*{w.precision}")
        signature: dict[str, str] = {**pointers, **dict.fromkeys(numbers, "i32")}
        constants = {"GROUP": _GROUP, **config.constexprs()}
        specs.append(KernelSpec(name, gemm, signature, constants, config.num_warps, config.num_stages, numbers))
    return specs
