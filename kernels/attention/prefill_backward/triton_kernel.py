"""Triton: three launches, for the sums of dout times out, for dq, and for dk and dv."""

from __future__ import annotations

from typing import Any

import triton

from ...contract import Arrays, Inputs, Prepared
from ...matmul.triton_configs import device_target
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor
from ...triton_support import KernelSpec
from .operator import AttentionPrefillBackward
from .triton_gradients import key_gradients, query_gradients, row_products

# (queries, keys, warps, stages) by padded head dimension: no spills on any target with bf16 heads of 64 and 128.
_BF16 = {
    "queries": {64: (64, 64, 8, 2), 128: (64, 64, 8, 1), 256: (32, 32, 8, 1)},
    "keys": {64: (32, 64, 8, 2), 128: (32, 64, 8, 1), 256: (32, 32, 8, 1)},
}
_BF16_HIP = {64: (32, 32, 4, 1), 128: (32, 32, 8, 1), 256: (32, 32, 8, 1)}
_FP32 = {64: (16, 16, 4, 1), 128: (16, 16, 8, 1), 256: (16, 16, 8, 1)}
_LEAST_DIMS = 64


def _config(target: str, w: AttentionPrefillBackward, part: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Return compile-time parameters and launch options of the gradients of ``queries`` or of ``keys``."""
    dims = max(_LEAST_DIMS, triton.next_power_of_2(w.head_dim))
    bf16 = _BF16[part] if target.startswith("sm_") else _BF16_HIP
    bm, bn, warps, stages = (_FP32 if w.precision == "fp32" else bf16)[dims]
    constants = {
        "HEADS": w.q_heads,
        "KV_HEADS": w.kv_heads,
        "DIM": w.head_dim,
        "CAUSAL": w.causal,
        "WINDOW": w.window > 0,
        "DIMS": dims,
        "BM": bm,
        "BN": bn,
        "PRECISION": "tf32x3" if target.startswith("sm_") and w.precision == "fp32" else "ieee",
    }
    return constants, {"num_warps": warps, "num_stages": stages}


@implementation("attention.prefill_backward", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Outputs are made here."""
    import torch

    w, arrays = inputs.workload, inputs.arrays
    assert isinstance(w, AttentionPrefillBackward)
    target = device_target(device)
    of_query, query_options = _config(target, w, "queries")
    of_key, key_options = _config(target, w, "keys")
    names = ("q", "k", "v", "dout", "lse", "out", "query_offsets", "key_offsets")
    q, k, v, dout, lse, out, *starts = (to_tensor(arrays[name], device) for name in names)
    sums = torch.empty_like(lse)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    query_grid = (triton.cdiv(w.length, of_query["BM"]), w.q_heads, w.batch)
    key_grid = (triton.cdiv(w.length + w.prefix, of_key["BN"]), w.kv_heads, w.batch)
    # The launch syntax is beyond type checkers.
    products: Any = row_products
    of_queries: Any = query_gradients
    of_keys: Any = key_gradients
    common = (q, k, v, dout, lse, sums, *starts)

    def run() -> None:
        products[(lse.numel(),)](out, dout, sums, ROWS_DIM=w.head_dim, DIMS=of_key["DIMS"], num_warps=1)
        of_queries[query_grid](*common, dq, w.window, w.scale, **of_query, **query_options)
        of_keys[key_grid](*common, dk, dv, w.window, w.scale, **of_key, **key_options)

    def output() -> Arrays:
        return {"dq": to_array(dq), "dk": to_array(dk), "dv": to_array(dv)}

    return Prepared(run, output)


def compile_specs(target: str) -> list[KernelSpec]:
    """Return the kernels in bf16 for heads of 128, and of 64 with a window."""
    sums: dict[str, str] = {"out": "*bf16", "dout": "*bf16", "sums": "*fp32"}
    specs = [KernelSpec("sums_dim128_bf16", row_products, sums, {"ROWS_DIM": 128, "DIMS": 128}, 1, 2)]
    for name, w in {
        "dim128_bf16": AttentionPrefillBackward(precision="bf16"),
        "dim64_window_bf16": AttentionPrefillBackward(head_dim=64, precision="bf16", window=128),
    }.items():
        element = f"*{w.precision}"
        common = dict.fromkeys(("q", "k", "v", "dout", "dq", "dk", "dv"), element)
        numbers = {"query_offsets": "*i32", "key_offsets": "*i32", "window": "i32", "scale": "fp32"}
        types = {**common, **dict.fromkeys(("lse", "sums"), "*fp32"), **numbers}
        for part, kernel in (("queries", query_gradients), ("keys", key_gradients)):
            constants, options = _config(target, w, part)
            launch = options["num_warps"], options["num_stages"]
            signature = {n: kind for n, kind in types.items() if n in kernel.arg_names}
            specs.append(KernelSpec(f"{part}_{name}", kernel, signature, constants, *launch))
    return specs
