"""Triton: a program rotates and writes some heads of a token. One launch."""

from __future__ import annotations

from typing import Any

import triton

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_stored, to_tensor
from ...triton_support import KernelSpec
from .operator import KvAppend, read_back
from .triton_append import append_token

_WARPS = 4
# Numbers of a program's part of the keys.
_TILE = 1024


def _shape(w: KvAppend) -> dict[str, Any]:
    half = triton.next_power_of_2(w.head_dim // 2)
    return {"HEADS": max(1, min(triton.next_power_of_2(w.kv_heads), _TILE // (2 * half))), "HALF": half}


@implementation("attention.kv_append", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """The pages are copied here; a run writes the same slots again."""
    w = inputs.workload
    assert isinstance(w, KvAppend)
    a = {name: to_tensor(array, device, copy=True) for name, array in inputs.arrays.items()}
    shape = _shape(w)
    # The launch syntax is beyond type checkers.
    append: Any = append_token

    def run() -> None:
        append[(w.batch * w.new_tokens, triton.cdiv(w.kv_heads, shape["HEADS"]))](
            a["k"], a["v"], a["k_pages"], a["v_pages"], a["page_table"], a["starts"], a["rotary"],
            w.new_tokens, a["page_table"].shape[1], w.kv_heads, w.page_size, w.head_dim, **shape, num_warps=_WARPS,
        )  # fmt: skip

    def output() -> Arrays:
        return read_back(to_stored(a["k_pages"]), to_stored(a["v_pages"]), inputs)

    return Prepared(run, output)


def compile_specs(target: str) -> list[KernelSpec]:
    """Return the write of both precisions, of Qwen3-30B-A3B's heads."""
    lists = {"page_table": "*i32", "starts": "*i32", "rotary": "*fp32"}
    numbers = dict.fromkeys(("new_tokens", "most_pages", "heads", "page_size", "dim"), "i32")
    specs = []
    for element in ("bf16", "fp32"):
        signature = {**dict.fromkeys(("k", "v", "k_pages", "v_pages"), f"*{element}"), **lists, **numbers}
        specs.append(KernelSpec(f"append_{element}", append_token, signature, _shape(KvAppend()), _WARPS, 2, ("dim",)))
    return specs
