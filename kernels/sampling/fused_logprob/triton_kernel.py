"""Triton: logits live in registers, tile by tile; the gradient of a chunk of them goes to two plain products."""

from __future__ import annotations

import math
from typing import Any

import triton

from ...contract import Arrays, Inputs, Prepared
from ...registry import implementation
from ...torch_arrays import to_array, to_tensor, torch_dtype
from ...triton_support import KernelSpec
from .operator import FusedLogprob, check_tokens
from .triton_reduction import logits_gradient, merge_pieces, reduce_logits

_LOG2_E = math.log2(math.e)
# Tokens whose gradients are held at once: 4096 rows of them are under 5 % of the logits of any vocabulary from 82,000.
_CHUNK = 4096
_PROGRAMS_PER_SM = 2


def _tile(precision: str, amd: bool) -> dict[str, Any]:
    """Return the tile, as large as registers hold; fp32 by three products of tf32 on NVIDIA, as it is on AMD."""
    if precision == "bf16":
        return {"BM": 128, "BN": 128, "BK": 32, "PRECISION": "ieee"}
    return {"BM": 64, "BN": 64, "BK": 16 if amd else 32, "PRECISION": "ieee" if amd else "tf32x3"}


def _launch(precision: str) -> dict[str, int]:
    return {"num_warps": 8, "num_stages": 3} if precision == "bf16" else {"num_warps": 4, "num_stages": 2}


def _span(rows: int, vocab: int, bm: int, bn: int, device: str) -> int:
    """Return how many tokens a program goes over, whole tiles, so that the device has programs enough."""
    import torch

    # In the interpreter several, so that the merge is tested.
    processors = 4 if device == "cpu" else torch.cuda.get_device_properties(device).multi_processor_count
    pieces = max(1, min(-(-processors * _PROGRAMS_PER_SM // -(-rows // bm)), -(-vocab // bn)))
    return -(-vocab // pieces // bn) * bn if pieces > 1 else -(-vocab // bn) * bn


@implementation("sampling.fused_logprob", backend="triton", devices=("cuda",))
def prepare(inputs: Inputs, device: str) -> Prepared:
    """Move everything to the device; all buffers are made here."""
    import torch

    w = inputs.workload
    assert isinstance(w, FusedLogprob)
    check_tokens(inputs)
    t = {name: to_tensor(array, device) for name, array in inputs.arrays.items()}
    tile, launch = _tile(w.precision, bool(torch.version.hip)), _launch(w.precision)
    span = _span(w.rows, w.vocab, tile["BM"], tile["BN"], device)
    pieces = -(-w.vocab // span)

    def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=device)

    partial = [empty(pieces, w.rows) for _ in range(3)]
    out = {"logprob": empty(w.rows)}
    log_sum, scale = empty(w.rows), _LOG2_E / w.temperature
    sizes = (w.rows, w.vocab, w.width, scale)
    chunk = min(_CHUNK, w.vocab)
    if w.backward:
        out |= {"grad_hidden": empty(w.rows, w.width), "grad_weight": empty(w.vocab, w.width)}
    kind = torch_dtype(w.precision)
    gradient = empty(w.rows * chunk, dtype=kind) if w.backward else empty(0)
    factor = t["grad"] / w.temperature if w.backward else empty(0)
    blocks = triton.cdiv(w.rows, tile["BM"])
    # The launch syntax is beyond type checkers.
    reduce_kernel: Any = reduce_logits
    merge_kernel: Any = merge_pieces
    gradient_kernel: Any = logits_gradient

    def backward() -> None:
        out["grad_hidden"].zero_()
        for first in range(0, w.vocab, chunk):
            count = min(chunk, w.vocab - first)
            g = gradient[: w.rows * count].view(w.rows, count)
            gradient_kernel[(blocks, triton.cdiv(count, tile["BN"]))](
                t["hidden"], t["weight"], t["token"], log_sum, factor, g, *sizes, first, count, **tile, **launch
            )
            out["grad_hidden"] += g @ t["weight"][first : first + count]
            out["grad_weight"][first : first + count] = g.T @ t["hidden"]

    def run() -> None:
        reduce_kernel[(blocks, pieces)](
            t["hidden"], t["weight"], t["token"], *partial, *sizes, span, **tile, **launch
        )  # fmt: skip
        power = triton.next_power_of_2(pieces)
        merge_kernel[(w.rows,)](*partial, out["logprob"], log_sum, w.rows, pieces, PIECES=power, num_warps=1)
        if w.backward:
            backward()

    def output() -> Arrays:
        return {name: to_array(value) for name, value in out.items()}

    return Prepared(run, output)


def compile_specs(target: str) -> list[KernelSpec]:
    """Return the reduction and the gradient of fp32 and bf16, and the merge."""
    specs = []
    partial = dict.fromkeys(("tops", "totals", "chosen"), "*fp32")
    for element in ("fp32", "bf16"):
        tile, launch = _tile(element, target.startswith("gfx")), _launch(element)
        inputs = {"hidden": f"*{element}", "weight": f"*{element}", "token": "*i64"}
        sizes = {"rows": "i32", "vocab": "i32", "width": "i32", "scale": "fp32"}
        reduction = {**inputs, **partial, **sizes, "span": "i32"}
        gradient = {**inputs, "log_sum": "*fp32", "factor": "*fp32", "out": f"*{element}", **sizes}
        gradient |= {"first": "i32", "count": "i32"}
        options = (launch["num_warps"], launch["num_stages"], ("vocab", "width", "span", "first", "count"))
        specs.append(KernelSpec(f"reduce_logits_{element}", reduce_logits, reduction, tile, *options))
        specs.append(KernelSpec(f"logits_gradient_{element}", logits_gradient, gradient, tile, *options))
    merge = {**partial, "logprob": "*fp32", "log_sum": "*fp32", "rows": "i32", "pieces": "i32"}
    specs.append(KernelSpec("merge_pieces", merge_pieces, merge, {"PIECES": 16}, 1, 2))
    return specs
