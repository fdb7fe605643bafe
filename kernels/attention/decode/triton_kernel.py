"""Triton: split-KV decode attention; with enough sequences a sequence is one chunk and there is no merge."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import triton

from ...contract import Inputs, Prepared
from ...precision import BYTES
from ...registry import implementation
from ...triton_support import KernelSpec, is_interpreting
from .operator import AttentionDecode
from .triton_split import decode_chunk, decode_merge

_LOG2_E = math.log2(math.e)
_LEAST_ROWS = 16  # of a matrix instruction
_PROGRAMS_PER_SM = 4
# Of the keys of a step, as many of values: what stays within the registers.
_TILE_BYTES, _TILE_BYTES_HIP = 16384, 8192


def _tile(w: AttentionDecode, hip: bool) -> dict[str, Any]:
    dims = triton.next_power_of_2(w.head_dim)
    keys = (_TILE_BYTES_HIP if hip else _TILE_BYTES) // (dims * BYTES[w.precision])
    rows = max(_LEAST_ROWS, triton.next_power_of_2(w.query_tokens * w.group))
    return {"ROWS": rows, "DIMS": dims, "KEYS": max(16, min(keys, 32 if hip else 128))}


def _shape(w: AttentionDecode) -> dict[str, Any]:
    return {
        "KV_HEADS": w.kv_heads,
        "GROUP": w.group,
        "TOKENS": w.query_tokens,
        "DIM": w.head_dim,
        "PAGE": w.page_size,
        "WINDOW": w.window > 0,
        "SINKS": w.sinks,
    }


def _merge_shape(w: AttentionDecode, dims: int) -> dict[str, Any]:
    shape = {name: value for name, value in _shape(w).items() if name not in ("KV_HEADS", "GROUP", "PAGE")}
    return {**shape, "HEADS": w.q_heads, "DIMS": dims}


def _arithmetic(precision: str, hip: bool) -> dict[str, Any]:
    """Return what is multiplied and how: on NVIDIA fp32 as three tf32 products, nearly as exact."""
    # The interpreter's dot takes the bits of bf16 for whole numbers.
    return {"WIDEN": is_interpreting(), "PRECISION": "tf32x3" if precision == "fp32" and not hip else "ieee"}


def _options(tile: dict[str, Any], hip: bool) -> tuple[int, int]:
    """Return warps and stages: steps of keys are on their way while one is worked on."""
    return (4 if tile["ROWS"] <= 32 else 8), (2 if hip else 3)


def _chunk_keys(w: AttentionDecode, keys: int, device: str) -> int:
    """Return keys per program, whole steps, so that the device has programs enough and all but the last are equal."""
    import torch

    # In the interpreter a few, so that the merge is tested.
    processors = 1 if device == "cpu" else torch.cuda.get_device_properties(device).multi_processor_count
    lengths = w.sequence_lengths()
    visible = sum(min(n, w.window + w.query_tokens - 1) if w.window else n for n in lengths) * w.kv_heads
    return max(1, -(-visible // (processors * _PROGRAMS_PER_SM * keys))) * keys


@implementation("attention.decode", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Keys are split over programs in equal chunks; all buffers are made here. One launch, or two with a merge."""
    import torch

    w, arrays = inputs.workload, inputs.arrays
    assert isinstance(w, AttentionDecode)

    def upload(name: str) -> torch.Tensor:
        stored = arrays[name]
        if stored.dtype == np.uint16:
            return torch.from_numpy(stored.view(np.int16)).view(torch.bfloat16).to(device)
        return torch.from_numpy(stored).to(device)

    def empty(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.float32, device=device)

    hip = torch.version.hip is not None
    tile = _tile(w, hip)
    chunk = _chunk_keys(w, tile["KEYS"], device)
    most = min(w.context, w.window + w.query_tokens - 1) if w.window else w.context
    splits = -(-most // chunk)
    rows = w.batch * w.query_tokens * w.q_heads
    lengths, sinks = upload("lengths"), upload("sinks") if w.sinks else empty(1)
    tensors = [upload(name) for name in ("q", "k_pages", "v_pages", "page_table")]
    parts = [empty(rows, splits), empty(rows, splits), empty(rows, splits, w.head_dim if splits > 1 else 0)]
    out, lse = empty(w.batch, w.query_tokens, w.q_heads, w.head_dim), empty(w.batch, w.query_tokens, w.q_heads)
    warps, stages = _options(tile, hip)
    arithmetic = _arithmetic(w.precision, hip)
    # The launch syntax is beyond type checkers.
    attend: Any = decode_chunk
    merge: Any = decode_merge

    def run() -> None:
        attend[(w.batch, w.kv_heads, splits)](
            *tensors, lengths, sinks, *parts, out, lse, arrays["page_table"].shape[1], w.window, splits, chunk,
            w.scale * _LOG2_E, **_shape(w), **tile, SPLIT=splits > 1, **arithmetic,
            num_warps=warps, num_stages=stages,
        )  # fmt: skip
        if splits > 1:
            merge[(rows,)](
                lengths, sinks, *parts, out, lse, w.window, splits, chunk, **_merge_shape(w, tile["DIMS"]), num_warps=1
            )

    return Prepared(run, lambda: {"out": out.cpu().numpy(), "lse": lse.cpu().numpy()})


def compile_specs(target: str) -> list[KernelSpec]:
    """Return both kernels for heads of 128 in groups of 8, and of 64 with a window and sinks, as split."""
    integers = {"window": "i32", "splits": "i32", "chunk": "i32"}
    parts = dict.fromkeys(("sinks", "tops", "sums", "products", "out", "lse"), "*fp32")
    specs, hip = [], target.startswith("gfx")
    for name, w in (
        ("fp32", AttentionDecode(kv_heads=4)),
        ("bf16", AttentionDecode(kv_heads=4, precision="bf16")),
        ("bf16_window", AttentionDecode(q_heads=64, kv_heads=8, head_dim=64, precision="bf16", window=128, sinks=True)),
    ):
        element = f"*{w.precision}"
        pointers = {"q": element, "k_pages": element, "v_pages": element, "page_table": "*i32", "lengths": "*i32"}
        chunk = {**pointers, **parts, "table_width": "i32", **integers, "scale": "fp32"}
        tile = _tile(w, hip)
        dot = {"SPLIT": True, **_arithmetic(w.precision, hip)}
        warps, stages = _options(tile, hip)
        merge = {"lengths": "*i32", **parts, **integers}
        specs += [
            KernelSpec(f"chunk_{name}", decode_chunk, chunk, {**_shape(w), **tile, **dot}, warps, stages, ("chunk",)),
            KernelSpec(f"merge_{name}", decode_merge, merge, _merge_shape(w, tile["DIMS"]), 1, 2, ("chunk",)),
        ]
    return specs
