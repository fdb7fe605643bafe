"""Triton: one program per row; bias and penalties change a copy of the logits first."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import triton

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...triton_support import KernelSpec
from ..exact_weights import weight_unit
from .operator import TopKTopP, check_lists
from .triton_row import add_bias, penalise, sample_rows

_WARPS = 16
_BLOCK = 4096
_LIST_BLOCK = 256


def _row_constants(arrays: Arrays) -> Arrays:
    """Return what a row's parameters come to, in float64: log2(e) / T, T log(min_p), and top-p."""
    temperature, min_p = arrays["temperature"].astype(np.float64), arrays["min_p"].astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.where(temperature > 0, math.log2(math.e) / temperature, 0.0)
        shift = np.where(min_p > 0, temperature * np.log(min_p), -np.inf)
    return {"power": power, "least_shift": shift, "top_p": arrays["top_p"].astype(np.float64)}


@implementation("sampling.top_k_top_p", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Move everything to the device; all buffers are made here."""
    import torch

    assert isinstance(inputs.workload, TopKTopP)
    check_lists(inputs)
    arrays = inputs.arrays
    stored = arrays["logits"]
    rows, vocab = stored.shape
    bf16 = stored.dtype == np.uint16
    host = torch.from_numpy(stored.view(np.int16)).view(torch.bfloat16) if bf16 else torch.from_numpy(stored)
    logits = host.to(device)
    others = {k: v for k, v in arrays.items() if k != "logits"} | _row_constants(arrays)
    t = {name: torch.from_numpy(array).to(device) for name, array in others.items()}
    seen, biased = arrays["seen_token"].shape[1], arrays["bias_token"].shape[1]
    work = torch.empty((rows, vocab), dtype=torch.float32, device=device) if seen or biased else logits
    out = {
        "token": torch.empty(rows, dtype=torch.int32, device=device),
        "logprob": torch.empty(rows, dtype=torch.float32, device=device),
        "kept": torch.empty(rows, dtype=torch.int32, device=device),
    }
    names = ("temperature", "power", "least_shift", "top_k", "top_p", "seed", "offset")
    row_arguments = [t[name] for name in names]
    block = min(_BLOCK, triton.next_power_of_2(vocab))
    # The launch syntax is beyond type checkers.
    bias_kernel: Any = add_bias
    penalty_kernel: Any = penalise
    sample_kernel: Any = sample_rows

    def run() -> None:
        if seen or biased:
            work.copy_(logits)
        if biased:
            grid = (rows, triton.cdiv(biased, _LIST_BLOCK))
            bias_kernel[grid](work, vocab, t["bias_token"], t["bias"], biased, BLOCK=_LIST_BLOCK, num_warps=4)
        if seen:
            grid = (rows, triton.cdiv(seen, _LIST_BLOCK))
            penalties = t["repetition"], t["presence"], t["frequency"]
            lists = t["seen_token"], t["seen_count"], seen
            penalty_kernel[grid](work, vocab, *lists, *penalties, BLOCK=_LIST_BLOCK, num_warps=4)
        sample_kernel[(rows,)](
            work, vocab, *row_arguments, *out.values(), weight_unit(vocab), BLOCK=block, num_warps=_WARPS
        )

    def output() -> Arrays:
        return {name: value.cpu().numpy() for name, value in out.items()}

    return Prepared(run, output)


def compile_specs(target: str) -> list[KernelSpec]:
    """Return the sampler for fp32 and bf16 logits, and the kernels of bias and penalties."""
    specs = []
    lists = {"BLOCK": _LIST_BLOCK}
    for element in ("fp32", "bf16"):
        signature = {
            "logits": f"*{element}",
            "vocab": "i32",
            "temperature": "*fp32",
            "power": "*fp64",
            "least_shift": "*fp64",
            "top_k": "*i32",
            "top_p": "*fp64",
            "seed": "*i64",
            "offset": "*i64",
            "token": "*i32",
            "logprob": "*fp32",
            "count": "*i32",
            "unit_weight": "fp32",
        }
        name = f"sample_rows_{element}"
        specs.append(KernelSpec(name, sample_rows, signature, {"BLOCK": _BLOCK}, _WARPS, 2, ("vocab",)))
    work = {"work": "*fp32", "vocab": "i32"}
    bias = {**work, "bias_token": "*i32", "bias": "*fp32", "biased": "i32"}
    seen = {**work, "seen_token": "*i32", "seen_count": "*i32", "seen": "i32"}
    seen |= dict.fromkeys(("repetition", "presence", "frequency"), "*fp32")
    specs.append(KernelSpec("add_bias", add_bias, bias, lists, 4, 2, ("vocab",)))
    specs.append(KernelSpec("penalise", penalise, seen, lists, 4, 2, ("vocab",)))
    return specs
