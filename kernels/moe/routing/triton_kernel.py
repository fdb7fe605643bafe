"""Triton: choose, scan, place; and pad, where experts' rows are padded. Three launches, or four."""

from __future__ import annotations

from typing import Any

import triton

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_tensor
from ...triton_support import KernelSpec
from .operator import Routing
from .reference import SIGMOID_EPSILON
from .triton_permute import routing_pad, routing_place, routing_scan
from .triton_select import routing_choose

# Keys of a block of tokens: 16 of 64 bits per thread at four warps, which leaves registers for the sort.
_KEYS_PER_PROGRAM = 2048
# A block's choices are ranked by comparing all pairs.
_CHOICES_PER_PROGRAM = 64
_SCAN = {"ROWS": 128, "EXPERTS": 16}
_PAD_ROWS = 128


def _power(number: int) -> int:
    return max(2, triton.next_power_of_2(number))


def _shapes(w: Routing) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Return the constants of the choosing and of the placing kernel, and the tokens of a program."""
    groups = 1 if w.groups == 1 else _power(w.groups)
    size = _power(w.experts // w.groups)
    choices, bins = _power(w.top_k), _power(w.experts)
    tokens = max(1, min(_CHOICES_PER_PROGRAM // choices, _KEYS_PER_PROGRAM // (groups * size)))
    gate = 2 if w.gate == "sigmoid" else 1 if w.gate == "softmax" and not w.renormalize else 0
    choose = {
        "GATE": gate,
        "RENORMALIZE": w.renormalize,
        "TOKENS": tokens,
        "GROUPS": groups,
        "SIZE": size,
        "KEPT": min(_power(w.groups_kept), groups),
        "CHOICES": min(choices, groups * size),
        "BINS": bins,
        "EPSILON": SIGMOID_EPSILON,
    }
    return choose, {"SLOTS": _power(tokens * w.top_k), "BINS": bins}, tokens


def _warps(shape: dict[str, Any]) -> int:
    keys = shape["TOKENS"] * shape["GROUPS"] * shape["SIZE"]
    return max(1, min(4, keys // 256))  # 16 keys per lane and warp spill on sm_120


def bind(w: Routing, logits: Any, bias: Any, device: str) -> tuple[Any, dict[str, Any]]:
    """Return what launches the work on given tensors (``bias`` for sigmoid, or None), and the tensors that it fills.

    All buffers are made here; deterministic, with no atomics in device memory.
    """
    import torch

    choose_shape, place_shape, per_program = _shapes(w)
    programs = -(-w.tokens // per_program)

    def empty(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.int32, device=device)

    weights = torch.empty((w.tokens, w.top_k), dtype=torch.float32, device=device)
    out = {"weights": weights, "experts": empty(w.tokens, w.top_k), "counts": empty(w.experts)}
    out |= {"offsets": empty(w.experts + 1), "source": empty(w.capacity)}
    if w.block > 1:
        out["block_expert"] = empty(w.capacity // w.block)
    partial = empty(programs, w.experts)
    # The launch syntax is beyond type checkers.
    choose, scan, place, pad = (_launchable(k) for k in (routing_choose, routing_scan, routing_place, routing_pad))
    scale = float(w.scale)

    def run() -> None:
        choose[(programs,)](
            logits, weights if bias is None else bias, weights, out["experts"], partial, w.tokens, w.experts,
            w.top_k, w.groups, w.groups_kept,
            scale, **choose_shape, num_warps=_warps(choose_shape),
        )  # fmt: skip
        scan[(triton.cdiv(w.experts, _SCAN["EXPERTS"]),)](
            partial, out["counts"], programs, w.experts, **_SCAN, num_warps=4
        )
        place[(programs,)](
            out["experts"], partial, out["counts"], out["offsets"], out["source"], w.slots, w.experts, w.block,
            per_program * w.top_k, **place_shape, num_warps=4,
        )  # fmt: skip
        if w.block > 1:
            pad[(w.experts + 1,)](
                out["counts"], out["source"], out["block_expert"], w.slots, w.experts, w.block, w.capacity,
                BINS=choose_shape["BINS"], ROWS=_PAD_ROWS, num_warps=1,
            )  # fmt: skip

    return run, out


@implementation("moe.routing", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """See `bind`."""
    w = inputs.workload
    assert isinstance(w, Routing)
    bias = to_tensor(inputs.arrays["bias"], device) if "bias" in inputs.arrays else None
    run, out = bind(w, to_tensor(inputs.arrays["logits"], device), bias, device)

    def output() -> Arrays:
        return {name: value.cpu().numpy() for name, value in out.items()}

    return Prepared(run, output)


def _launchable(kernel: Any) -> Any:
    return kernel


def _signature(pointers: str, integers: str) -> dict[str, str]:
    return dict.fromkeys(pointers.split(), "*i32") | dict.fromkeys(integers.split(), "i32")


# What models ask for: Qwen3, DeepSeek-V3, gpt-oss and Nemotron 3 Ultra.
_MODELS = {
    "qwen3": Routing(experts=128, top_k=8),
    "deepseek_v3": Routing(experts=256, top_k=8, gate="sigmoid", groups=8, groups_kept=4, scale=2.5),
    "gpt_oss_bf16": Routing(experts=128, top_k=4, gate="softmax_after_topk", precision="bf16"),
    "nemotron_3_ultra": Routing(experts=512, top_k=22, gate="sigmoid", scale=5.0, block=128),
}


def compile_specs(target: str) -> list[KernelSpec]:
    """Return the kernels as launched for the routing of four models."""
    specs = []
    for name, w in _MODELS.items():
        choose_shape, place_shape, _ = _shapes(w)
        element = "fp32" if w.precision == "fp32" else "bf16"
        numbers = dict.fromkeys(("tokens", "experts", "top_k", "groups", "groups_kept"), "i32")
        pointers = {"bias": "*fp32", "weights": "*fp32", "experts_out": "*i32", "partial": "*i32"}
        signature = {"logits": f"*{element}", **pointers, **numbers, "scale": "fp32"}
        specs.append(
            KernelSpec(f"choose_{name}", routing_choose, signature, choose_shape, _warps(choose_shape), 2, ("experts",))
        )
        place = _signature("chosen partial counts offsets source", "slots experts block per_program")
        specs.append(KernelSpec(f"place_{name}", routing_place, place, place_shape, 4, 2, ("experts",)))
    scan = _signature("partial counts", "programs experts")
    pad = _signature("counts source block_expert", "slots experts block capacity")
    return [
        *specs,
        KernelSpec("scan", routing_scan, scan, _SCAN, 4, 2, ("experts",)),
        KernelSpec("pad", routing_pad, pad, {"BINS": 512, "ROWS": _PAD_ROWS}, 1, 2, ("experts",)),
    ]
