"""Triton: a schedule of row blocks, and two persistent grouped products, the first with the activation."""

from __future__ import annotations

from typing import Any

import triton

from ...contract import Arrays, Inputs, Prepared
from ...matmul.triton_configs import (
    TileConfig,
    allow_descriptors,
    device_target,
    launch_programs,
    tile_config,
)
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from ...triton_support import KernelSpec
from .operator import ExpertGemm, check_counts
from .triton_grouped import expert_product, expert_schedule

_SCHEDULE_WARPS = 4
# Row blocks that share weights in the L2 cache.
_GROUP = 8
# Rows per expert from which on tiles of many rows are less than half empty.
_MANY_ROWS = 64
_GATED, _RELU_SQUARED, _NONE = 1, 2, 0


def _configs(w: ExpertGemm, target: str) -> tuple[TileConfig, TileConfig]:
    """Return the tiles of both products, of the same number of rows."""
    few = w.slots < _MANY_ROWS * w.touched()
    return (
        tile_config(target, w.precision, few=few, pair=w.gated),
        tile_config(target, w.precision, few=few, pair=False),
    )


def bind(w: ExpertGemm, counts: Any, x: Any, w_in: Any, w_out: Any, device: str) -> tuple[Any, Any]:
    """Return what launches the work on given tensors, and the ``y`` that it fills; all buffers are made here."""
    import torch

    first, second = _configs(w, device_target(device))
    allow_descriptors(device)
    h = torch.empty((w.slots, w.inter), dtype=x.dtype, device=device)
    y = torch.empty((w.slots, w.hidden), dtype=x.dtype, device=device)
    blocks = w.slots // first.bm + w.experts
    schedule = tuple(torch.empty(blocks, dtype=torch.int32, device=device) for _ in range(3))
    total = torch.empty(1, dtype=torch.int32, device=device)
    programs = launch_programs(device)
    # The launch syntax is beyond type checkers.
    make_schedule: Any = expert_schedule
    product: Any = expert_product
    activation = _GATED if w.gated else _RELU_SQUARED
    padded = max(2, triton.next_power_of_2(w.experts))

    def multiply(source: Any, weights: Any, to: Any, config: TileConfig, act: int) -> None:
        width, length = to.shape[1], source.shape[1]
        product[(min(programs, blocks * triton.cdiv(width, config.bn)),)](
            source, weights, to, *schedule, total, w.slots, w.experts, width, length, ACTIVATION=act, GROUP=_GROUP,
            **config.constexprs(), num_warps=config.num_warps, num_stages=config.num_stages,
        )  # fmt: skip

    def run() -> None:
        make_schedule[(1,)](counts, *schedule, total, w.experts, BM=first.bm, PADDED=padded, num_warps=_SCHEDULE_WARPS)
        multiply(x, w_in, h, first, activation)
        multiply(h, w_out, y, second, _NONE)

    return run, y


@implementation("moe.expert_gemm", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Three launches; row counts stay on the device."""
    w = inputs.workload
    assert isinstance(w, ExpertGemm)
    check_counts(inputs)
    counts, x, w_in, w_out = (to_tensor(inputs.arrays[name], device) for name in ("counts", "x", "w_in", "w_out"))
    run, y = bind(w, counts, x, w_in, w_out, device)

    def output() -> Arrays:
        return {"y": to_array(y)}

    return Prepared(run, output)


# What models ask for: Qwen3-30B-A3B in training and decoding, and Nemotron's relu squared. Which products to compile.
_MODELS = {
    "train_bf16": (ExpertGemm(8192, precision="bf16"), ("in", "out")),
    "train_fp32": (ExpertGemm(8192), ("in",)),
    "decode_relu2_bf16": (ExpertGemm(16, 128, 6, 2688, 1856, gated=False, precision="bf16"), ("in",)),
}


def compile_specs(target: str) -> list[KernelSpec]:
    """Return the schedule, and products as launched for many and few rows."""
    numbers = dict.fromkeys(("slots", "experts", "width", "length"), "i32")
    lists = dict.fromkeys(("block_expert", "block_row", "block_end", "total"), "*i32")
    schedule = {"counts": "*i32", **lists, "experts": "i32"}
    constants = {"BM": 128, "PADDED": 128}
    specs = [KernelSpec("schedule", expert_schedule, schedule, constants, _SCHEDULE_WARPS, 2, ("experts",))]
    for name, (w, parts) in _MODELS.items():
        configs = dict(zip(("in", "out"), _configs(w, target), strict=True))
        activations = {"in": _GATED if w.gated else _RELU_SQUARED, "out": _NONE}
        signature: dict[str, str] = {**dict.fromkeys(("x", "w", "y"), f"*{w.precision}"), **lists, **numbers}
        for part in parts:
            config = configs[part]
            constants = {"ACTIVATION": activations[part], "GROUP": _GROUP, **config.constexprs()}
            launch = (config.num_warps, config.num_stages, tuple(numbers))
            specs.append(KernelSpec(f"{part}_{name}", expert_product, signature, constants, *launch))
    return specs
