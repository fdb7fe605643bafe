"""Triton: one program per block of queries and head, by tensor descriptors where the GPU has them."""

from __future__ import annotations

import math
from typing import Any

import triton

from ...contract import Arrays, Inputs, Prepared
from ...matmul.triton_configs import allow_descriptors, device_target
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from ...triton_support import KernelSpec
from .operator import AttentionPrefill
from .triton_attend import attend

_LOG2_E = math.log2(math.e)
# (queries, keys of a step, warps, stages) by target and padded head dimension, bf16. Chosen without the GPUs: the
# widest matrix instruction, no spills, and shared memory for as many stages as fit.
_BF16 = {
    "sm_80": {64: (128, 64, 8, 3), 128: (128, 32, 8, 3), 256: (64, 32, 8, 2)},
    "sm_90": {64: (128, 128, 8, 3), 128: (128, 128, 8, 2), 256: (64, 64, 8, 2)},
    "sm_100": {64: (128, 128, 8, 3), 128: (128, 128, 8, 2), 256: (128, 64, 8, 2)},
    "sm_120": {64: (128, 64, 8, 2), 128: (128, 32, 8, 2), 256: (32, 32, 8, 1)},
    "gfx942": {64: (128, 32, 4, 1), 128: (128, 32, 4, 1), 256: (64, 32, 4, 1)},
}
# fp32 as three tf32 products on NVIDIA, each with operands in two parts that take many registers; AMD has a matrix unit
# for fp32.
_FP32 = {
    "sm_80": {64: (32, 16, 8, 1), 128: (32, 16, 8, 1), 256: (16, 16, 8, 1)},
    "sm_90": {64: (16, 16, 4, 1), 128: (16, 16, 4, 1), 256: (16, 16, 8, 1)},
    "sm_100": {64: (64, 32, 4, 2), 128: (64, 32, 8, 1), 256: (16, 16, 8, 1)},
    "sm_120": {64: (16, 16, 4, 1), 128: (16, 16, 4, 1), 256: (16, 16, 8, 1)},
    "gfx942": {64: (64, 32, 4, 1), 128: (64, 32, 8, 1), 256: (32, 16, 8, 1)},
}
_LEAST_DIMS = 64


def _config(target: str, precision: str, head_dim: int) -> tuple[dict[str, Any], dict[str, int]]:
    """Return compile-time parameters and launch options; a target that is not listed takes its nearest ancestor's."""
    dims = max(_LEAST_DIMS, triton.next_power_of_2(head_dim))
    nvidia = target.startswith("sm_")
    number = int(target[3:]) if nvidia else 0
    older = [name for name in _BF16 if name.startswith("sm_") and int(name[3:]) <= number]
    known = max(older, key=lambda name: int(name[3:]), default="sm_80") if nvidia else "gfx942"
    bm, bn, warps, stages = (_FP32 if precision == "fp32" else _BF16)[known][dims]
    constants = {
        "DIMS": dims,
        "BM": bm,
        "BN": bn,
        # With fp32 heads of 256 descriptors make hundreds of spills, pointers about ten.
        "TMA": nvidia and number >= 90 and (precision, dims) != ("fp32", 256),
        "PRECISION": "tf32x3" if nvidia and precision == "fp32" else "ieee",
    }
    return constants, {"num_warps": warps, "num_stages": stages}


def _shape(w: Any) -> dict[str, Any]:
    """Return the compile-time parameters that the workload decides."""
    return {
        "HEADS": w.q_heads,
        "KV_HEADS": w.kv_heads,
        "DIM": w.head_dim,
        "CAUSAL": w.causal,
        "WINDOW": w.window > 0,
        "SOFTCAP": w.softcap > 0,
    }


def _score_numbers(w: Any) -> tuple[float, float]:
    """Return ``scale`` and ``cap`` as `scores_of` takes them."""
    if w.softcap:
        return w.scale * _LOG2_E / w.softcap, w.softcap * _LOG2_E
    return w.scale * _LOG2_E, 0.0


@implementation("attention.prefill", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """One launch; outputs are made here."""
    import torch

    w = inputs.workload
    assert isinstance(w, AttentionPrefill)
    constants, options = _config(device_target(device), w.precision, w.head_dim)
    allow_descriptors(device)
    tensors = [to_tensor(inputs.arrays[name], device) for name in ("q", "k", "v", "query_offsets", "key_offsets")]
    q, k = tensors[:2]
    sinks = to_tensor(inputs.arrays["sinks"], device) if w.sinks else torch.empty(1, device=device)
    out = torch.empty_like(q)
    lse = torch.empty(q.shape[:2], dtype=torch.float32, device=device)
    grid = (triton.cdiv(w.length, constants["BM"]), w.q_heads, w.batch)
    # The launch syntax is beyond type checkers.
    kernel: Any = attend

    def run() -> None:
        kernel[grid](
            *tensors, sinks, out, lse, q.shape[0], k.shape[0], w.window, *_score_numbers(w), SINKS=w.sinks,
            **_shape(w), **constants, **options,
        )  # fmt: skip

    def output() -> Arrays:
        return {"out": to_array(out), "lse": to_array(lse)}

    return Prepared(run, output)


_SPECS = {
    "dim128_bf16": AttentionPrefill(precision="bf16"),
    "dim128_fp32": AttentionPrefill(),
    "dim64_fp32": AttentionPrefill(head_dim=64),
    "dim256_bf16": AttentionPrefill(q_heads=16, head_dim=256, precision="bf16", causal=False, softcap=50.0),
    # gpt-oss
    "dim64_window_sinks_bf16": AttentionPrefill(
        q_heads=64, kv_heads=8, head_dim=64, precision="bf16", window=128, sinks=True
    ),
}


def compile_specs(target: str) -> list[KernelSpec]:
    """Return the kernel for heads of 64, 128 and (bf16) 256, with a softcap, and with a window and sinks."""
    specs = []
    for name, w in _SPECS.items():
        constants, options = _config(target, w.precision, w.head_dim)
        signature: dict[str, str] = {
            **dict.fromkeys(("q", "k", "v", "out"), f"*{w.precision}"),
            **dict.fromkeys(("query_offsets", "key_offsets"), "*i32"),
            **dict.fromkeys(("sinks", "lse"), "*fp32"),
            **dict.fromkeys(("query_tokens", "key_tokens", "window"), "i32"),
            **dict.fromkeys(("scale", "cap"), "fp32"),
        }
        launch = options["num_warps"], options["num_stages"]
        specs.append(KernelSpec(name, attend, signature, {**_shape(w), "SINKS": w.sinks, **constants}, *launch))
    return specs
